"""JSON bodies: the fast reader where it can, the careful one where it must."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np

from plackett.base.ragged import from_sizes
from plackett.serving.server.bodies.careful import check_ids, check_top, read_carefully
from plackett.serving.server.bodies.lists import Lists
from plackett.serving.server.bodies.names import FeatureNames
from plackett.serving.server.bodies.scanning import NO_ROOM, Rules, Target, empty_target, scan
from plackett.serving.server.bodies.values import END
from plackett.serving.server.refusals import Refusal
from plackett.serving.server.settings import Limits

_ABSENT = re.compile(rb'"absent"\s*:\s*"(refuse|missing|zero)"')
_FILL = {"refuse": np.float32(np.nan), "missing": np.float32(np.nan), "zero": np.float32(0.0)}
_DOCUMENTS = np.frombuffer(b"documents", np.uint8)
_LISTS = np.frombuffer(b"lists", np.uint8)
_SPARE_ROWS = 16

# A general parser makes objects of 30 bytes and more out of two bytes of text: one body at a time.
_CAREFUL = threading.Lock()


def read_json(body: bytes, names: FeatureNames, limits: Limits) -> Lists:
    """The lists of a JSON body; raises :class:`Refusal` with the reason."""
    found = read_fast(body, names, limits)
    if found is not None:
        return found
    with _CAREFUL:
        return read_carefully(body, names, limits)


def read_fast(body: bytes, names: FeatureNames, limits: Limits) -> Lists | None:
    """The lists of a body; None where the careful reader must decide."""
    absent = _ABSENT.search(body)
    mode = "refuse" if absent is None else absent.group(1).decode()
    rules = Rules(names.table, mode == "refuse", _FILL[mode], _DOCUMENTS, _LISTS)
    text = np.frombuffer(body + END, np.uint8)
    # A number and its comma take two bytes: enough rows unless documents leave features out.
    n_rows = len(body) // (2 * len(names)) + _SPARE_ROWS
    most = limits.lists * limits.documents
    while True:
        n_rows = min(n_rows, most + 1)
        target = empty_target(names.table, n_rows, limits.lists)
        end = scan(text, len(body), target, rules)
        if end != NO_ROOM or n_rows > most:
            break
        n_rows *= 4
    return _taken(body, target, mode, limits) if end == len(body) else None


def _taken(body: bytes, target: Target, mode: str, limits: Limits) -> Lists | None:
    """What the scan has found, with the members that it left to others."""
    n_docs, n_lists, n_spans, batch = target.counts.tolist()
    sizes = target.sizes[:n_lists]
    rest = _rest(body, target.spans[:n_spans].tolist())
    if rest is None or int(sizes.max()) > limits.documents:
        return None
    top, told = rest.pop((-1, b"top"), None), rest.pop((-1, b"absent"), "refuse")
    ids = [rest.pop((q if batch else -1, b"ids"), None) for q in range(n_lists)]
    if rest or told != mode:
        return None
    try:
        for q, each in enumerate(ids):
            check_ids(each, int(sizes[q]), "")
        check_top(top)
    except Refusal:
        return None
    return Lists(target.features[:n_docs], from_sizes(sizes), tuple(ids), top, single=not batch)


def _rest(body: bytes, spans: list[list[int]]) -> dict[tuple[int, bytes], Any] | None:
    """Values by list and name; None if a name comes twice or a value is not JSON."""
    import orjson

    found: dict[tuple[int, bytes], Any] = {}
    for inside, start, end, value, stop in spans:
        try:
            found[inside, body[start:end]] = orjson.loads(body[value:stop])
        except orjson.JSONDecodeError:
            return None
    return found if len(found) == len(spans) else None


def warm_up(names: FeatureNames) -> None:
    """Compile or load the reader, so that the first request does not wait for it."""
    read_fast(b'{"lists":[{"documents":[[0.5]]}]}', names, Limits())
