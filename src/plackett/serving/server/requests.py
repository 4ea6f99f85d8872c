"""Bodies of requests: convert JSON or float32 bytes to features of lists, or give the reason for rejection.

JSON bodies are read by the compiled scanner (:mod:`.scanner`). Bodies that it cannot read, mostly broken ones, are
parsed again by :mod:`json`, which is slower and finds the reason.
"""

import json
import re
import struct
import threading
from collections import Counter
from typing import Any, NoReturn, get_args

import numpy as np

from plackett.base.decimals import exact_float32
from plackett.base.ragged import offsets_from_sizes
from plackett.serving.server import schemas
from plackett.serving.server.http import HTTPError
from plackett.serving.server.scanner import Lists, make_name_table, scan_body
from plackett.serving.server.settings import Limits


class FeatureNames:
    """The names of a model's features, all different, in the model's order."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.known = frozenset(names)
        self.table = make_name_table(names)

    def __len__(self) -> int:
        return len(self.names)


# ---- JSON ----------------------------------------------------------------------------------------

_SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)
_EXTRA_BITS, _MIDPOINT = (1 << 29) - 1, 1 << 28  # float64 has 29 bits more than float32

# Parsing may turn two bytes of text into an object of 30 bytes or more, so only one body at a time is parsed.
_ONE_AT_A_TIME = threading.Lock()


class _Undecided(Exception):  # noqa: N818 - not an error: the numbers are read again
    """The body must be parsed again, with more care for its numbers."""


def read_json(body: bytes, names: FeatureNames, limits: Limits) -> Lists:
    """The lists of a JSON body; raises :class:`HTTPError` with the reason."""
    lists = scan_body(body, names.table, limits)
    if lists is not None:
        return lists
    with _ONE_AT_A_TIME:
        return read_carefully(body, names, limits)


_REQUEST_KEYS = ("documents", "lists", "ids", "top", "absent")
_LIST_KEYS = ("documents", "ids")
_MAX_NAMES = 5  # in a message
_MAX_NAME_LENGTH = 60  # in a message
_MAX_INTEGER_DIGITS = 20  # at least the length of any 64-bit integer, with its sign
_FEATURE_TYPES = {int, float, type(None)}


def read_carefully(body: bytes, names: FeatureNames, limits: Limits) -> Lists:
    """The lists of a JSON body that the scanner cannot read; slower, and gives the reason if it is refused."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise HTTPError(400, f"the body is not UTF-8: byte {error.start}.") from error
    try:
        lists = _read_text(text, names, limits, is_exact=False)
    except (OverflowError, _Undecided):
        lists = _read_text(text, names, limits, is_exact=True)
    if np.isinf(lists.features).any():
        i, j = np.argwhere(np.isinf(lists.features))[0]
        q = int(np.searchsorted(lists.offsets, i, side="right")) - 1
        json_path = f"{'' if lists.is_single else f'lists[{q}].'}documents[{i - lists.offsets[q]}]"
        _refuse(f"{json_path}, feature {_quote(names.names[j])}: the number is beyond float32 (3.4e38).")
    return lists


def _read_text(text: str, names: FeatureNames, limits: Limits, *, is_exact: bool) -> Lists:
    data = _parse(text, is_exact=is_exact)
    groups = _check_request(data, names, limits)
    fill = 0.0 if data["absent"] == "zero" else None
    rows = [
        document if isinstance(document, list) else [document.get(name, fill) for name in names.names]
        for group in groups
        for document in group["documents"]
    ]
    if is_exact:
        rows = [[_nearest_float32(str(v)) if type(v) is int else v for v in row] for row in rows]
    wide = np.array(rows, np.float64)  # None is NaN
    if not is_exact:
        # These numbers were rounded from decimals; rounding again may not give the nearest float32.
        is_halfway = wide.view(np.uint64) & np.uint64(_EXTRA_BITS) == _MIDPOINT
        if (is_halfway | ((wide != 0) & (np.abs(wide) < _SMALLEST_NORMAL))).any():
            raise _Undecided
    with np.errstate(over="ignore"):
        features = wide.astype(np.float32)
    offsets = offsets_from_sizes(np.array([len(group["documents"]) for group in groups]))
    ids = tuple(group.get("ids") for group in groups)
    return Lists(features, offsets, ids, data.get("top"), is_single="documents" in data)


