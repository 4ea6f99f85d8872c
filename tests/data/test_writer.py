from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from dataset_helpers import difference, make_rows
from plackett.base.errors import DataError, DataWarning, UsageError
from plackett.data.reader import read
from plackett.data.writer import ConvertReport, convert, write


def _contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(path.iterdir())
    return {file.name: file.read_bytes() for file in files}


def _assert_same_as_read_and_write(source: Path, suffix: str, block_bytes: int, **options: Any) -> None:
    ours, theirs = source.parent / f"ours{suffix}", source.parent / f"theirs{suffix}"
    convert(source, ours / f"set{suffix}", block_bytes=block_bytes, **options)
    write(read(source, **options), theirs / f"set{suffix}")
    assert _contents(ours / f"set{suffix}") == _contents(theirs / f"set{suffix}")
    assert [file.name for file in ours.iterdir()] == [f"set{suffix}"]


TEXTS = {
    "dense": "2 qid:1 1:0.5 2:1\n0 qid:1 1:0 2:3\n1 qid:2 1:7 2:8\n0 qid:3 1:1 2:1\n",
    "widths that grow": "1 qid:1 1:1\n0 qid:1 2:1\n2 qid:2 1:3 5:2\n0 qid:3 7:1\n0 qid:3 1:4\n",
    "widths that shrink": "1 qid:1 9:1\n0 qid:1 2:1\n2 qid:2 1:3\n0 qid:3 1:1\n",
    "ids that become text": "1 qid:7 1:1\n0 qid:7 1:2\n1 qid:08 1:3\n0 qid:08 1:4\n1 qid:x 1:5\n",
    "document ids": "1 qid:1 1:1 #docid = a\n0 qid:1 1:1 #docid = b\n0 qid:2 1:1 #docid = c\n",
    "documents of later blocks": "1 qid:1 1:1\n0 qid:1 1:1\n0 qid:2 1:1 # x\n1 qid:2 1:2 # y7\n",
    "documents of earlier blocks": "1 qid:1 1:1 #22\n0 qid:1 1:1 #3\n0 qid:2 1:1\n1 qid:2 1:2\n",
    "comments and blank lines": "# head\n\n1 qid:1 1:1\n   \n0 qid:1 2:1\n# tail\n",
}


@pytest.mark.parametrize("suffix", [".pkdata", ".parquet"])
@pytest.mark.parametrize("missing", [None, "nan"])
@pytest.mark.parametrize("block_bytes", [1, 40, 1 << 20])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_streaming_equals_reading_and_writing_to_the_bit(
    tmp_path: Path, text: str, block_bytes: int, missing: Any, suffix: str
) -> None:
    (tmp_path / "set.txt").write_text(text)
    _assert_same_as_read_and_write(tmp_path / "set.txt", suffix, block_bytes, missing=missing)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), suffix=st.sampled_from([".pkdata", ".parquet"]))
def test_random_text_is_streamed_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, suffix: str
) -> None:
    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    width, strings = data.draw(st.integers(1, 6)), data.draw(st.booleans())
    lines = []
    for query in range(data.draw(st.integers(1, 8))):
        for _ in range(rng.integers(1, 5)):
            kept = np.flatnonzero(rng.random(width) < 0.6) + 1
            values = " ".join(f"{j}:{rng.integers(-2, 3) / 4}" for j in kept)
            name = f"q{query}" if strings and query % 2 else query
            comment = f" #docid = d{rng.integers(9)}" if rng.random() < 0.5 else ""
            lines.append(f"{rng.integers(3)} qid:{name} 1:1 {values}".replace("1:1 1:", "1:") + comment)
    (folder / "set.txt").write_text("\n".join(lines) + "\n")
    block_bytes = data.draw(st.integers(1, 200))
    _assert_same_as_read_and_write(folder / "set.txt", suffix, block_bytes)


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz", ".txt.xz"])
def test_a_larger_text_is_streamed_to_the_bit(tmp_path: Path, suffix: str) -> None:
    write(make_rows(5000, 17, 80, documents=True).dataset(), tmp_path / f"set{suffix}")
    for target in (".pkdata", ".parquet"):
        _assert_same_as_read_and_write(tmp_path / f"set{suffix}", target, 10_000)


@pytest.mark.parametrize("suffix", [".pkdata", ".parquet"])
def test_a_width_that_is_given_is_kept(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "set.txt").write_text(TEXTS["widths that grow"])
    _assert_same_as_read_and_write(tmp_path / "set.txt", suffix, 20, n_features=12)
    with pytest.raises(DataError, match=r"set\.txt:3: "):
        convert(tmp_path / "set.txt", tmp_path / f"set{suffix}", block_bytes=20, n_features=3)


@pytest.mark.parametrize("suffix", [".pkdata", ".parquet"])
def test_queries_that_occur_again_are_merged_with_one_warning(tmp_path: Path, suffix: str) -> None:
    text = "1 qid:1 1:1\n0 qid:2 1:2\n2 qid:1 1:3\n0 qid:2 1:4\n"
    (tmp_path / "set.txt").write_text(text)
    target = tmp_path / f"set{suffix}"
    with pytest.warns(DataWarning, match="not next to each other") as caught:
        report = convert(tmp_path / "set.txt", target, block_bytes=1)
    assert len(caught) == 1
    assert report == ConvertReport(2, 4, 1, streamed=True)
    with pytest.warns(DataWarning):
        expected = read(tmp_path / "set.txt")
    if suffix == ".pkdata":  # lists are stored as lists: nothing to warn of any more
        assert difference(read(target), expected) is None


