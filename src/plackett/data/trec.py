"""Data sets from and to the files of TREC: judgements (qrels) and runs.

The formats are described in :mod:`plackett.data.pairs`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.files import atomic_file
from plackett.base.ragged import Ids, Scores, list_of_document
from plackett.data.dataset import Dataset
from plackett.data.pairs import Pairs, is_run, read_qrels, read_run

__all__ = [
    "Pairs",
    "is_run",
    "judged",
    "read_qrels",
    "read_run",
    "run_lines",
    "write_qrels",
    "write_run",
]


def judged(
    run: Pairs, qrels: Pairs, *, missing_queries: Literal["omit", "zero"] = "omit"
) -> tuple[Dataset, Scores]:
    """Join a run with judgements into lists that metrics can be computed of.

    The list of a query has the documents retrieved and those judged. A document retrieved but not
    judged has label 0, as have those with negative labels; one judged but not retrieved has the
    score minus infinity, which metrics take for "not retrieved". The data set has no features, and
    its document ids give the order of ties.

    Parameters
    ----------
    run, qrels
        From :func:`read_run` and :func:`read_qrels`.
    missing_queries
        What to do with judged queries that the run lacks: "omit" them, as trec_eval does, or
        "zero", keep them with nothing retrieved, as ``trec_eval -c`` does. Queries of the run
        without judgements are always left out.

    Returns
    -------
    dataset, scores
        Aligned with each other.
    """
    if missing_queries not in ("omit", "zero"):
        raise UsageError(f'missing_queries must be "omit" or "zero", got {missing_queries!r}.')
    queries: list[str] = []
    documents: list[str] = []
    labels: list[float] = []
    scores: list[float] = []
    for query in qrels:
        if query not in run and missing_queries == "omit":
            continue
        retrieved, judgements = run.get(query) or {}, qrels[query]
        union = list(retrieved | judgements)
        queries += [query] * len(union)
        documents += union
        labels += [max(0.0, judgements.get(document, 0.0)) for document in union]
        scores += [retrieved.get(document, -np.inf) for document in union]
    if not queries:
        raise DataError(f"no query of {run.source} is judged in {qrels.source}.")
    none = np.empty((len(queries), 0), np.float32)
    dataset = Dataset.from_arrays(none, labels, np.array(queries), document_ids=np.array(documents))
    return dataset, np.array(scores)[dataset.rows]


def write_qrels(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write the labels as judgements, in the caller's order of rows.

    Documents without ids are named by their rows, counted from 0. Whole labels are written as
    integers, which trec_eval needs; others in full.
    """
    order = np.argsort(dataset.rows, kind="stable")
    queries = _words(dataset.query_ids, "query id")[list_of_document(dataset.offsets)[order]]
    documents = _documents(dataset)[order]
    _refuse_repeated(queries, documents)
    rows = zip(queries, documents, dataset.labels[order].tolist(), strict=True)
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{query} 0 {document} {_label(y)}\n" for query, document, y in rows)


def write_run(
    dataset: Dataset, scores: ArrayLike, path: str | os.PathLike[str], *, tag: str = "plackett"
) -> None:
    """Write scores as a run: each list from the best document to the worst.

    Equal scores keep the order of the data set, as the metrics do. Lists come in the caller's
    order. Documents without ids are named by their rows, counted from 0, as in
    :func:`write_qrels`; documents with score minus infinity were not retrieved and are left out.
    Scores are written so that reading gives the same float64.

    Parameters
    ----------
    dataset, scores
        One score per document, aligned with ``dataset.labels``.
    path
        The file.
    tag
        The name of the run, without blanks.
    """
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(run_lines(dataset, scores, tag=tag))


def run_lines(dataset: Dataset, scores: ArrayLike, *, tag: str) -> Iterator[str]:
    """The lines that :func:`write_run` writes."""
    if len(tag.split()) != 1 or tag != tag.strip():
        raise UsageError(f"the tag of a run is one word, got {tag!r}.")
    values = _checked(scores, dataset.n_docs)
    names = _words(dataset.query_ids, "query id")
    documents = _documents(dataset)
    kept = values > -np.inf
    _refuse_repeated(names[list_of_document(dataset.offsets)][kept], documents[kept])
    first_rows = np.minimum.reduceat(dataset.rows, dataset.offsets[:-1])
    for at in np.argsort(first_rows):
        start, stop = dataset.offsets[at], dataset.offsets[at + 1]
        best_first = start + np.argsort(-values[start:stop], kind="stable")
        retrieved = best_first[values[best_first] > -np.inf]
        pairs = zip(documents[retrieved], values[retrieved].tolist(), strict=True)
        for rank, (document, score) in enumerate(pairs, start=1):
            yield f"{names[at]} Q0 {document} {rank} {score!r} {tag}\n"


def _checked(scores: ArrayLike, n_docs: int) -> NDArray[np.float64]:
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (n_docs,):
        raise DataError(f"expected {n_docs} scores, one per document, got shape {values.shape}.")
    bad = ~(values < np.inf)
    if bad.any():
        at = int(np.argmax(bad))
        raise DataError(
            f"the score of document {at} is {values[at]}; scores are finite, or minus infinity for "
            "a document that was not retrieved."
        )
    return values


def _refuse_repeated(queries: NDArray[np.str_], documents: NDArray[np.str_]) -> None:
    """Refuse a document that a query has twice: readers could not tell which one counts."""
    order = np.lexsort((documents, queries))
    q, d = queries[order], documents[order]
    again = (q[1:] == q[:-1]) & (d[1:] == d[:-1])
    if again.any():
        at = int(np.argmax(again))
        raise DataError(
            f"document {str(d[at])!r} of query {str(q[at])!r} occurs more than once; a file of "
            "TREC names each document of a query once."
        )


def _documents(dataset: Dataset) -> NDArray[np.str_]:
    ids = dataset.rows if dataset.document_ids is None else dataset.document_ids
    return _words(ids, "document id")


def _words(ids: Ids, what: str) -> NDArray[np.str_]:
    """Ids as text; a blank in one would make two columns of it."""
    text = ids.astype(np.str_)
    for word in text.tolist() if ids.dtype.kind != "i" else ():
        if len(word.split()) != 1 or word != word.strip():
            raise DataError(f"the {what} {word!r} cannot be written: an id is one word.")
    return text


def _label(label: float) -> str:
    return str(int(label)) if label == int(label) else repr(label)
