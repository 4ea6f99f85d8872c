r"""Scores, rankings and explanations of lists.

Trees are scored in the thread of the request: the compiled code releases the interpreter's lock and a document's score
depends on nothing else. Other models (linear, nets, cross-fits, trees with transforms) are scored in batches by
:class:`MicroBatcher`. Scores are the same to the bit as those of :meth:`~plackett.models.ranker.Ranker.predict`.
Contributions of features to scores are those of :mod:`plackett.models.insight`.
"""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numba
import numpy as np
from msgspec import UNSET, structs

from plackett.base.errors import DataError
from plackett.base.ragged import Features, Offsets, Scores, list_of_document
from plackett.models import AutoRanker, Ranker, TreeRanker
from plackett.models.ensembles import Ensemble, EnsembleRanker
from plackett.models.insight import NOTES, Scorer, contributions as explain_documents, method_of
from plackett.serving.server import schemas
from plackett.serving.server.http import HTTPError
from plackett.serving.server.requests import FeatureNames
from plackett.serving.server.scanner import Lists

_BATCH_DOCUMENTS = 20_000  # maximum number of documents that are scored together
# Together, lists of these lengths run every compiled loop of a tree model.
_WARM_UP_SIZES = (1, 100, 600)
_LOCK = threading.RLock()


@dataclass(frozen=True, eq=False)
class Model:
    """A loaded version of a model; never changed, only replaced."""

    name: str
    version: str
    """The beginning of the SHA-256 of its manifest, which holds the hashes of all its files."""
    path: Path
    ranker: Ranker
    names: FeatureNames
    takes_missing: bool
    is_batched: bool
    """Score requests in batches; see :class:`MicroBatcher`."""
    scorer: Scorer = field(repr=False)

    def score(self, features: Features, offsets: Offsets) -> Scores:
        """Scores of all documents; raises :class:`HTTPError` if the model cannot score them."""
        if not self.takes_missing:
            missing = np.isnan(features)
            if missing.any():
                i, j = np.argwhere(missing)[0]
                raise HTTPError(
                    422,
                    f"document {i} (counted over all lists) lacks feature "
                    f"{self.names.names[j]!a}, and this model takes no missing features.",
                )
        scores = self.scorer(features, offsets)
        if not np.isfinite(scores).all():
            raise HTTPError(
                422,
                f"document {int(np.argmin(np.isfinite(scores)))} (counted over all lists) has no "
                "finite score: its features are too large for this model.",
            )
        return scores

    def describe(self) -> schemas.ModelInfo:
        """The description of the model for clients."""
        return schemas.ModelInfo(
            name=self.name,
            version=self.version,
            kind=type(self.ranker).__name__,
            recipe=self.ranker.recipe_name,
            summary=self.ranker.summary(),
            takes_missing=self.takes_missing,
            features=list(self.names.names),
        )


def make_scorer(ranker: Ranker) -> Scorer:
    """A function from features and offsets to scores that any thread may call."""
    ensemble = plain_trees(ranker)
    if ensemble is not None:
        return lambda features, offsets: ensemble.predict(features, n_threads=1)  # noqa: ARG005

    def predict(features: Features, offsets: Offsets) -> Scores:
        with parallel_loops():
            return ranker.predict(features, query_ids=list_of_document(offsets))

    return predict


def plain_trees(ranker: Ranker) -> Ensemble | None:
    """The trees of a ranker that consists of trees only, without transforms."""
    if ranker.transform_ is not None:
        return None
    if isinstance(ranker, TreeRanker):
        return ranker._ensemble  # predict uses it too; parsing the trees again would double memory
    if isinstance(ranker, AutoRanker):
        trees, others = ranker._terms
        ensembles = trees.get(None, [])
        return ensembles[0] if len(trees) == len(ensembles) == 1 and not others else None
    return ranker.ensemble_ if isinstance(ranker, EnsembleRanker) else None


def parallel_loops() -> AbstractContextManager[object]:
    """Held around parallel loops of Numba: a lock if its threading layer needs one.

    The layers "omp" and "tbb" may be used by several threads at a time, "workqueue" may not. Numba
    chooses the layer when the first parallel loop runs.
    """
    try:
        is_threadsafe = numba.threading_layer() in ("omp", "tbb")
    except ValueError:  # no loop has run yet
        is_threadsafe = False
    return nullcontext() if is_threadsafe else _LOCK


