"""What is fuzzed: for each parser a function of bytes that raises if the parser misbehaves.

A parser either returns a value that can be used or raises an error of plackett's. Each run has a budget of
processor time and memory in proportion to the number of bytes (:func:`run`).
"""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import letor_reference
import plackett as pk
from plackett.data.letor import blocks as letor_blocks, reader as letor_reader
from plackett.data.trec import is_qrels, is_run, read_qrels, read_run
from plackett.models.artifact import MANIFEST_FILE, seal
from plackett.models.ensembles.ranker import READERS
from plackett.serving.server.http import HTTPError
from plackett.serving.server.requests import FeatureNames, read_bytes, read_carefully, read_json
from plackett.serving.server.settings import Limits

CORPUS = Path(__file__).parents[1] / "fuzz" / "corpus"
SECONDS, SECONDS_PER_BYTE = 1.0, 2e-4
BYTES, BYTES_PER_BYTE = 64 << 20, 4096
_MEMORY = 1 << 22  # no matrix above a few megabytes, so that the slow reader can follow


@dataclass(frozen=True)
class Target:
    """A parser under test, and valid inputs to begin with."""

    check: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    tokens: tuple[bytes, ...] = ()
    is_json: bool = False
    """Whether values of valid inputs are replaced, too."""


class BudgetExceededError(AssertionError):
    """An input took more time or memory than its size allows."""


def run(target: Target, data: bytes) -> None:
    """Check one input, with its budget of processor time and memory.

    What is over its time is measured once more: the first input on a rare path pays for compiling its kernels.
    """
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    allowed = SECONDS + SECONDS_PER_BYTE * len(data)
    seconds = _seconds(target, data)
    if seconds > allowed:
        seconds = _seconds(target, data)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    if seconds > allowed or grown > BYTES + BYTES_PER_BYTE * len(data):
        raise BudgetExceededError(f"{len(data):,} bytes took {seconds:.2f} s and {grown >> 20} MB")


def _seconds(target: Target, data: bytes) -> float:
    begin = time.process_time()
    target.check(data)
    return time.process_time() - begin


def mutants(seeds: list[bytes], tokens: tuple[bytes, ...], count: int, seed: int) -> Iterator[bytes]:
    """Valid inputs with a few bytes changed, put in, cut out or repeated."""
    draw = random.Random(seed)
    extra = (*tokens, b"", b"\0", b"\xff", b"-", b"9" * 20, b"1e999", b"nan", b"\n")
    for _ in range(count):
        data = bytearray(draw.choice(seeds))
        for _ in range(draw.randint(1, 4)):
            at = draw.randint(0, len(data))
            piece = draw.choice((draw.choice(extra), draw.randbytes(draw.randint(1, 4)), bytes(data[at : at + 20])))
            data[at : at + draw.choice((0, 0, 1, 2, 8))] = piece
        yield bytes(data)


_VALUES = (None, True, -1, 0, 1.5, 1e308, float("nan"), 2**31, 2**64, "", "x", [], {}, [[]], [1, 2, 3], {"x": 1})


