"""Judgments (qrels) and runs in the formats of TREC.

========  ==============================================  ==========================
file      a line                                          for example
========  ==============================================  ==========================
qrels     ``query iteration document label``              ``301 0 FR940202-2-00150 1``
run       ``query Q0 document rank score tag``            ``301 Q0 FR940202-2-00150 1 3.7 bm25``
========  ==============================================  ==========================

As in trec_eval, the iteration, the word Q0 and the rank are ignored: the score alone ranks.
"""

import gzip
import io
import lzma
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TextIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.files import atomic_file
from plackett.base.ragged import Ids, Offsets, Scores, offsets_from_sizes
from plackett.data.dataset import Dataset
from plackett.data.files import DEFAULT_LIMITS, open_binary

_QRELS = ("query", "iteration", "document", "label")
_RUN = ("query", "Q0", "document", "rank", "score", "tag")
_BUFFER_BYTES = 1 << 17
_CORRUPT = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
_OVERFLOW = 2.0**128 - 2.0**103  # from here on the nearest float32 is infinite


@dataclass(frozen=True, eq=False, repr=False)
class TrecFile(Mapping[str, dict[str, float]]):
    """A value for each (query, document): the labels of qrels or the scores of a run.

    A mapping ``{query: {document: value}}`` in the order of the file, stored as arrays.
    """

    queries: Ids
    offsets: Offsets
    documents: Ids
    numbers: NDArray[np.float64]
    source: str

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {query: position for position, query in enumerate(self.queries.tolist())}

    def __getitem__(self, query: str) -> dict[str, float]:
        position = self._positions[query]
        rows = slice(self.offsets[position], self.offsets[position + 1])
        return dict(zip(self.documents[rows].tolist(), self.numbers[rows].tolist(), strict=True))

    def __iter__(self) -> Iterator[str]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        return f"TrecFile({self.source}: {len(self):,} queries, {len(self.numbers):,} documents)"


def read_qrels(path: str | os.PathLike[str]) -> TrecFile:
    """Read judgments; labels are real numbers, and may be negative (judged as junk)."""
    return _read(Path(path), _QRELS, "label")


def read_run(path: str | os.PathLike[str]) -> TrecFile:
    """Read a run: the scores of the documents retrieved for each query."""
    return _read(Path(path), _RUN, "score")


def is_run(path: str | os.PathLike[str]) -> bool:
    """Whether the first non-blank line of a file has the six columns of a run."""
    try:
        first = _first_line(path)
    except _CORRUPT as error:
        raise DataError(f"corrupt or truncated file: {error}", path=str(path)) from error
    except OSError:
        return False
    return len(first.split()) == len(_RUN) and "\0" not in first  # NUL: an array, not text


def is_qrels(path: str | os.PathLike[str]) -> bool:
    """Whether the first non-blank line of a file has the four columns of qrels."""
    try:
        first = _first_line(path).split()
    except (*_CORRUPT, OSError):
        return False
    return len(first) == len(_QRELS) and not first[1].startswith("qid:")


def as_qrels(dataset: Dataset, *, source: str) -> TrecFile:
    """The labels of a data set as judgments, as :func:`write_qrels` would write them."""
    with TemporaryDirectory() as folder:
        write_qrels(dataset, Path(folder) / "qrels")
        return replace(read_qrels(Path(folder) / "qrels"), source=source)


def _first_line(path: str | os.PathLike[str]) -> str:
    with _open(Path(path)) as lines:
        return next((line for line in lines if line.strip()), "")


def _open(path: Path) -> TextIO:
    # Bytes that are not UTF-8 are kept as surrogates, so that the error can name their line.
    binary = io.BufferedReader(open_binary(path, DEFAULT_LIMITS), _BUFFER_BYTES)
    return io.TextIOWrapper(binary, encoding="utf-8-sig", errors="surrogateescape")


def _read(path: Path, columns: tuple[str, ...], what: str) -> TrecFile:
    groups: dict[str, dict[str, float]] = {}
    number = 1
    try:
        with _open(path) as lines:
            for line in lines:
                if "\0" in line:
                    raise DataError("NUL byte; the file is not text")
                if not line.isascii():
                    line.encode("utf-8")
                if fields := line.split():
                    if len(fields) != len(columns):
                        form = f"a line has the {len(columns)} columns '{' '.join(columns)}'"
                        raise DataError(f"{len(fields)} columns; {form}")
                    query, document = fields[0], fields[2]
                    group = groups.setdefault(query, {})
                    if document in group:
                        raise DataError(f"document {document!r} of query {query!r} occurs a second time")
                    group[document] = _parse_number(fields[columns.index(what)], what)
                number += 1
    except DataError as error:
        raise DataError(error.message, path=str(path), line=number) from error
    except UnicodeEncodeError as error:
        raise DataError("the text is not UTF-8", path=str(path), line=number) from error
    except _CORRUPT as error:
        raise DataError(f"corrupt or truncated file: {error}", path=str(path)) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error}", path=str(path)) from error
    if not groups:
        raise DataError(f"has no lines; a line reads '{' '.join(columns)}'", path=str(path))
    return TrecFile(
        queries=np.array(list(groups)),
        offsets=offsets_from_sizes([len(group) for group in groups.values()]),
        documents=np.array([document for group in groups.values() for document in group]),
        numbers=np.array([value for group in groups.values() for value in group.values()]),
        source=str(path),
    )


