"""JSON bodies read slowly, with a reason for everything that is refused."""

from __future__ import annotations

import json
import struct
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from plackett.base.decimals import exact_float32
from plackett.base.ragged import Features, from_sizes
from plackett.serving.server.bodies.lists import Ids, Lists
from plackett.serving.server.bodies.names import FeatureNames
from plackett.serving.server.refusals import Refusal
from plackett.serving.server.settings import Limits

BAD_REQUEST, TOO_LARGE, UNPROCESSABLE = 400, 413, 422
ABSENT = ("refuse", "missing", "zero")
_TOP_KEYS = ("documents", "lists", "ids", "top", "absent")
_LIST_KEYS = ("documents", "ids")
_SHOWN = 5  # names in a message
_LONGEST_NAME = 60  # characters of a name in a message
_INTEGER_DIGITS = 20  # more than any whole number of 64 bits has, with its sign
_LARGEST_ID = (1 << 63) - 1
_PLAIN = {int, float, type(None)}
_NORMAL = float(np.finfo(np.float32).tiny)
_BELOW_SINGLE, _MIDPOINT = (1 << 29) - 1, 1 << 28  # float64 has 29 bits more than float32


def read_carefully(body: bytes, names: FeatureNames, limits: Limits) -> Lists:
    """The lists of a JSON body, or a :class:`Refusal`."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal(BAD_REQUEST, f"the body is not UTF-8: byte {error.start}.") from error
    try:
        return _lists(_parsed(text, exact=False), names, limits, exact=False)
    except _Doubt:
        return _lists(_parsed(text, exact=True), names, limits, exact=True)


def _lists(data: Any, names: FeatureNames, limits: Limits, *, exact: bool) -> Lists:
    if not isinstance(data, dict):
        _refuse(f'the body must be an object with "documents" or "lists", got {_kind(data)}.')
    _check_keys(data, _TOP_KEYS, "the body")
    if ("documents" in data) == ("lists" in data):
        _refuse('the body must have either "documents" (one list) or "lists" (a batch).')
    absent = data.get("absent", "refuse")
    if absent not in ABSENT:
        _refuse(f'"absent" must be one of {", ".join(ABSENT)}.')
    single = "documents" in data
    if not single and "ids" in data:
        _refuse('in a batch, "ids" stand in each list.')
    groups = [({k: data[k] for k in _LIST_KEYS if k in data}, "")] if single else _batch(data)
    if len(groups) > limits.lists:
        raise Refusal(TOO_LARGE, f"{len(groups)} lists; a batch may have {limits.lists}.")
    top = data.get("top")
    check_top(top)
    parts, ids = [], []
    for group, place in groups:
        documents = _documents_of(group, place, limits)
        parts.append(_matrix(documents, names, absent, place, exact=exact))
        ids.append(check_ids(group.get("ids"), len(documents), place))
    sizes = np.array([len(part) for part in parts])
    return Lists(np.concatenate(parts), from_sizes(sizes), tuple(ids), top, single=single)


def check_ids(ids: Any, n_docs: int, place: str) -> Ids | None:
    """Ids of a list, if any: one text or whole number for each document."""
    if ids is None:
        return None
    if not isinstance(ids, list) or len(ids) != n_docs:
        got = f"{len(ids)}" if isinstance(ids, list) else _kind(ids)
        _refuse(f'{place}"ids" must be an array of {n_docs}, one for each document, got {got}.')
    for i, each in enumerate(ids):
        if isinstance(each, bool) or not isinstance(each, (str, int)):
            _refuse(f"{place}ids[{i}] must be a text or a whole number, got {_kind(each)}.")
        if isinstance(each, int) and not -_LARGEST_ID <= each <= _LARGEST_ID:
            _refuse(f"{place}ids[{i}] does not fit in 64 bits; send it as a text.")
        if isinstance(each, str) and not _encodable(each):
            _refuse(f"{place}ids[{i}] has half a surrogate pair, which no text has.")
    return ids


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def check_top(top: Any) -> None:
    """How many documents the order shall have: a whole number, or nothing."""
    if top is not None and (type(top) is not int or top < 1):
        _refuse(f'"top" must be a whole number from 1, got {_kind(top)}.')


class _Doubt(Exception):  # noqa: N818 - not an error: another way is tried
    """A number that must be rounded once, from its text."""


def _parsed(text: str, *, exact: bool) -> Any:
    """Plain data of a text; if ``exact``, numbers are those of float32."""
    hooks: dict[str, Any] = {"parse_float": _single, "parse_int": _whole} if exact else {}
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant, **hooks)
    except json.JSONDecodeError as error:
        raise Refusal(BAD_REQUEST, f"the body is not JSON: {error}.") from error
    except RecursionError as error:
        raise Refusal(BAD_REQUEST, "the body is not JSON: nested too deeply.") from error
    except ValueError as error:  # Python makes no whole numbers of thousands of digits
        raise _Doubt from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        had: set[str] = set()
        twice = next(name for name, _ in pairs if name in had or had.add(name))  # type: ignore[func-returns-value]
        _refuse(f"the name {_quoted(twice)} occurs twice in an object.")
    return found


def _single(text: str) -> float:
    """The float32 nearest to a decimal, as the fast reader has it, infinite beyond float32."""
    value = float(text)
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    if bits & _BELOW_SINGLE == _MIDPOINT or 0 < abs(value) < _NORMAL:
        exact = exact_float32(text)  # rounding twice would not be rounding
        return value if exact is None else float(exact)
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _whole(text: str) -> int | float:
    # Longer ones are features, if anything; and int() takes time quadratic in their length.
    return int(text) if len(text) <= _INTEGER_DIGITS else _single(text)


def _constant(name: str) -> NoReturn:
    raise Refusal(BAD_REQUEST, f"{name} is not JSON; a missing feature is null.")


def _batch(data: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    lists = data["lists"]
    if not isinstance(lists, list) or not lists:
        _refuse(f'"lists" must be an array of at least one list, got {_kind(lists)}.')
    found = []
    for k, group in enumerate(lists):
        if not isinstance(group, dict):
            _refuse(f'lists[{k}] must be an object with "documents", got {_kind(group)}.')
        _check_keys(group, _LIST_KEYS, f"lists[{k}]")
        found.append((group, f"lists[{k}]."))
    return found


def _documents_of(group: dict[str, Any], place: str, limits: Limits) -> list[Any]:
    documents = group.get("documents")
    if not isinstance(documents, list) or not documents:
        _refuse(f'{place}"documents" must be an array of at least one, got {_kind(documents)}.')
    if len(documents) > limits.documents:
        raise Refusal(
            TOO_LARGE,
            f"{place}documents: {len(documents)}; a list may have {limits.documents}.",
        )
    return documents


def _matrix(
    documents: list[Any], names: FeatureNames, absent: str, place: str, *, exact: bool
) -> Features:
    fill = 0.0 if absent == "zero" else np.nan
    out = np.full((len(documents), len(names)), fill, np.float32)
    for i, document in enumerate(documents):
        where = f"{place}documents[{i}]"
        if isinstance(document, list):
            if len(document) != len(names):
                _refuse(f"{where} has {len(document)} features; the model has {len(names)}.")
            out[i] = _values(document, names.names, where, exact=exact)
        elif isinstance(document, dict):
            _check_names(document, names, absent, where)
            columns = [names.places[name] for name in document]
            values = list(document.values())
            out[i, columns] = _values(values, tuple(document), where, exact=exact)
        else:
            _refuse(
                f"{where} must be an array of numbers or an object with the names of features, "
                f"got {_kind(document)}."
            )
    return out


def _values(values: list[Any], names: tuple[str, ...], where: str, *, exact: bool) -> Features:
    """Numbers as float32; ``names`` are those of their features."""
    if not set(map(type, values)) <= _PLAIN:
        j = next(j for j, value in enumerate(values) if type(value) not in _PLAIN)
        what = f"expected a number or null, got {_kind(values[j])}"
        _refuse(f"{where}, feature {_quoted(names[j])}: {what}.")
    wide = np.array([_rounded(value) for value in values]) if exact else _float64(values)
    with np.errstate(over="ignore"):
        single = wide.astype(np.float32)
    if np.isinf(single).any():
        name = _quoted(names[int(np.isinf(single).argmax())])
        _refuse(f"{where}, feature {name}: the number is beyond float32 (3.4e38).")
    return single


def _float64(values: list[Any]) -> NDArray[np.float64]:
    """Numbers as they were parsed; :class:`_Doubt` where rounding twice would not be rounding."""
    try:
        wide = np.array(values, np.float64)
    except OverflowError as error:
        raise _Doubt from error
    middle = wide.view(np.uint64) & np.uint64(_BELOW_SINGLE) == _MIDPOINT
    if (middle | ((wide != 0) & (np.abs(wide) < _NORMAL))).any():
        raise _Doubt
    return wide


def _rounded(value: float | None) -> float:
    """A number of the exact parser, as float32; whole numbers are still to be rounded."""
    if value is None:
        return np.nan
    return _single(str(value)) if isinstance(value, int) else value


def _check_names(document: dict[str, Any], names: FeatureNames, absent: str, where: str) -> None:
    unknown = [name for name in document if name not in names.places]
    if unknown:
        _refuse(f"{where}: the model has no feature {_some(unknown)}.")
    if absent == "refuse" and len(document) < len(names):
        lacking = [name for name in names.names if name not in document]
        _refuse(
            f"{where} lacks {_some(lacking)}; give every feature (null is missing), or say how to "
            'read those that are left out: "absent": "missing" or "zero".'
        )


def _check_keys(data: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    for key in data:
        if key not in known:
            _refuse(f"{what} must not have {_quoted(key)}; it may have {', '.join(known)}.")


def _some(names: list[str]) -> str:
    shown = ", ".join(_quoted(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _quoted(name: str) -> str:
    cut = name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "..."
    return ascii(cut)


def _kind(value: Any) -> str:
    """What a value is, without saying what it holds."""
    if value is None:
        return "null"
    for kind, word in ((bool, "a boolean"), (int, "a number"), (float, "a number")):
        if isinstance(value, kind):
            return word
    if isinstance(value, str):
        return "a text"
    if isinstance(value, list):
        return "an array" if value else "an empty array"
    return "an object"


def _refuse(detail: str) -> NoReturn:
    raise Refusal(UNPROCESSABLE, detail)