def replace_value(data: bytes, seed: int) -> bytes | None:
    """JSON with one of its values replaced, removed or repeated; None if there is nothing to replace."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    holders = [content] if isinstance(content, list | dict) else []
    for holder in holders:  # grows by the containers inside
        values = holder.values() if isinstance(holder, dict) else holder
        holders += [value for value in values if isinstance(value, list | dict)]
    holders = [holder for holder in holders if holder]
    if not holders:
        return None
    draw = random.Random(seed)
    holder = draw.choice(holders)
    place = draw.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    action = draw.random()
    if action < 0.2:
        del holder[place]
    elif action < 0.4 and isinstance(holder, list):
        holder.insert(place, holder[place])
    elif action < 0.6 and isinstance(holder[place], int | float):
        holder[place] += draw.choice((-1, 1, 0.5, 1 << 31))
    else:
        holder[place] = draw.choice(_VALUES)
    return json.dumps(content).encode()


# ---- Files of data -------------------------------------------------------------------------------


@cache
def _folder() -> Path:
    """A folder that is kept in memory where the system has one."""
    shared = Path("/dev/shm")
    keep = tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None)
    _KEPT.append(keep)
    return Path(keep.name)


_KEPT: list[Any] = []


def _file(name: str, data: bytes) -> Path:
    path = _folder() / name
    path.write_bytes(data)
    return path


class _SameThread(Executor):
    """Runs each call at once: starting threads would take most of the time of a small input."""

    def __init__(self, _: int) -> None:
        pass

    def submit(self, call: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future


def _check_letor(data: bytes) -> None:
    with (
        mock.patch.object(letor_reader, "available_memory", return_value=_MEMORY),
        mock.patch.object(letor_reader, "ThreadPoolExecutor", _SameThread),
    ):
        letor_reference.compare(_file("data.txt", data), data, None, None, _MEMORY)


def _check_trec(data: bytes) -> None:
    path = _file("data.run", data)
    is_run(path), is_qrels(path)
    for read in (read_run, read_qrels):
        with contextlib.suppress(pk.PlackettError):
            assert np.isfinite(read(path).numbers).all()


def _check_clicks(data: bytes) -> None:
    with contextlib.suppress(pk.PlackettError):
        log = pk.read_clicks(_file("log.csv", data))
        assert len(log) >= 0


def _check_parquet(data: bytes) -> None:
    path = _file("log.parquet", data)
    for read in (pk.read_clicks, pk.read):
        with contextlib.suppress(pk.PlackettError):
            read(path)


def _check_table(data: bytes) -> None:
    path = _file("data.csv", data)
    with contextlib.suppress(pk.PlackettError):
        table = pk.read(path)
        assert len(table.labels) == len(table.features)


def _check_compressed(data: bytes) -> None:
    with (
        contextlib.suppress(pk.PlackettError),
        mock.patch.object(letor_reader, "ThreadPoolExecutor", _SameThread),
        mock.patch.object(letor_blocks, "ThreadPoolExecutor", _SameThread),
    ):
        pk.read(_file("data.txt.gz", data))


def _letor_seeds() -> list[bytes]:
    data = pk.synthetic("letor", n_lists=3, seed=1)
    path = _folder() / "seed.txt"
    pk.write(data, path)
    lines = path.read_bytes().splitlines(keepends=True)
    return [b"".join(lines[:2]), b"2 qid:1 1:0.5 3:-1e-3 # docid = G1 inc = 1\n0 qid:q2 2:7\r\n\n# c\n1 qid:q2 1:nan\n"]


def _parquet_seeds() -> list[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    seeds = []
    for columns in (
        {"impression": ["1", "1"], "document": ["a", "b"], "position": [1, 2], "click": [1, 0]},
        {"label": [1.0, 0.0], "query": [1, 1], "x": [0.5, 1.5]},
    ):
        path = _folder() / "seed.parquet"
        pq.write_table(pa.table(columns), path)
        seeds.append(path.read_bytes())
    return seeds


_CLICKS = b"impression,query,document,position,click\n1,q,a,1,1\n1,q,b,2,0\n2,q,b,1,0\n"
_TABLE = b"query,label,x,y\n1,2,0.5,a\n1,0,,b\n2,1,3,a\n"
_TREC = [b"q1 0 d1 2\nq1 0 d2 0\n", b"q1 Q0 d1 1 3.5 run\nq1 Q0 d2 2 1e-3 run\n"]


# ---- Models --------------------------------------------------------------------------------------


def _check_model(library: str) -> Callable[[bytes], None]:
    rows: dict[int, np.ndarray[Any, Any]] = {}

    def check(data: bytes) -> None:
        try:
            ensemble = READERS[library](data)
        except pk.PlackettError:
            return
        width = ensemble.n_features
        if width <= 64:
            if width not in rows:
                rows[width] = np.random.default_rng(0).normal(size=(3, width)).astype(np.float32)
            assert len(ensemble.predict(rows[width], n_threads=1)) == 3

    return check


@cache
def _small_model() -> pk.TreeRanker:
    data = pk.synthetic("letor", n_lists=12, seed=1)
    return pk.TreeRanker(trees=2, leaves=4).fit(data.features[:, :3], data.labels, qid=data.query_ids)


def _export_seeds(target: str, name: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        path = _folder() / name
        pk.export(_small_model(), path, target)
        return [path.read_bytes().partition(b"\nparameters:")[0]]  # LightGBM's are long, and not read

    return seeds


def _xgboost_seeds() -> list[bytes]:
    import xgboost

    data = pk.synthetic("letor", n_lists=4, seed=1)
    matrix = xgboost.DMatrix(data.features[:, :4], data.labels)
    booster = xgboost.train({"max_depth": 2, "verbosity": 0}, matrix, 2)
    return [bytes(booster.save_raw("json")), bytes(booster.save_raw("ubj"))]


def _catboost_seeds() -> list[bytes]:
    import catboost

    data = pk.synthetic("letor", n_lists=4, seed=1)
    model = catboost.CatBoostRegressor(iterations=2, depth=2, verbose=False, allow_writing_files=False)
    model.fit(data.features[:, :4], data.labels)
    json_path, binary_path = _folder() / "model.json", _folder() / "model.cbm"
    model.save_model(str(json_path), format="json")
    model.save_model(str(binary_path), format="cbm")
    content = json.loads(json_path.read_bytes())
    del content["model_info"]  # long, and not read
    return [json.dumps(content).encode(), binary_path.read_bytes()]


@cache
def _saved_model() -> Path:
    folder = _folder() / "model"
    data = pk.synthetic("letor", n_lists=12, seed=1)
    ranker = pk.LinearRanker(transforms=("standard",)).fit(data.features[:, :3], data.labels, qid=data.query_ids)
    ranker.save(folder)
    return folder


def _manifest_seeds() -> list[bytes]:
    return [(_saved_model() / MANIFEST_FILE).read_bytes()]


def _check_manifest(data: bytes) -> None:
    """The manifest as it is, and sealed again, so that its fields are read."""
    folder = _saved_model()
    sealed = data
    with contextlib.suppress(ValueError, RecursionError, TypeError, AttributeError):
        sealed = json.dumps(seal(json.loads(data))).encode()
    for content in {data, sealed}:
        (folder / MANIFEST_FILE).write_bytes(content)
        with contextlib.suppress(pk.PlackettError):
            assert np.isfinite(pk.load(folder).predict(np.ones((2, 3), np.float32))).all()


# ---- Requests ------------------------------------------------------------------------------------

_NAMES = FeatureNames(("bm25", "größe", "clicks"))
_LIMITS = Limits(body=10_000, documents=4, lists=3)


def _outcome(read: Callable[[], Any]) -> Any:
    try:
        lists = read()
    except HTTPError as error:
        refusal = error.status
    else:
        features = lists.features + np.float32(0)  # "-0" is 0 where it is read as a whole number
        return features.tobytes(), lists.offsets.tolist(), lists.ids, lists.top, lists.is_single
    assert 400 <= refusal < 500
    return refusal


def _check_request(data: bytes) -> None:
    fast = _outcome(lambda: read_json(data, _NAMES, _LIMITS))
    assert fast == _outcome(lambda: read_carefully(data, _NAMES, _LIMITS))


def _check_binary_request(data: bytes) -> None:
    sizes, _, body = data.partition(b"|")
    text = sizes.decode("latin-1")
    _outcome(lambda: read_bytes(body, text or None, _NAMES, _LIMITS))


_REQUESTS = [
    b'{"documents": [[1, 2.5, null], {"clicks": 3, "gr\xc3\xb6\xc3\x9fe": -0.5, "bm25": 1e-3}], "top": 1}',
    b'{"lists": [{"ids": ["a", 7], "documents": [[1, 2, 3], [4, 5, 6]]}, {"documents": [[7, 8, 9]]}]}',
    b'{"documents": [{"bm25": 16777217}], "absent": "missing"}',
]

_JSON_TOKENS = (b"{", b"}", b"[", b"]", b",", b":", b'"', b"null", b"true", b"\\u0000", b"[" * 50)

TARGETS = {
    "letor": Target(_check_letor, _letor_seeds, (b"qid:", b":", b" ", b"#", b"\r", b"0:1", b"1:", b"\xef\xbb\xbf")),
    "letor-gz": Target(_check_compressed, lambda: [gzip.compress(seed, mtime=0) for seed in _letor_seeds()]),
    "trec": Target(_check_trec, lambda: _TREC, (b"Q0", b" ", b"\t", b"\xef\xbb\xbf")),
    "clicks": Target(_check_clicks, lambda: [_CLICKS], (b",", b'"', b"\r\n", b"position")),
    "table": Target(_check_table, lambda: [_TABLE], (b",", b'"', b"\r\n", b"query", b"label")),
    "parquet": Target(_check_parquet, _parquet_seeds),
    "manifest": Target(_check_manifest, _manifest_seeds, _JSON_TOKENS, is_json=True),
    "lightgbm": Target(_check_model("lightgbm"), _export_seeds("lightgbm", "lightgbm.txt"), (b"=", b" ", b"Tree=")),
    "xgboost": Target(
        _check_model("xgboost"), _xgboost_seeds, (*_JSON_TOKENS, b"L", b"$", b"#", b"i", b"[$d#"), is_json=True
    ),
    "catboost": Target(_check_model("catboost"), _catboost_seeds, _JSON_TOKENS, is_json=True),
    "ranklib": Target(
        _check_model("ranklib"),
        _export_seeds("ranklib", "ranklib.xml"),
        (b"<", b">", b"</", b"<split>", b"<!DOCTYPE x [<!ENTITY a 'b'>]>", b"&a;"),
    ),
    "request": Target(_check_request, lambda: _REQUESTS, _JSON_TOKENS, is_json=True),
    "request-bytes": Target(_check_binary_request, lambda: [b"1,1|" + bytes(24), b"|" + bytes(12)], (b",", b"|")),
}
"""Parsers by name."""
