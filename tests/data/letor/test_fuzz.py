"""Any bytes: the table a slow reader also gives, or an error on the line it also refuses."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import letor_reference as reference
from plackett.base.errors import DataError
from plackett.data.inputs import Missing
from plackett.data.letor import blocks, iter_tables, read_table, reader as parse

T = TypeVar("T")
EXAMPLES = int(os.environ.get("PLACKETT_FUZZ_EXAMPLES", "400"))

numbers = st.one_of(
    st.sampled_from(["0", "1", "12", "0.123456", "-3.25", "1e-5", "16777217", "8388609.5", "nan"]),
    st.floats(allow_infinity=False, allow_nan=False, width=32).map(repr),
    st.floats(0, 1).map(repr),
    st.integers(0, 10**12).map(str),
)
labels = st.sampled_from(["0", "1", "2", "4", "0.5", "1e0", "3."])
queries = st.sampled_from(["1", "2", "17", "q", "é", "007", "9223372036854775807", "a:b"])
comments = st.sampled_from(["", "", "#", "# d1", "#docid = G-1 inc = 1", " # é x", "#docid=7"])
blanks = st.sampled_from([" ", " ", " ", "  ", "\t"])
ends = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", " \n", "\n# c\n"])


@st.composite
def lines(draw: st.DrawFn) -> str:
    indices = sorted(draw(st.sets(st.integers(1, 12), max_size=8)))
    if draw(st.booleans()):
        indices = list(range(1, len(indices) + 1))
    tokens = [draw(labels), "qid:" + draw(queries)]
    tokens += [f"{index}:{draw(numbers)}" for index in indices]
    return draw(blanks).join(tokens) + draw(comments) + draw(ends)


texts = st.lists(lines(), min_size=1, max_size=6).map(lambda parts: "".join(parts).encode())
junk = st.one_of(
    st.binary(max_size=3),
    st.sampled_from([b" ", b"\n", b"\r", b"\0", b":", b"#", b"qid:", b"0:1", b"1:", b"nan", b"inf"]),
    st.sampled_from([b"e", b"-", b".", b"9" * 20, b"1e40", b"\xef\xbb\xbf", b"\xc3", b"_", b"00"]),
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A right file with a few bytes put in, cut out, or overwritten."""
    text = draw(texts)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(junk) + text[at + draw(st.integers(0, 3)) :]
    return text


@pytest.fixture(autouse=True, scope="module")
def _small_memory() -> Iterator[None]:
    """No matrix above a few megabytes, so that the judge can hold what the reader accepts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parse, "available_memory", lambda: 1 << 22)
        patch.setattr(blocks, "PIECE_BYTES", 70)
        yield


def outcome(read: Callable[[Path], T], data: bytes) -> T | DataError:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.txt"
        path.write_bytes(data)
        try:
            return read(path)
        except DataError as error:
            return error


def assert_same_as_slow_reader(data: bytes, missing: Missing, n_features: int | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.txt"
        path.write_bytes(data)
        reference.compare(path, data, missing, n_features, memory=1 << 22)


@settings(max_examples=EXAMPLES, deadline=None)
@given(mutated(), st.sampled_from([None, "nan"]), st.sampled_from([None, None, 5, 12]))
@example(b"0 qid:1 1:2\r\r\n", None, None)
@example(b"0 qid:1 5:1 3:1\n0 qid:1 2:1\n", None, None)
@example(b"0 qid:1 1:1 \x0b\n", None, None)
@example(b"\xef\xbb\xbf\xef\xbb\xbf0 qid:1 1:1", None, None)
@example(b"0 qid:1 1:1#\r", None, None)
@example(b"1 qid:1 1:1 # a\r0 qid:1 1:2 # b\r", None, None)
@example(b"0 qid:1 1:1\r\n# only a comment \r x\r\n0 qid:1 1:1\r\n", None, None)
def test_a_mutated_file_is_read_or_refused_as_the_slow_reader_does(
    data: bytes, missing: Missing, n_features: int | None
) -> None:
    assert_same_as_slow_reader(data, missing, n_features)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.text("0123456789:qid \n.e-+#\t", max_size=60).map(str.encode)))
def test_any_bytes_are_read_or_refused_as_the_slow_reader_does(data: bytes) -> None:
    assert_same_as_slow_reader(data, None, None)


@settings(max_examples=EXAMPLES // 4, deadline=None)
@given(mutated(), st.integers(1, 200))
def test_reading_in_blocks_gives_the_rows_or_the_error_of_the_whole(data: bytes, size: int) -> None:
    whole = outcome(lambda path: read_table(path, n_features=12), data)
    parts = outcome(lambda path: list(iter_tables(path, n_features=12, block_bytes=size)), data)
    if isinstance(whole, DataError):
        assert isinstance(parts, DataError)
        assert (parts.line, parts.message) == (whole.line, whole.message)
        return
    assert isinstance(parts, list)
    np.testing.assert_array_equal(np.concatenate([part.features for part in parts]), whole.features)
    np.testing.assert_array_equal(np.concatenate([part.labels for part in parts]), whole.labels)
    assert [str(i) for p in parts for i in p.query_ids.tolist()] == [str(i) for i in whole.query_ids]
