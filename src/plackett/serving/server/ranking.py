"""From the bytes of a request to the bytes of its answer; runs in a thread of its own.

Reading and scoring release the interpreter's lock, so these threads run beside each other and
beside the event loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from plackett.base.ragged import Scores
from plackett.serving.server.bodies import Lists, read_json, read_raw
from plackett.serving.server.bodies.raw_body import SIZES
from plackett.serving.server.explaining import NOTES, explain
from plackett.serving.server.http import BYTES, JSON, Request, Response
from plackett.serving.server.models import Model
from plackett.serving.server.refusals import Refusal
from plackett.serving.server.settings import Limits

_NOT_ACCEPTABLE, _TOO_LARGE, _UNSUPPORTED = 406, 413, 415


@dataclass(frozen=True)
class Question:
    """What is asked of a model, apart from the body."""

    what: Literal["rank", "explain"]
    raw: bool
    """The body is bytes, not JSON."""
    sizes: str | None
    """Of the lists in a body of bytes."""
    bytes_wanted: bool
    """The answer shall be the scores as bytes."""


def question_of(request: Request, what: Literal["rank", "explain"]) -> Question:
    """Check what the headers say about the body."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refusal(_UNSUPPORTED, "bodies must not be compressed.")
    if request.media_type not in (JSON, BYTES):
        raise Refusal(_UNSUPPORTED, f"content-type must be {JSON} or {BYTES}.")
    wanted = request.headers.get("accept", "").strip().lower() == BYTES
    if wanted and what == "explain":
        raise Refusal(_NOT_ACCEPTABLE, f"explanations come as {JSON} only.")
    sizes = request.headers.get(SIZES)
    return Question(what, request.media_type == BYTES, sizes, wanted)


def answer(body: bytes, model: Model, question: Question, limits: Limits) -> tuple[Response, Lists]:
    """Read, score, write; raises :class:`Refusal`."""
    if question.raw:
        lists = read_raw(body, question.sizes, model.names, limits)
    else:
        lists = read_json(body, model.names, limits)
    if question.what == "explain" and lists.n_docs > limits.explained:
        raise Refusal(
            _TOO_LARGE,
            f"{lists.n_docs} documents; at most {limits.explained} are explained at a time.",
        )
    scores = model.score(lists)
    if question.bytes_wanted:
        headers = {"x-model": model.name, "x-version": model.version}
        return Response(scores.astype("<f8").tobytes(), 200, BYTES, headers), lists
    content = _content(model, lists, scores)
    if question.what == "explain":
        _add_explanation(content, model, lists)
    return Response(to_json(content)), lists


def to_json(content: Any) -> bytes:
    """JSON of plain data and arrays."""
    import orjson

    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


def _content(model: Model, lists: Lists, scores: Scores) -> dict[str, Any]:
    parts = []
    for q in range(lists.n_lists):
        own = scores[lists.offsets[q] : lists.offsets[q + 1]]
        order = np.argsort(-own, kind="stable")[: lists.top]
        part: dict[str, Any] = {"scores": own, "order": order}
        ids = lists.ids[q]
        if ids is not None:
            part["ids"] = [ids[i] for i in order]
        parts.append(part)
    head: dict[str, Any] = {"model": model.name, "version": model.version}
    return head | parts[0] if lists.single else head | {"lists": parts}


def _add_explanation(content: dict[str, Any], model: Model, lists: Lists) -> None:
    found = explain(model, lists)
    content["method"] = found.method
    content["note"] = NOTES[found.method]
    content["base"] = found.base
    content["features"] = list(model.names.names)
    for q, part in enumerate([content] if lists.single else content["lists"]):
        own = slice(lists.offsets[q], lists.offsets[q + 1])
        part["contributions"] = np.ascontiguousarray(found.values[own])
