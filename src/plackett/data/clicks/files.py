"""Read and write click logs (CSV, TSV, Parquet, Arrow) and propensities (JSON, CSV)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plackett.base.errors import DataError, UsageError
from plackett.base.files import atomic_file, require_regular
from plackett.data.clicks.log import ClickLog, LogFile, choose_columns, row_error
from plackett.data.clicks.propensities import Propensities
from plackett.data.files import COLUMNAR_SUFFIXES, ByteProgress, PathLike
from plackett.data.limits import DEFAULT_LIMITS, open_binary

SEPARATORS = {".csv": ",", ".tsv": "\t"}
_BLOCK_BYTES = 8 << 20
_HEADER_BYTES = 1 << 20
_IDS = ("impression", "query", "document")


def read_clicks(
    path: PathLike, *, progress: ByteProgress | None = None, **columns: str
) -> ClickLog:
    """Read a click log.

    Parameters
    ----------
    path
        ``.csv`` or ``.tsv`` with a header line, also followed by ``.gz``; ``.parquet``, ``.arrow``
        or ``.feather``.
    progress
        Called now and then with the bytes done and the total number of bytes.
    **columns
        Names of the columns ``impression``, ``query``, ``document``, ``position`` and ``click`` if
        they have neither these nor other common names.
    """
    source = Path(path)
    if not source.exists():
        raise DataError("there is no such file", path=str(source))
    require_regular(source)
    text_suffix = _text_suffix(source)
    if text_suffix is None and source.suffix.lower() not in COLUMNAR_SUFFIXES:
        raise UsageError(
            f"{source}: a click log is CSV or TSV ({' '.join(SEPARATORS)}, also followed by .gz), "
            f"Parquet or Arrow ({' '.join(COLUMNAR_SUFFIXES)}), not {source.suffix!r}."
        )
    # The first line of text is the header.
    is_text = text_suffix is not None
    file = LogFile(str(source), is_text, first=2 if is_text else 0)
    from plackett.data.columnar.errors import name_file_in_errors  # imports pyarrow

    with name_file_in_errors(source, "click log"):
        if text_suffix is not None:
            by_role, names = _read_text(source, SEPARATORS[text_suffix], columns, progress)
        else:
            by_role, names = _read_columnar(source, columns, progress)
        arrays = {role: _check_column(c, names[role], file) for role, c in by_role.items()}
        return ClickLog.from_columns(arrays, names=names, source=file)


def _text_suffix(path: Path) -> str | None:
    """``.csv`` or ``.tsv``, with or without ``.gz`` after it; None for other names."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    last = suffixes[-2:-1] if suffixes[-1:] == [".gz"] else suffixes[-1:]
    return last[0] if last and last[0] in SEPARATORS else None


def _read_text(
    path: Path, separator: str, columns: Mapping[str, str], progress: ByteProgress | None
) -> tuple[dict[str, Any], dict[str, str]]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names = choose_columns(_read_header(path, separator), columns)
    total = path.stat().st_size
    # Ids are read as text, so that 007 is not 7; columns of integers are converted later.
    types = {names[role]: pa.string() for role in _IDS if role in names}
    batches = []
    with open_binary(path, DEFAULT_LIMITS) as stream:
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
                progress(min(stream.source_bytes, total), total)
    table = pa.Table.from_batches(batches, reader.schema)
    return {role: table.column(name) for role, name in names.items()}, names


def _read_header(path: Path, separator: str) -> list[str]:
    try:
        with open_binary(path, DEFAULT_LIMITS) as file:
            buffered = io.BufferedReader(file)
            # A header longer than this is none: csv would read an endless line to its end.
            lines = io.TextIOWrapper(io.BytesIO(buffered.read(_HEADER_BYTES)), "utf-8", newline="")
            return next(csv.reader(lines, delimiter=separator), [])
    except (UnicodeDecodeError, csv.Error, OSError, EOFError) as error:
        raise DataError(f"not a readable click log: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _read_columnar(
    path: Path, columns: Mapping[str, str], progress: ByteProgress | None
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


def _check_column(column: Any, name: str, file: LogFile) -> Any:
    import pyarrow as pa

    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null().to_numpy())))
        raise row_error(file, row, f"column {name!r} is empty.")
    return _convert_ids(column) if file.is_text and pa.types.is_string(column.type) else column


def _convert_ids(column: Any) -> NDArray[Any]:
    """Integers, if all of the text is integers in standard notation: no 007, no +7."""
    import pyarrow as pa
    import pyarrow.compute as pc

    integers = pc.all(pc.match_substring_regex(column, r"^(0|-?[1-9][0-9]{0,17})$")).as_py()
    return np.asarray((pc.cast(column, pa.int64()) if integers else column).to_numpy())


def write_clicks(log: ClickLog, path: PathLike) -> None:
    """Write a click log as CSV, TSV, Parquet or Arrow; the suffix selects the format."""
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
        if suffix in SEPARATORS:
            options = arrow_csv.WriteOptions(delimiter=SEPARATORS[suffix], quoting_style="needed")
            arrow_csv.write_csv(table, temporary, options)
        elif suffix == ".parquet":
            pq.write_table(table, temporary, compression="zstd")
        else:
            with pa.ipc.new_file(temporary, table.schema) as writer:
                writer.write_table(table)


def write_propensities(propensities: Propensities, path: PathLike) -> None:
    """Write ``.json``, which records the method of estimation, or ``.csv``."""
    target, content = Path(path), propensities.to_dict()
    if _require_suffix(target) == ".json":
        text = json.dumps(content, indent=1)
    else:
        lines = [f"{position},{p!r}" for position, p in content["propensities"].items()]
        text = "\n".join(["position,propensity", *lines])
    with atomic_file(target) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def read_propensities(path: PathLike) -> Propensities:
    """Read a file of :func:`write_propensities`; JSON may also be a list or a mapping."""
    source = Path(path)
    suffix = _require_suffix(source)
    try:
        require_regular(source)
        text = source.read_text(encoding="utf-8")
        return _parse_json(text) if suffix == ".json" else _parse_csv(text)
    except DataError as error:
        raise DataError(error.message, path=str(source), line=error.line) from error
    except FileNotFoundError as error:
        raise DataError("there is no such file", path=str(source)) from error
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DataError(f"not readable propensities: {error}", path=str(source)) from error


def _require_suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in (".json", ".csv"):
        raise UsageError(f"{path}: propensities are .json or .csv files, not {path.suffix!r}.")
    return suffix


def _parse_json(text: str) -> Propensities:
    content = json.loads(text)
    if isinstance(content, list):
        return Propensities.of(content)
    if not isinstance(content, dict):
        raise DataError("propensities must be a list, or a mapping from positions.")
    mapping = content.get("propensities", content)
    values = Propensities.of({int(position): float(value) for position, value in mapping.items()})
    method, pooled = content.get("method", "given"), content.get("pooled", False)
    if not (isinstance(method, str) and isinstance(pooled, bool)):
        raise DataError("method must be text, and pooled true or false.")
    return Propensities(values.values, method=method, pooled=pooled)


def _parse_csv(text: str) -> Propensities:
    values: dict[int, float] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), start=1):
        if number == 1 and row[:1] == ["position"]:
            continue
        try:
            position, value = row
            values[int(position)] = float(value)
        except ValueError as error:
            raise DataError(
                f"expected a position and its propensity, got {','.join(row)!r}", line=number
            ) from error
    return Propensities.of(values)