def _parse(text: str, *, is_exact: bool) -> Any:
    """Parse a text to plain data; if ``is_exact``, floats and long integers become float32 numbers."""
    hooks: Any = {"parse_float": _nearest_float32, "parse_int": _parse_integer} if is_exact else {}
    try:
        return json.loads(text, object_pairs_hook=_check_repeats, parse_constant=_refuse_constant, **hooks)
    except json.JSONDecodeError as error:
        raise HTTPError(400, f"the body is not JSON: {error}.") from error
    except RecursionError as error:
        raise HTTPError(400, "the body is not JSON: nested too deeply.") from error
    except ValueError as error:  # Python does not parse integers of thousands of digits
        raise _Undecided from error


def _check_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = next(name for name, count in counts.items() if count > 1)
        _refuse(f"the name {_quote(repeated)} occurs twice in an object.")
    return data


def _refuse_constant(name: str) -> NoReturn:
    raise HTTPError(400, f"{name} is not JSON; a missing feature is null.")


def _nearest_float32(text: str) -> float:
    """The float32 number nearest to a decimal number, infinite beyond the range of float32."""
    value = float(text)
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    if bits & _EXTRA_BITS == _MIDPOINT or 0 < abs(value) < _SMALLEST_NORMAL:
        exact = exact_float32(text)
        return value if exact is None else float(exact)
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _parse_integer(text: str) -> int | float:
    # A longer one can only be a feature, and int() takes time quadratic in the length.
    return int(text) if len(text) <= _MAX_INTEGER_DIGITS else _nearest_float32(text)


def _check_request(data: Any, names: FeatureNames, limits: Limits) -> list[dict[str, Any]]:
    """Check plain data; return its lists."""
    if not isinstance(data, dict):
        _refuse(f'the body must be an object with "documents" or "lists", got {_type(data)}.')
    _check_keys(data, _REQUEST_KEYS, "the body")
    if ("documents" in data) == ("lists" in data):
        _refuse('the body must have either "documents" (one list) or "lists" (a batch).')
    absent, top = data.setdefault("absent", "refuse"), data.get("top")
    if absent not in get_args(schemas.Absent):
        _refuse(f'"absent" must be one of {", ".join(get_args(schemas.Absent))}.')
    if top is not None and (type(top) is not int or top < 1):
        _refuse(f'"top" must be a whole number from 1, got {_type(top)}.')
    if "documents" in data:
        _check_list(data, names, limits, absent, "")
        return [data]
    if "ids" in data:
        _refuse('in a batch, give "ids" inside each list.')
    lists = data["lists"]
    if not isinstance(lists, list) or not lists:
        _refuse(f'"lists" must be an array of at least one list, got {_type(lists)}.')
    if len(lists) > limits.lists:
        raise HTTPError(413, f"the batch has {len(lists)} lists; at most {limits.lists} are allowed.")
    for k, group in enumerate(lists):
        if not isinstance(group, dict):
            _refuse(f'lists[{k}] must be an object with "documents", got {_type(group)}.')
        _check_keys(group, _LIST_KEYS, f"lists[{k}]")
        _check_list(group, names, limits, absent, f"lists[{k}].")
    return lists


def _check_list(group: dict[str, Any], names: FeatureNames, limits: Limits, absent: str, json_path: str) -> None:
    documents = group.get("documents")
    if not isinstance(documents, list) or not documents:
        _refuse(f'{json_path}"documents" must be an array of at least one, got {_type(documents)}.')
    if len(documents) > limits.documents:
        what = json_path.removesuffix(".") or "the list"
        raise HTTPError(413, f"{what} has {len(documents)} documents; at most {limits.documents} are allowed.")
    for i, document in enumerate(documents):
        _check_document(document, names, absent, f"{json_path}documents[{i}]")
    if group.get("ids") is not None:
        _check_ids(group["ids"], len(documents), json_path)


