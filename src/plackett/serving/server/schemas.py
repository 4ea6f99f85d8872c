"""JSON schemas of what goes in and out."""

from __future__ import annotations

from typing import Any

from plackett.serving.server.bodies.careful import ABSENT
from plackett.serving.server.settings import Limits

_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}
_NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "number"}}
_ROWS: dict[str, Any] = {"type": "array", "items": _NUMBERS}
_FEATURE: dict[str, Any] = {
    "type": ["number", "null"],
    "minimum": -3.4e38,
    "maximum": 3.4e38,
    "description": "null is missing",
}
_IDS: dict[str, Any] = {"type": "array", "items": {"type": ["string", "integer"]}}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": required | (optional or {}),
    }


_RANKED = {
    "scores": _NUMBERS | {"description": "One per document, in the order of the request"},
    "order": {
        "type": "array",
        "items": {"type": "integer", "minimum": 0},
        "description": "Places of the documents in the request, best first; ties by place",
    },
}
_OPTIONAL = {"ids": _IDS | {"description": "The ids of the request in this order"}}
_WHICH = {"model": _TEXT, "version": _TEXT}
_EXPLAINED = {"contributions": _ROWS | {"description": "Documents x features"}}
_METHOD = {
    "method": {"type": "string", "enum": ["shap", "weights", "replacement"]},
    "note": _TEXT,
    "base": {"type": "number"},
    "features": _TEXTS,
}
_NAMED = {"name": _TEXT, "version": _TEXT}


def _one_or_many(
    head: dict[str, Any], part: dict[str, Any], optional: dict[str, Any]
) -> dict[str, Any]:
    batch = {"lists": {"type": "array", "items": _object(part, optional)}}
    return {"anyOf": [_object(head | part, optional), _object(head | batch)]}


SCHEMAS: dict[str, Any] = {
    "Ranking": _one_or_many(_WHICH, _RANKED, _OPTIONAL),
    "Explanation": _one_or_many(_WHICH | _METHOD, _RANKED | _EXPLAINED, _OPTIONAL),
    "Models": _object(
        {"models": {"type": "array", "items": _object(_NAMED | {"versions": _TEXTS})}}
    ),
    "Model": _object(
        _NAMED
        | {
            "kind": _TEXT,
            "recipe": {"type": ["string", "null"]},
            "summary": _TEXT,
            "takes_missing": {"type": "boolean"},
            "features": _TEXTS,
        }
    ),
    "Examples": _object(
        _WHICH
        | {
            "made_up": {"type": "boolean"},
            "examples": {
                "type": "array",
                "items": _object({"name": _TEXT, "documents": {"type": "array"}, "ids": _IDS}),
            },
        }
    ),
    "Reload": _object(
        {
            "loaded": {"type": "array", "items": _object(_NAMED)},
            "removed": {"type": "array", "items": _object(_NAMED)},
            "problems": _TEXTS,
        }
    ),
    "Ready": _object({"status": _TEXT, "models": {"type": "integer"}}),
    "Problem": _object({"title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT}),
}
"""Schemas that are the same for every server."""


def lists_schema(limits: Limits) -> dict[str, Any]:
    """What is ranked: one list or a batch of lists, within the limits of a server."""
    document = {
        "anyOf": [
            {"type": "array", "items": _FEATURE, "description": "All features in their order"},
            {
                "type": "object",
                "additionalProperties": _FEATURE,
                "description": "Features by name",
            },
        ]
    }
    documents = {
        "type": "array",
        "items": document,
        "minItems": 1,
        "maxItems": limits.documents,
    }
    ids = _IDS | {"description": "One per document; comes back in the order of the ranking"}
    common = {
        "top": {"type": "integer", "minimum": 1, "description": "Length of the order. [all]"},
        "absent": {
            "type": "string",
            "enum": list(ABSENT),
            "default": "refuse",
            "description": "How to read features that a document by name leaves out",
        },
    }
    one = _object({"documents": documents}, {"ids": ids}) | {"additionalProperties": False}
    batch = {"type": "array", "items": one, "minItems": 1, "maxItems": limits.lists}
    return {
        "anyOf": [
            _object({"documents": documents}, {"ids": ids, **common})
            | {"additionalProperties": False},
            _object({"lists": batch}, common) | {"additionalProperties": False},
        ]
    }