@pytest.mark.parametrize("suffix", [".pkdata", ".parquet"])
def test_queries_that_occur_again_are_refused_if_strict(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "set.txt").write_text("1 qid:1 1:1\n0 qid:2 1:2\n2 qid:1 1:3\n")
    with pytest.raises(DataError) as ours:
        convert(tmp_path / "set.txt", tmp_path / f"set{suffix}", block_bytes=1, strict=True)
    with pytest.raises(DataError) as theirs:
        read(tmp_path / "set.txt", strict=True)
    assert str(ours.value) == str(theirs.value)
    assert [file.name for file in tmp_path.iterdir()] == ["set.txt"]


@pytest.mark.parametrize("suffix", [".pkdata", ".parquet"])
@pytest.mark.parametrize("text", ["", "# nothing\n", "1 qid:1\n", "1 qid:1 1:1\nx\n", "1 qid:1 1:nan\n"])
def test_bad_text_is_refused_as_by_reading_and_leaves_nothing(tmp_path: Path, text: str, suffix: str) -> None:
    (tmp_path / "set.txt").write_text(text)
    with pytest.raises(DataError) as ours:
        convert(tmp_path / "set.txt", tmp_path / f"set{suffix}")
    with pytest.raises(DataError) as theirs:
        read(tmp_path / "set.txt")
    assert str(ours.value) == str(theirs.value)
    assert [file.name for file in tmp_path.iterdir()] == ["set.txt"]


SUFFIXES = [".txt", ".txt.gz", ".parquet", ".arrow", ".pkdata"]


@pytest.mark.parametrize("source", SUFFIXES)
@pytest.mark.parametrize("target", SUFFIXES)
def test_every_format_becomes_every_other(tmp_path: Path, source: str, target: str) -> None:
    ds = make_rows(documents=True, strings=True).dataset()
    write(ds, tmp_path / f"a{source}")
    report = convert(tmp_path / f"a{source}", tmp_path / f"b{target}")
    assert difference(read(tmp_path / f"b{target}"), ds) is None
    mapped = source in (".parquet", ".arrow") and target == ".pkdata"
    streamed = mapped or (source.startswith(".txt") and not target.startswith(".txt"))
    assert report == ConvertReport(ds.n_lists, ds.n_docs, ds.n_features, streamed=streamed)


@pytest.mark.parametrize("target", [".txt", ".parquet", ".pkdata"])
@pytest.mark.parametrize("source", [".txt", ".parquet", ".pkdata"])
def test_progress_never_falls_and_ends_with_all_done(tmp_path: Path, source: str, target: str) -> None:
    write(make_rows(500, n_lists=20).dataset(), tmp_path / f"a{source}")
    calls: list[tuple[int, int]] = []
    convert(
        tmp_path / f"a{source}",
        tmp_path / f"b{target}",
        block_bytes=1000,
        progress=lambda done, total: calls.append((done, total)),
    )
    done = [d for d, _ in calls]
    assert done == sorted(done)
    assert calls[-1][0] == calls[-1][1]


def test_columns_can_be_named_for_tables_only(tmp_path: Path) -> None:
    write(make_rows().dataset(), tmp_path / "a.txt")
    with pytest.raises(UsageError, match="label= names columns"):
        convert(tmp_path / "a.txt", tmp_path / "b.pkdata", label="stars")
    with pytest.raises(UsageError, match=r"suffix '\.xls'"):
        convert(tmp_path / "a.txt", tmp_path / "b.xls")


_LIMITED = """
import resource, sys
from plackett.data.writer import convert
from plackett.data.reader import read
warm, source, target, limit = sys.argv[1:]
convert(warm, target)  # compiles, imports and starts threads before the limit is set
def data():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmData")).split()[1])
room = data() + int(limit)
resource.setrlimit(resource.RLIMIT_DATA, (room, room))
report = convert(source, target, block_bytes=1 << 20)
print(report.n_docs)
try:
    read(source)
except (MemoryError, ValueError):
    print("reading needs more")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit on private memory is Linux's")
@pytest.mark.parametrize("suffix", [".pkdata"])
def test_streaming_needs_less_memory_than_the_features(tmp_path: Path, suffix: str) -> None:
    n_docs, n_features = 60_000, 200  # 48 MB of features
    line = " ".join(f"{j}:{j % 10}" for j in range(1, n_features + 1))
    with (tmp_path / "large.txt").open("w") as file:
        file.writelines(f"{i % 3} qid:{i // 50} {line} 201:{i}\n" for i in range(n_docs))
    write(make_rows(100, 5).dataset(), tmp_path / "small.txt")
    arguments = [tmp_path / "small.txt", tmp_path / "large.txt", tmp_path / f"out{suffix}", 32 << 20]
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.stdout.split("\n")[:2] == [str(n_docs), "reading needs more"], done.stderr
    result = read(tmp_path / f"out{suffix}")
    assert (result.n_docs, result.n_features) == (n_docs, n_features + 1)
    assert np.array_equal(result.features[:, -1], np.arange(n_docs))


@pytest.mark.parametrize("target", ["new.parquet", "new.txt", "new.pkdata"])
def test_damaged_features_are_not_converted(tmp_path, target) -> None:
    write(make_rows().dataset(), tmp_path / "old.pkdata")
    file = tmp_path / "old.pkdata" / "features.npy"
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match="checksum"):
        convert(tmp_path / "old.pkdata", tmp_path / target)
    assert not (tmp_path / target).exists()