def _check_document(document: Any, names: FeatureNames, absent: str, json_path: str) -> None:
    if isinstance(document, list):
        if len(document) != len(names):
            _refuse(f"{json_path} has {len(document)} features; the model has {len(names)}.")
        features = dict(zip(names.names, document, strict=True))
    elif isinstance(document, dict):
        features = document
        unknown = [name for name in document if name not in names.known]
        if unknown:
            _refuse(f"{json_path}: the model has no feature {_quote_some(unknown)}.")
        if absent == "refuse" and len(document) < len(names):
            lacking = [name for name in names.names if name not in document]
            _refuse(
                f"{json_path} lacks {_quote_some(lacking)}; give every feature (null is missing), or "
                'say how to read those that are left out: "absent": "missing" or "zero".'
            )
    else:
        _refuse(
            f"{json_path} must be an array of numbers or an object with the names of features, got {_type(document)}."
        )
    for name, value in features.items():
        if type(value) not in _FEATURE_TYPES:
            _refuse(f"{json_path}, feature {_quote(name)}: expected a number or null, got {_type(value)}.")


def _check_ids(ids: Any, n_docs: int, json_path: str) -> None:
    if not isinstance(ids, list) or len(ids) != n_docs:
        got = f"{len(ids)}" if isinstance(ids, list) else _type(ids)
        _refuse(f'{json_path}"ids" must be an array of {n_docs}, one for each document, got {got}.')
    for i, value in enumerate(ids):
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            _refuse(f"{json_path}ids[{i}] must be a text or a whole number, got {_type(value)}.")
        if isinstance(value, int) and not -schemas.LARGEST_ID <= value <= schemas.LARGEST_ID:
            _refuse(f"{json_path}ids[{i}] does not fit in 64 bits; send it as a text.")
        if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
            _refuse(f"{json_path}ids[{i}] has half a surrogate pair, which no text has.")


def _check_keys(data: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    for key in data:
        if key not in known:
            _refuse(f"{what} must not have {_quote(key)}; it may have {', '.join(known)}.")


def _quote_some(names: list[str]) -> str:
    quoted = ", ".join(_quote(name) for name in names[:_MAX_NAMES])
    return quoted if len(names) <= _MAX_NAMES else f"{quoted} and {len(names) - _MAX_NAMES} more"


def _quote(name: str) -> str:
    return ascii(name if len(name) <= _MAX_NAME_LENGTH else name[:_MAX_NAME_LENGTH] + "...")


def _type(value: Any) -> str:
    """The JSON type of a value, without its content."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return "an array" if value else "an empty array"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a text"}
    return names.get(type(value), "an object")


def _refuse(detail: str) -> NoReturn:
    raise HTTPError(422, detail)


# ---- bytes ---------------------------------------------------------------------------------------

SIZES_HEADER = "x-list-sizes"
"""The number of documents of each list; without it all documents form one list."""
SIZES_PATTERN = r"[1-9]\d{0,8}(, ?[1-9]\d{0,8})*"


def read_bytes(body: bytes, sizes: str | None, names: FeatureNames, limits: Limits) -> Lists:
    """The lists of a body of float32, little-endian, document after document.

    Raises :class:`HTTPError` with the reason for refusal.
    """
    width = 4 * len(names)
    if not body or len(body) % width:
        raise HTTPError(
            400,
            f"the body has {len(body)} bytes; documents of {len(names)} features in float32 take {width} bytes each.",
        )
    features = np.frombuffer(body, "<f4").reshape(-1, len(names)).astype(np.float32, copy=False)
    counts = [len(features)]
    if sizes is not None:
        if not re.fullmatch(SIZES_PATTERN, sizes, re.ASCII):
            raise HTTPError(400, f"{SIZES_HEADER} must be numbers from 1, separated by commas.")
        counts = [int(word) for word in sizes.split(",")]
        if sum(counts) != len(features):
            what = f"sum to {sum(counts)}; the body has {len(features)} documents"
            raise HTTPError(400, f"{SIZES_HEADER} {what}.")
    if len(counts) > limits.lists:
        raise HTTPError(413, f"the batch has {len(counts)} lists; at most {limits.lists} are allowed.")
    if max(counts) > limits.documents:
        raise HTTPError(413, f"a list has {max(counts)} documents; at most {limits.documents} are allowed.")
    if np.isinf(features).any():
        i, j = np.argwhere(np.isinf(features))[0]
        _refuse(f"document {i}, feature {names.names[j]!a}: the number is infinite.")
    ids = (None,) * len(counts)
    return Lists(features, offsets_from_sizes(np.array(counts)), ids, is_single=sizes is None)
