"""Data sets from and to the files of TREC: judgements (qrels) and runs.

The formats are described in :mod:`plackett.data.trec`.

Judgements (qrels) and runs in the formats of TREC.

========  ==============================================  ==========================
file      a line                                          for example
========  ==============================================  ==========================
qrels     ``query iteration document label``              ``301 0 FR940202-2-00150 1``
run       ``query Q0 document rank score tag``            ``301 Q0 FR940202-2-00150 1 3.7 bm25``
========  ==============================================  ==========================

As in trec_eval, the iteration, the word Q0 and the rank are read over: the score alone ranks.
"""

from __future__ import annotations

import gzip
import lzma
import math
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TextIO, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.files import atomic_file
from plackett.base.ragged import Ids, Offsets, Scores, list_of_document, offsets_from_sizes
from plackett.data.dataset import Dataset

_QRELS = ("query", "iteration", "document", "label")
_RUN = ("query", "Q0", "document", "rank", "score", "tag")
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
_CORRUPT = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
_BEYOND = 2.0**128 - 2.0**103  # from here up the nearest float32 is infinite


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(Mapping[str, dict[str, float]]):
    """A value for each (query, document) of a file: labels of qrels, scores of a run.

    A mapping ``{query: {document: value}}`` in the order of the file, kept as arrays.
    """

    queries: Ids
    offsets: Offsets
    documents: Ids
    numbers: NDArray[np.float64]
    source: str

    @cached_property
    def _places(self) -> dict[str, int]:
        return {query: at for at, query in enumerate(self.queries.tolist())}

    def __getitem__(self, query: str) -> dict[str, float]:
        at = self._places[query]
        rows = slice(self.offsets[at], self.offsets[at + 1])
        return dict(zip(self.documents[rows].tolist(), self.numbers[rows].tolist(), strict=True))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        return f"Pairs({self.source}: {len(self):,} queries, {len(self.numbers):,} documents)"


def read_qrels(path: str | os.PathLike[str]) -> Pairs:
    """Read judgements; labels are real numbers, and may be negative (judged, and junk)."""
    return _read(Path(path), _QRELS, "label")


def read_run(path: str | os.PathLike[str]) -> Pairs:
    """Read a run: the scores of the documents retrieved for each query."""
    return _read(Path(path), _RUN, "score")


def is_run(path: str | os.PathLike[str]) -> bool:
    """Whether the first line of a file that is not blank has the six columns of a run."""
    try:
        with _open(Path(path)) as lines:
            first = next((line for line in lines if line.strip()), "")
    except _CORRUPT as error:
        raise DataError(f"corrupt or cut-off file: {error}", path=str(path)) from error
    except OSError:
        return False
    return len(first.split()) == len(_RUN) and "\0" not in first  # NUL: an array, not text


def _open(path: Path) -> TextIO:
    # Bytes that are not UTF-8 come through, marked, so that the line they are in can be named.
    opener = _OPENERS.get(path.suffix.lower(), open)
    return cast(TextIO, opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape"))


def _read(path: Path, columns: tuple[str, ...], what: str) -> Pairs:
    groups: dict[str, dict[str, float]] = {}
    number = 1
    try:
        with _open(path) as lines:
            for line in lines:
                _check_text(line)
                if fields := line.split():
                    _add(groups, fields, columns, what)
                number += 1
    except DataError as error:
        raise DataError(error.message, path=str(path), line=number) from error
    except _CORRUPT as error:
        raise DataError(f"corrupt or cut-off file: {error}", path=str(path)) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error}", path=str(path)) from error
    if not groups:
        raise DataError(f"has no lines; a line reads '{' '.join(columns)}'", path=str(path))
    return Pairs(
        queries=np.array(list(groups)),
        offsets=offsets_from_sizes([len(group) for group in groups.values()]),
        documents=np.array([document for group in groups.values() for document in group]),
        numbers=np.array([value for group in groups.values() for value in group.values()]),
        source=str(path),
    )


def _check_text(line: str) -> None:
    if "\0" in line:
        raise DataError("NUL byte; the file is not text")
    if not line.isascii():
        try:
            line.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError("the text is not UTF-8") from None


def _number(text: str, what: str) -> float:
    value: float | None
    try:
        value = float(text)
    except ValueError:
        value = None
    # Python also reads 1_0 and the digits of other scripts.
    if value is None or "_" in text or not text.isascii():
        raise DataError(f"{what} {text!r} is not a number")
    if not math.isfinite(value):
        raise DataError(f"{what} {text}; a {what} is a finite number")
    if what == "label" and abs(value) >= _BEYOND:
        raise DataError(f"label {text} is beyond float32 (3.4028235e38)")
    return value


def _add(
    groups: dict[str, dict[str, float]], fields: list[str], columns: tuple[str, ...], what: str
) -> None:
    if len(fields) != len(columns):
        raise DataError(
            f"{len(fields)} columns; a line has the {len(columns)} columns '{' '.join(columns)}'"
        )
    query, document = fields[0], fields[2]
    value = _number(fields[columns.index(what)], what)
    group = groups.setdefault(query, {})
    if document in group:
        raise DataError(f"document {document!r} of query {query!r} occurs a second time")
    group[document] = value


def judge_run(
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
        file.writelines(format_run(dataset, scores, tag=tag))


def format_run(dataset: Dataset, scores: ArrayLike, *, tag: str) -> Iterator[str]:
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


__all__ = [
    "Pairs",
    "format_run",
    "is_run",
    "judge_run",
    "read_qrels",
    "read_run",
    "write_qrels",
    "write_run",
]
