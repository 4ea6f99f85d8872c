"""Propensities in files: JSON, or CSV with a line per position.

Click logs from files: CSV and TSV (also .gz), Parquet and Arrow.

Click logs into files that can be read back.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.files import atomic_file
from plackett.data.clicks.log import ClickLog, Source, at_row, choose_columns
from plackett.data.clicks.propensities import Propensities
from plackett.data.files import COLUMNAR_SUFFIXES


def write_propensities(propensities: Propensities, path: str | os.PathLike[str]) -> None:
    """Write ``.json``, which keeps how they were found, or ``.csv`` (position, propensity)."""
    target, found = Path(path), propensities.to_dict()
    form = _form(target)
    with atomic_file(target) as temporary:
        if form == ".json":
            temporary.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        else:
            lines = [f"{k},{v!r}" for k, v in found["propensities"].items()]
            temporary.write_text("\n".join(["position,propensity", *lines]) + "\n", "utf-8")


def read_propensities(path: str | os.PathLike[str]) -> Propensities:
    """Read what :func:`write_propensities` writes; JSON may also be a list or a mapping."""
    source = Path(path)
    form = _form(source)
    try:
        text = source.read_text(encoding="utf-8")
        return _from_json(text) if form == ".json" else _from_csv(text)
    except DataError as error:
        raise DataError(error.message, path=str(source), line=error.line) from error
    except FileNotFoundError as error:
        raise DataError("there is no such file", path=str(source)) from error
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DataError(f"not readable propensities: {error}", path=str(source)) from error


def _form(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in (".json", ".csv"):
        raise UsageError(f"{path}: propensities are .json or .csv files, not {path.suffix!r}.")
    return suffix


def _from_json(text: str) -> Propensities:
    content = json.loads(text)
    if isinstance(content, list):
        return Propensities.of(content)
    if not isinstance(content, dict):
        raise DataError("propensities must be a list, or a mapping from positions.")
    given = content.get("propensities", content)
    values = Propensities.of({int(position): float(value) for position, value in given.items()})
    method, pooled = content.get("method", "given"), content.get("pooled", False)
    if not (isinstance(method, str) and isinstance(pooled, bool)):
        raise DataError("method must be text, and pooled true or false.")
    return Propensities(values.values, method=method, pooled=pooled)


def _from_csv(text: str) -> Propensities:
    given: dict[int, float] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), start=1):
        if number == 1 and row[:1] == ["position"]:
            continue
        try:
            position, value = row
            given[int(position)] = float(value)
        except ValueError as error:
            raise DataError(
                f"expected a position and its propensity, got {','.join(row)!r}", line=number
            ) from error
    return Propensities.of(given)


SEPARATORS = {".csv": ",", ".tsv": "\t"}
_BLOCK_BYTES = 8 << 20
_IDS = ("impression", "query", "document")


def read_clicks(
    path: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], object] | None = None,
    **columns: str,
) -> ClickLog:
    """Read a click log.

    Parameters
    ----------
    path
        ``.csv`` or ``.tsv`` with a line of names first, also with ``.gz`` behind; ``.parquet``,
        ``.arrow`` or ``.feather``.
    progress
        Called now and then with the bytes done and the bytes in all.
    **columns
        Names of the columns ``impression``, ``query``, ``document``, ``position`` and ``click``
        where they are neither these nor the usual others.
    """
    source = Path(path)
    if not source.is_file():
        raise DataError("there is no such file", path=str(source))
    form = text_form(source)
    if form is None and source.suffix.lower() not in COLUMNAR_SUFFIXES:
        raise UsageError(
            f"{source}: a click log is CSV or TSV ({' '.join(SEPARATORS)}, also with .gz behind), "
            f"Parquet or Arrow ({' '.join(COLUMNAR_SUFFIXES)}), not {source.suffix!r}."
        )
    # The first line of text holds the names.
    place = Source(str(source), lines=form is not None, first=0 if form is None else 2)
    try:
        if form is not None:
            found, names = _read_text(source, SEPARATORS[form], columns, progress)
        else:
            found, names = _read_table(source, columns, progress)
        arrays = {role: _column(c, names[role], place) for role, c in found.items()}
        return ClickLog.from_columns(arrays, names=names, source=place)
    except DataError as error:
        if error.path is not None:
            raise
        raise DataError(error.message, path=str(source)) from error


def text_form(path: Path) -> str | None:
    """``.csv`` or ``.tsv``, whatever compression stands behind; None for other names."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    last = suffixes[-2:-1] if suffixes[-1:] == [".gz"] else suffixes[-1:]
    return last[0] if last and last[0] in SEPARATORS else None


