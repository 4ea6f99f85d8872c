r"""From the bytes of a request to the bytes of its answer; runs in a thread of its own.

Reading and scoring release the interpreter's lock, so these threads run beside each other and
beside the event loop.

What each feature adds to a document's score, by the best method a model allows.

``shap``
    Trees: SHAP values. With the base, the mean score of the training data, they sum to the score.
``weights``
    Linear models: weight times (transformed) value. They sum to the score.
``replacement``
    All other models: how much the score falls when the feature gets the median of its list,
    :math:`s(x) - s(x_{j \leftarrow \text{median}})`. Each feature alone: features that stand in for
    each other all seem to matter little, and the numbers do not sum to the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from plackett.base.ragged import Scores, list_of_document
from plackett.data.dataset import Dataset
from plackett.models.linear import LinearRanker
from plackett.models.trees import TreeRanker
from plackett.serving.server.http import BYTES, JSON, Request, Response
from plackett.serving.server.registry import Model
from plackett.serving.server.requests import SIZES, Lists, read_json, read_raw
from plackett.serving.server.scoring import ALONE
from plackett.serving.server.settings import Limits, Refusal

NOTES = {
    "shap": "SHAP values: with the base they sum to the score.",
    "weights": "Weight times value, after the model's transforms: they sum to the score.",
    "replacement": "By how much the score falls when this feature alone gets the median of its "
    "list; they do not sum to the score.",
}
_ROWS = 20_000  # scored at a time by replacement


@dataclass(frozen=True, eq=False)
class Explanation:
    """Contributions of features."""

    method: str
    base: float
    """What a score begins with, where contributions sum to it."""
    values: NDArray[np.float64]
    """One row per document, one column per feature."""


def explain(model: Model, lists: Lists) -> Explanation:
    """Contributions of the features to the score of each document."""
    with ALONE:
        if isinstance(model.ranker, TreeRanker):
            return _shap(model.ranker, lists)
        if isinstance(model.ranker, LinearRanker):
            return _weights(model.ranker, lists)
        return _replacement(model, lists)


def _weights(ranker: LinearRanker, lists: Lists) -> Explanation:
    features = lists.features
    if ranker.transform_ is not None:
        features = np.asarray(ranker.transform_.apply(features, lists.offsets))
    return Explanation("weights", 0.0, features * ranker.coefficients_)


def _shap(ranker: TreeRanker, lists: Lists) -> Explanation:
    ids = list_of_document(lists.offsets)
    data = Dataset.from_arrays(lists.features, None, ids, missing="nan")
    found = data.to_rows(ranker.contributions(data))
    return Explanation("shap", float(found[0, -1]), found[:, :-1])


def _replacement(model: Model, lists: Lists) -> Explanation:
    scores = model.scorer(lists.features, lists.offsets)
    values = np.zeros(lists.features.shape)
    for low, high in zip(lists.offsets[:-1], lists.offsets[1:], strict=True):
        part = lists.features[low:high]
        varying = np.flatnonzero((part != part[0]).any(axis=0) & ~np.isnan(part).all(axis=0))
        step = max(_ROWS // len(part), 1)
        for k in range(0, len(varying), step):
            columns = varying[k : k + step]
            changed = np.repeat(part[None], len(columns), axis=0)
            for place, j in enumerate(columns):
                changed[place, :, j] = np.nanmedian(part[:, j])
            # Each changed list is a list of its own: some models look at whole lists.
            offsets = np.arange(len(columns) + 1) * len(part)
            found = model.scorer(changed.reshape(-1, part.shape[1]), offsets)
            values[low:high, columns] = scores[low:high, None] - found.reshape(-1, len(part)).T
    return Explanation("replacement", 0.0, values)


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