def warm_up(scorer: Scorer, n_features: int) -> None:
    """Compile code and build layouts that the first request would otherwise wait for."""
    for n_docs in _WARM_UP_SIZES:
        scorer(np.zeros((n_docs, n_features), np.float32), np.array([0, n_docs]))


def takes_missing(scorer: Scorer, n_features: int) -> bool:
    """Whether documents may lack features."""
    try:
        scorer(np.full((2, n_features), np.nan, np.float32), np.array([0, 2]))
    except DataError:
        return False
    return True


class MicroBatcher:
    """Scores the requests that wait for a model together, in the threads of ``pool``.

    While a batch of a model is scored, further requests for this model wait; they form the next batch. A request never
    waits for others to arrive. Scoring 8 lists together takes about twice the time of one.
    """

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._queues: dict[Model, list[tuple[Lists, asyncio.Future[Scores]]]] = {}
        """Waiting requests of the models that are being scored."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def score(self, model: Model, lists: Lists) -> Scores:
        """Scores of all documents of a request."""
        future: asyncio.Future[Scores] = asyncio.get_running_loop().create_future()
        if model in self._queues:
            self._queues[model].append((lists, future))
        else:
            self._queues[model] = [(lists, future)]
            task = asyncio.create_task(self._score_queue(model))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _score_queue(self, model: Model) -> None:
        loop = asyncio.get_running_loop()
        while queue := self._queues[model]:
            n_docs = np.cumsum([lists.n_docs for lists, _ in queue])
            n_requests = max(int(np.searchsorted(n_docs, _BATCH_DOCUMENTS, side="right")), 1)
            batch, self._queues[model] = queue[:n_requests], queue[n_requests:]
            results = await loop.run_in_executor(self._pool, score_batch, model, [lists for lists, _ in batch])
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
        del self._queues[model]


def score_batch(model: Model, batch: Sequence[Lists]) -> list[Scores | Exception]:
    """Scores of several requests, or the error of each that fails."""
    try:
        if len(batch) == 1:
            return [model.score(batch[0].features, batch[0].offsets)]
        starts = np.cumsum([0, *(lists.n_docs for lists in batch)])
        offsets = [lists.offsets[1:] + start for lists, start in zip(batch, starts, strict=False)]
        features = np.concatenate([lists.features for lists in batch])
        scores = model.score(features, np.concatenate([[0], *offsets]))
        return list(np.split(scores, starts[1:-1]))
    except Exception as error:
        if len(batch) == 1:
            return [error]
        return [result for lists in batch for result in score_batch(model, [lists])]


def ranking_response(model: Model, lists: Lists, scores: Scores) -> schemas.Ranking | schemas.RankingBatch:
    """The response of a ranking."""
    parts = _rank_lists(lists, scores)
    if not lists.is_single:
        return schemas.RankingBatch(model.name, model.version, parts)
    return schemas.Ranking(model.name, model.version, parts[0].scores, parts[0].order, parts[0].ids)


def _rank_lists(lists: Lists, scores: Scores) -> list[schemas.RankedList]:
    parts = []
    for q, ids in enumerate(lists.ids):
        list_scores = scores[lists.offsets[q] : lists.offsets[q + 1]]
        order = np.argsort(-list_scores, kind="stable")[: lists.top].tolist()
        ranked_ids = UNSET if ids is None else [ids[i] for i in order]
        parts.append(schemas.RankedList(list_scores.tolist(), order, ranked_ids))
    return parts


def explanation_response(model: Model, lists: Lists, scores: Scores) -> schemas.Explanation | schemas.ExplanationBatch:
    """The response of a ranking with the contributions of features."""
    method = method_of(model.ranker)
    with nullcontext() if method == "replacement" else parallel_loops():  # model.scorer locks
        _, base, contributions = explain_documents(model.ranker, lists.features, lists.offsets, scorer=model.scorer)
    parts = _rank_lists(lists, scores)
    for q, part in enumerate(parts):
        part.contributions = contributions[lists.offsets[q] : lists.offsets[q + 1]].tolist()
    how: dict[str, Any] = {"method": method, "note": NOTES[method], "base": base, "features": list(model.names.names)}
    if not lists.is_single:
        return schemas.ExplanationBatch(model.name, model.version, parts, **how)
    return schemas.Explanation(model.name, model.version, **structs.asdict(parts[0]), **how)