def _parse_number(text: str, what: str) -> float:
    try:
        # Python also accepts 1_0 and the digits of other scripts.
        value = float(text if "_" not in text and text.isascii() else "none")
    except ValueError:
        raise DataError(f"{what} {text!r} is not a number") from None
    if not math.isfinite(value):
        raise DataError(f"{what} {text}; a {what} is a finite number")
    if what == "label" and abs(value) >= _OVERFLOW:
        raise DataError(f"label {text} is beyond float32 (3.4028235e38)")
    return value


def judge_run(
    run: TrecFile, qrels: TrecFile, *, missing_queries: Literal["omit", "zero"] = "omit"
) -> tuple[Dataset, Scores]:
    """Join a run with judgments into lists for metrics.

    The list of a query has the retrieved and the judged documents. A document that is retrieved but not judged has
    label 0, like one with a negative label. A document that is judged but not retrieved has the score minus infinity,
    which means "not retrieved" to metrics. The data set has no features; ties are ordered by document id.

    Parameters
    ----------
    run, qrels
        From :func:`read_run` and :func:`read_qrels`.
    missing_queries
        What to do with judged queries that the run lacks: "omit" drops them, as trec_eval does; "zero" keeps them with
        nothing retrieved, as ``trec_eval -c`` does. Queries of the run without judgments are always left out.

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
        retrieved, judgments = run.get(query) or {}, qrels[query]
        union = list(retrieved | judgments)
        queries += [query] * len(union)
        documents += union
        labels += [max(0.0, judgments.get(document, 0.0)) for document in union]
        scores += [retrieved.get(document, -np.inf) for document in union]
    if not queries:
        raise DataError(f"no query of {run.source} is judged in {qrels.source}.")
    dataset = Dataset.from_arrays(
        np.empty((len(queries), 0), np.float32), labels, np.array(queries), document_ids=np.array(documents)
    )
    return dataset, np.array(scores)


def write_qrels(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write the labels as judgments, in the caller's order of rows.

    Documents without ids are named by their rows, counted from 0. Whole labels are written as
    integers, as trec_eval requires; other labels are written with all digits.
    """
    queries = _format_ids(dataset.list_ids, "query id")[dataset.list_of_row]
    documents = _format_document_ids(dataset)
    _refuse_duplicates(queries, documents)
    rows = zip(queries, documents, dataset.labels.tolist(), strict=True)
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{query} 0 {document} {int(y) if y == int(y) else y!r}\n" for query, document, y in rows)


def write_run(dataset: Dataset, scores: ArrayLike, path: str | os.PathLike[str], *, tag: str = "plackett") -> None:
    """Write scores as a run: each list from the best document to the worst.

    Equal scores are ordered as in the metrics. Lists come in the order of the rows. Documents without ids are named by
    their rows, counted from 0, as in :func:`write_qrels`; documents with score minus infinity were not retrieved and
    are left out. Scores are written so that reading gives the same float64.

    Parameters
    ----------
    dataset, scores
        One score per row.
    path
        The file.
    tag
        The name of the run, without blanks.
    """
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(format_run(dataset, scores, tag=tag))


def format_run(dataset: Dataset, scores: ArrayLike, *, tag: str) -> Iterator[str]:
    """Yield the lines that :func:`write_run` writes."""
    if len(tag.split()) != 1 or tag != tag.strip():
        raise UsageError(f"the tag of a run is one word, got {tag!r}.")
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (dataset.n_docs,):
        raise DataError(f"expected {dataset.n_docs} scores, one per document, got shape {values.shape}.")
    bad = ~(values < np.inf)
    if bad.any():
        position = int(np.argmax(bad))
        raise DataError(
            f"the score of document {position} is {values[position]}; scores are finite, or minus "
            "infinity for a document that was not retrieved."
        )
    queries = _format_ids(dataset.list_ids, "query id")
    documents = _format_document_ids(dataset)
    retrieved = values > -np.inf
    _refuse_duplicates(queries[dataset.list_of_row][retrieved], documents[retrieved])
    best_first = dataset.rank(values)
    best_first = best_first[retrieved[best_first]]
    lists = dataset.list_of_row[best_first].tolist()
    ranked = zip(lists, documents[best_first], values[best_first].tolist(), strict=True)
    rank, last = 0, -1
    for position, document, score in ranked:
        rank = rank + 1 if position == last else 1
        last = position
        yield f"{queries[position]} Q0 {document} {rank} {score!r} {tag}\n"


def _refuse_duplicates(queries: NDArray[np.str_], documents: NDArray[np.str_]) -> None:
    """Raise DataError if a query has a document twice: readers could not tell which one counts."""
    order = np.lexsort((documents, queries))
    q, d = queries[order], documents[order]
    again = (q[1:] == q[:-1]) & (d[1:] == d[:-1])
    if again.any():
        position = int(np.argmax(again))
        raise DataError(
            f"document {str(d[position])!r} of query {str(q[position])!r} occurs more than once; a "
            "TREC file names each document of a query once."
        )


def _format_document_ids(dataset: Dataset) -> NDArray[np.str_]:
    ids = dataset.rows if dataset.document_ids is None else dataset.document_ids
    return _format_ids(ids, "document id")


def _format_ids(ids: Ids, what: str) -> NDArray[np.str_]:
    """Ids as text; an id with a blank raises DataError, as it would become two columns."""
    text = ids.astype(np.str_)
    for word in text.tolist() if ids.dtype.kind != "i" else ():
        if len(word.split()) != 1 or word != word.strip():
            raise DataError(f"the {what} {word!r} cannot be written: an id is one word.")
    return text