def _read_text(
    path: Path, separator: str, columns: Mapping[str, str], progress: Any
) -> tuple[dict[str, Any], dict[str, str]]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names = choose_columns(_header(path, separator), columns)
    total = path.stat().st_size
    # Ids as text, so that 007 is not 7; whole columns of plain integers become integers later.
    types = {names[role]: pa.string() for role in _IDS if role in names}
    batches = []
    try:
        with pa.OSFile(str(path)) as raw:
            kind = "gzip" if path.suffix.lower() == ".gz" else None
            stream = raw if kind is None else pa.CompressedInputStream(raw, kind)
            reader = arrow_csv.open_csv(
                stream,
                arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
                arrow_csv.ParseOptions(delimiter=separator, ignore_empty_lines=False),
                arrow_csv.ConvertOptions(
                    column_types=types,
                    include_columns=list(names.values()),
                    strings_can_be_null=True,
                    null_values=[""],
                ),
            )
            for batch in reader:
                batches.append(batch)
                if progress is not None:
                    progress(min(raw.tell(), total), total)
        table = pa.Table.from_batches(batches, reader.schema)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"not a readable click log: {_first_line(error)}") from error
    return {role: table.column(name) for role, name in names.items()}, names


def _header(path: Path, separator: str) -> list[str]:
    import gzip

    open_text = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with open_text(path, "rt", encoding="utf-8", newline="") as file:
            return next(csv.reader(file, delimiter=separator), [])
    except (UnicodeDecodeError, csv.Error, OSError, EOFError) as error:
        raise DataError(f"not a readable click log: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _read_table(
    path: Path, columns: Mapping[str, str], progress: Any
) -> tuple[dict[str, Any], dict[str, str]]:
    import pyarrow as pa

    from plackett.data.columnar.reader import open_shard

    shard = open_shard(path)
    names = choose_columns(shard.schema.names, columns)
    batches, rows = [], 0
    for batch in shard.batches(list(dict.fromkeys(names.values()))):
        batches.append(batch)
        rows += batch.num_rows
        if progress is not None:
            progress(shard.n_bytes * rows // max(shard.n_rows, 1), shard.n_bytes)
    if not batches:
        raise DataError("the click log has no rows.")
    table = pa.Table.from_batches(batches)
    return {role: table.column(name) for role, name in names.items()}, names


def _column(column: Any, name: str, place: Source) -> Any:
    import pyarrow as pa

    if column.null_count:
        at = int(np.argmax(np.asarray(column.is_null().to_numpy())))
        raise at_row(place, at, f"column {name!r} is empty.")
    return _plain_ids(column) if place.lines and pa.types.is_string(column.type) else column


def _plain_ids(column: Any) -> NDArray[Any]:
    """Integers, if all of the text is integers as they are written: no 007, no +7."""
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = pc.all(pc.match_substring_regex(column, r"^(0|-?[1-9][0-9]{0,17})$")).as_py()
    chosen = pc.cast(column, pa.int64()) if plain else column
    return np.asarray(chosen.to_numpy())


def write_clicks(log: ClickLog, path: str | os.PathLike[str]) -> None:
    """Write a click log as CSV, TSV, Parquet or Arrow; the suffix says which."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv as arrow_csv

    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in (*SEPARATORS, *COLUMNAR_SUFFIXES):
        raise UsageError(
            f"{target}: a click log is written as "
            f"{', '.join((*SEPARATORS, *COLUMNAR_SUFFIXES))}, not {target.suffix!r}."
        )
    columns = {"impression": log.impressions}
    if log.queries is not None:
        columns["query"] = log.queries
    columns |= {"document": log.documents, "position": log.positions}
    table = pa.table({**columns, "click": log.clicks.astype("i1")})
    with atomic_file(target) as temporary:
        if text_form(target) is not None:
            options = arrow_csv.WriteOptions(delimiter=SEPARATORS[suffix], quoting_style="needed")
            arrow_csv.write_csv(table, temporary, options)
        elif suffix == ".parquet":
            pq.write_table(table, temporary, compression="zstd")
        else:
            with pa.ipc.new_file(temporary, table.schema) as writer:
                writer.write_table(table)
