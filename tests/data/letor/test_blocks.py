"""Where a file is cut, how it is packed, and from where it comes do not matter."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from plackett.base.errors import DataError
from plackett.data import files as limits_module
from plackett.data.files import ReadLimits
from plackett.data.inputs import Table
from plackett.data.letor import blocks, iter_tables, read_table

LINES = [
    b"%d qid:%d 1:%d.5 %d:-0.125%s\n" % (i % 5, i // 4, i, 2 + i % 7, b" # d%d" % i if i % 3 else b"")
    for i in range(60)
]
TEXT = b"".join(LINES)


def assert_same(one: Table, two: Table) -> None:
    np.testing.assert_array_equal(one.features, two.features)
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(one.query_ids, two.query_ids)
    assert (one.document_ids is None) == (two.document_ids is None)
    if one.document_ids is not None and two.document_ids is not None:
        assert one.document_ids.tolist() == two.document_ids.tolist()
    assert one.full_rows == two.full_rows


@pytest.fixture
def whole(tmp_path: Path) -> Table:
    path = tmp_path / "whole.txt"
    path.write_bytes(TEXT)
    return read_table(path)


@pytest.mark.parametrize("size", [1, 7, 33, 100, 10**6])
def test_pieces_of_any_size_give_the_same_table(
    tmp_path: Path, whole: Table, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(blocks, "PIECE_BYTES", size)
    assert_same(read_table(tmp_path / "whole.txt"), whole)


@pytest.mark.parametrize("size", [1, 25, 26, 27, 300, 10**6])
@pytest.mark.parametrize(("suffix", "pack"), [(".txt", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_blocks_of_any_size_hold_the_rows_of_the_whole(
    tmp_path: Path, whole: Table, size: int, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(pack(TEXT))
    parts = list(iter_tables(path, block_bytes=size, n_features=8))
    assert len(parts) > 1 or size > 300
    np.testing.assert_array_equal(np.concatenate([part.features for part in parts]), whole.features)
    np.testing.assert_array_equal(np.concatenate([part.labels for part in parts]), whole.labels)
    np.testing.assert_array_equal(np.concatenate([p.query_ids for p in parts]), whole.query_ids)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n", b"\n#" + b"x" * 100])
@pytest.mark.parametrize("length", [1, 31, 32, 33, 4063, 4064, 4065, 4095, 4096, 4097, 8192])
def test_files_of_any_length_are_read_to_their_end(tmp_path: Path, length: int, end: bytes) -> None:
    """The last bytes of a map lie next to memory that must not be touched."""
    path = tmp_path / "train.txt"
    value = b"1".rjust(max(length - len(b"0 qid:1 1:") - len(end), 1), b"0")
    path.write_bytes(b"0 qid:1 1:" + value + end)
    assert read_table(path).features.tolist() == [[1.0]]
    path.write_bytes(b"2 qid:5 1:3\n" * 400 + b"0 qid:1 1:" + value + end)
    assert read_table(path).features[-2:].tolist() == [[3.0], [1.0]]


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".XZ", lzma.compress)])
def test_compressed_files_give_the_same_table(
    tmp_path: Path, whole: Table, monkeypatch: pytest.MonkeyPatch, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"packed{suffix}"
    path.write_bytes(pack(TEXT))
    assert_same(read_table(path), whole)
    # Two archives one after the other are the archive of both texts.
    path.write_bytes(pack(b"\xef\xbb\xbf" + TEXT[:500]) + pack(TEXT[500:]))
    monkeypatch.setattr(blocks, "STREAM_BYTES", 100)
    assert_same(read_table(path), whole)


def test_blocks_that_differ_in_kind_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [b"0 qid:1 1:5\n", b"1 qid:x 1:1 3:2 # d\n", b"#\n", b"2 qid:22 2:7\n"]
    monkeypatch.setattr(blocks, "STREAM_BYTES", 12)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"".join(lines)))
    table = read_table(path)
    assert table.query_ids.tolist() == ["1", "x", "22"]
    assert table.document_ids is not None
    assert table.document_ids.tolist() == ["", "d", ""]
    assert table.features.tolist() == [[5, 0, 0], [1, 0, 2], [0, 7, 0]]
    assert not table.full_rows
    missing = read_table(path, missing="nan").features
    np.testing.assert_array_equal(np.isnan(missing), [[0, 1, 1], [0, 1, 0], [1, 0, 1]])


def test_standard_input_is_read(whole: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT)))
    assert_same(read_table("-"), whole)


@pytest.mark.timeout(10)
def test_a_pipe_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    with pytest.raises(DataError, match=r"is a pipe, which may never end.* give - instead"):
        read_table(pipe)


def test_an_endless_line_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(blocks, "STREAM_BYTES", 1000)
    limits = ReadLimits(max_line_bytes=5000)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(_Endless(b"1")))  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"from byte 0 is longer than 5,000 bytes.*max_line_bytes"):
        read_table("-", limits=limits)
    monkeypatch.setattr(blocks, "PIECE_BYTES", 100)
    path = tmp_path / "train.txt"
    path.write_bytes(TEXT + b"0 qid:1 1:1 #" + b"x" * 9000 + b"\n" + TEXT)
    with pytest.raises(DataError, match="is longer than 5,000 bytes"):
        read_table(path, limits=limits)
    assert read_table(path, limits=ReadLimits(max_line_bytes=10_000)).n_docs > 0


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_text_out_of_proportion_to_its_archive_is_refused(
    suffix: str, compress: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits_module, "_FREE_BYTES", 1000)
    monkeypatch.setattr(blocks, "STREAM_BYTES", 10_000)
    path = tmp_path / f"bomb.txt{suffix}"
    path.write_bytes(compress(b"0 qid:1 1:1\n" * 100_000))
    with pytest.raises(DataError, match=r"of compressed data hold more than .*max_expansion="):
        read_table(path)
    assert read_table(path, limits=ReadLimits(max_expansion=10_000)).n_docs == 100_000


class _Endless(io.RawIOBase):
    """A stream of one byte without end."""

    def __init__(self, byte: bytes) -> None:
        self.byte = byte

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        buffer[:] = self.byte * len(buffer)
        return len(buffer)


def test_the_map_of_a_file_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(TEXT)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(20):
        read_table(path)
        next(iter_tables(path, block_bytes=10))
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after <= before + 1
