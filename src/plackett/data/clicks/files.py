"""Propensities in files: JSON, or CSV with a line per position."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

from plackett.base.errors import DataError, UsageError
from plackett.base.files import atomic_file
from plackett.data.clicks.propensities import Propensities


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
