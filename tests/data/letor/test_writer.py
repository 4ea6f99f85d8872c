"""What is written is read back as it was."""

from __future__ import annotations

import doctest
import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from plackett.base.errors import DataError, UsageError
from plackett.data.letor import read_table, write_table, writer
from plackett.data.letor.writer import LONGEST_NUMBER, write_number


def spell(value: float) -> str:
    out = np.zeros(LONGEST_NUMBER, dtype=np.uint8)
    return out[: write_number(out, 0, np.float32(value))].tobytes().decode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-12.0, "-12"),
        (16777216.0, "16777216"),
        (123456790000.0, "123456790000"),
        (1e12, "1e12"),
        (0.5, "0.5"),
        (0.1, "0.1"),
        (22.076928, "22.076927"),
        (0.00012345, "0.00012345"),
        (1.25e-5, "1.25e-5"),
        (-3e-7, "-3e-7"),
        (3.4028235e38, "3.4028235e38"),
        (1e-45, "1e-45"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_are_spelled_plainly(value: float, text: str) -> None:
    assert spell(value) == text


def assert_shortest(value: np.float32) -> None:
    text = spell(value)
    assert np.float32(text).view(np.uint32) == value.view(np.uint32)
    shortest = np.format_float_scientific(value, unique=True, trim="-")
    digits = shortest.lower().partition("e")[0].replace(".", "").strip("-0")
    assert text.partition("e")[0].replace(".", "").strip("-0") == digits


@settings(max_examples=1000, deadline=None)
@given(st.integers(1, 0x7F7FFFFF))
def test_no_shorter_decimal_reads_back(bits: int) -> None:
    assert_shortest(np.uint32(bits).view(np.float32))


def test_no_shorter_decimal_reads_back_at_powers_of_two_and_their_neighbours() -> None:
    powers = np.ldexp(np.float32(1), np.arange(-149, 128)).astype(np.float32).view(np.uint32)
    for bits in np.unique(np.concatenate([powers - 1, powers, powers + 1])):
        if bits > 0:
            assert_shortest(bits.view(np.float32))


@pytest.mark.parametrize("suffix", [".txt", ".gz", ".xz"])
def test_a_table_comes_back_as_it_was(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, (200, 30), dtype=np.uint32)
    features = bits.view(np.float32)
    features[~np.isfinite(features)] = np.nan
    features[rng.random(features.shape) < 0.3] = 0
    labels = rng.random(200).astype(np.float32)
    queries = np.array([f"q{i // 9}é" for i in range(200)])
    documents = np.array(["" if i % 5 == 0 else f"docid={i}" for i in range(200)])
    path = tmp_path / f"a{suffix}"
    write_table(path, features, labels, queries, documents)
    table = read_table(path, missing="nan")
    np.testing.assert_array_equal(np.isnan(table.features), np.isnan(features))
    there = ~np.isnan(features)
    np.testing.assert_array_equal(table.features.view(np.uint32)[there], bits[there])
    np.testing.assert_array_equal(table.labels, labels)
    np.testing.assert_array_equal(table.query_ids, queries)
    np.testing.assert_array_equal(table.document_ids, documents)  # type: ignore[arg-type]
    assert table.full_rows


def test_many_rows_come_back_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_BUFFER_BYTES", 1000)
    features = np.arange(6000, dtype=np.float32).reshape(2000, 3) / 7
    write_table(tmp_path / "a.txt", features, np.arange(2000), np.arange(2000) - 5)
    table = read_table(tmp_path / "a.txt")
    np.testing.assert_array_equal(table.features, features)
    np.testing.assert_array_equal(table.query_ids, np.arange(2000) - 5)
    assert table.document_ids is None


def test_zeros_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_table(path, [[0, 1, -0.0], [0, 0, 0]], [1, 0], [5, 5], sparse=True)
    assert path.read_text() == "1 qid:5 2:1 3:-0\n0 qid:5\n"
    with pytest.raises(UsageError, match="sparse=True cannot write NaN"):
        write_table(path, [[np.nan]], [1], [5], sparse=True)


def test_the_same_rows_give_the_same_archive(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        write_table(tmp_path / name, [[1.5]], [1], [5], [77])
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"1 qid:5 1:1.5 #docid = 77\n"


@pytest.mark.parametrize(
    ("features", "labels", "queries", "documents", "message"),
    [
        ([[1], [2]], [1], [1], None, r"features of shape \(2, 1\) do not match labels of shape"),
        ([[1, np.inf]], [1], [1], None, "feature 2 of row 0 is infinite"),
        ([[1], [2]], [1, -1], [1, 1], None, "label -1.0 in row 1"),
        ([[1]], [np.nan], [1], None, "label nan in row 0"),
        ([[1]], [1], [1, 2], None, r"query ids of shape \(2,\) for 1 rows"),
        ([[1]], [1], ["a b"], None, "query id 'a b' cannot be written"),
        ([[1]], [1], [""], None, "query id '' cannot be written"),
        ([[1]], [1], ["a#b"], None, "query id 'a#b' cannot be written"),
        ([[1]], [1], [1], ["a\n"], r"document id 'a\\n' cannot be written"),
        (np.zeros((0, 3)), [], [], None, "do not match"),
    ],
)
def test_rows_that_could_not_be_read_back_are_refused(  # type: ignore[no-untyped-def]
    tmp_path: Path, features, labels, queries, documents, message: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(DataError, match=message):
        write_table(path, features, labels, queries, documents)
    assert path.read_text() == "old"


def test_examples_in_the_documentation_hold() -> None:
    assert doctest.testmod(writer).failed == 0
