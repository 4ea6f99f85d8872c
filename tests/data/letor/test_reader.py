"""What a right file becomes."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numba
import numpy as np
import pytest

from plackett.base.errors import UsageError
from plackett.data.files import ReadLimits
from plackett.data.letor import iter_tables, read_table, reader as parse


@pytest.fixture
def file(tmp_path: Path):  # type: ignore[no-untyped-def]
    def write(content: str | bytes) -> Path:
        path = tmp_path / "train.txt"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_rows_come_in_the_order_of_the_file(file) -> None:  # type: ignore[no-untyped-def]
    table = read_table(file("2 qid:7 1:0.5 2:-3\n0 qid:3 1:1e-3 2:4.25\n"))
    np.testing.assert_array_equal(table.features, np.float32([[0.5, -3], [1e-3, 4.25]]))
    np.testing.assert_array_equal(table.labels, np.float32([2, 0]))
    np.testing.assert_array_equal(table.query_ids, [7, 3])
    assert table.query_ids.dtype == np.int64
    assert table.features.dtype == table.labels.dtype == np.float32
    assert table.document_ids is None
    assert table.full_rows
    assert table.source is not None
    assert table.source.endswith("train.txt")


@pytest.mark.parametrize(
    "content",
    [
        "1 qid:1 1:2 2:3\n0 qid:1 1:4 2:5\n",
        "1 qid:1 1:2 2:3\r\n0 qid:1 1:4 2:5\r\n",
        "1 qid:1 1:2 2:3\n0 qid:1 1:4 2:5",
        "\ufeff1 qid:1 1:2 2:3\n0 qid:1 1:4 2:5\n",
        "\n# head\n \t\n1 qid:1 1:2 2:3\n\r\n   # more\n0 qid:1 1:4 2:5\n#\n\n",
        " 1\tqid:1  1:2\t 2:3 \t\n\t0 qid:1 1:4   2:5\t",
        "1.0 qid:1 01:2.0 2:3e0\n-0 qid:1 1:+4 2:.5e1\n",
        "1 qid:1 1:2 2:3#\n0 qid:1 1:4 2:5 #\n",
    ],
)
def test_line_ends_blanks_and_spellings_do_not_matter(file, content: str) -> None:  # type: ignore[no-untyped-def]
    table = read_table(file(content))
    np.testing.assert_array_equal(table.features, [[2, 3], [4, 5]])
    np.testing.assert_array_equal(table.labels, [1, 0])
    assert not np.signbit(table.labels).any()
    assert table.document_ids is None
    assert table.full_rows


def test_features_left_out_are_zero_or_missing(file) -> None:  # type: ignore[no-untyped-def]
    path = file("0 qid:1 2:5\n1 qid:1\n1 qid:1 1:7 4:9\n")
    zero = read_table(path)
    np.testing.assert_array_equal(zero.features, [[0, 5, 0, 0], [0, 0, 0, 0], [7, 0, 0, 9]])
    assert not zero.full_rows
    nan = np.nan
    missing = read_table(path, missing="nan")
    np.testing.assert_array_equal(missing.features, [[nan, 5, nan, nan], [nan] * 4, [7, nan, nan, 9]])


def test_missing_values_may_be_written(file) -> None:  # type: ignore[no-untyped-def]
    table = read_table(file("0 qid:1 1:nan 2:NaN 3:-nan 4:+NAN 5:1\n"), missing="nan")
    np.testing.assert_array_equal(table.features, [[np.nan] * 4 + [1]])
    assert table.full_rows


def test_the_width_can_be_given(file) -> None:  # type: ignore[no-untyped-def]
    table = read_table(file("0 qid:1 1:5 2:6\n"), n_features=4)
    np.testing.assert_array_equal(table.features, [[5, 6, 0, 0]])
    assert not table.full_rows


def test_indices_of_any_size_are_read(file) -> None:  # type: ignore[no-untyped-def]
    indices = [9, 10, 99, 100, 65536, 65537, 70000, 70001, 12345678]
    line = " ".join(f"{i}:{i % 97}" for i in indices)
    limits = ReadLimits(max_features=indices[-1])
    row = read_table(file(f"0 qid:1 {line}\n"), limits=limits).features[0]
    assert len(row) == indices[-1]
    np.testing.assert_array_equal(np.flatnonzero(row) + 1, indices)
    np.testing.assert_array_equal(row[np.array(indices) - 1], np.array(indices) % 97)


@pytest.mark.parametrize(
    ("comment", "document"),
    [
        ("#docid = GX000-00-0000000 inc = 1 prob = 0.02", "GX000-00-0000000"),
        ("# docid=57950", "57950"),
        ("#docid= a=b", "a=b"),
        ("#docid =x#y", "x#y"),
        ("#  http://a/b?c  second", "http://a/b?c"),
        ("#docid", "docid"),
        ("#docid =", "docid"),
        ("#docids = 5", "docids"),
        ("#\tdocument-é漢🎈 x", "document-é漢🎈"),
    ],
)
def test_document_ids_come_from_comments(file, comment: str, document: str) -> None:  # type: ignore[no-untyped-def]
    table = read_table(file(f"0 qid:1 1:5 {comment}\n1 qid:1 1:6\n2 qid:1 1:5{comment}\r\n"))
    assert table.document_ids is not None
    assert table.document_ids.dtype.kind == "U"
    assert table.document_ids.tolist() == [document, "", document]


@pytest.mark.parametrize(
    "names",
    [
        ["1", "2", "x"],
        ["01", "2"],
        ["-0", "1"],
        ["9223372036854775808", "1"],
        ["-9223372036854775809"],
        ["+1"],
        ["1.0"],
        ["q:1", "é", "漢字", "🎈"],
        ["a" * 300, "b"],
        ["1_000"],
    ],
)
def test_query_ids_that_are_not_all_integers_are_text(file, names: list[str]) -> None:  # type: ignore[no-untyped-def]
    table = read_table(file("".join(f"0 qid:{name} 1:5\n" for name in names)))
    assert table.query_ids.dtype.kind in "UO"
    assert table.query_ids.tolist() == names
    assert all(type(name) is str for name in table.query_ids.tolist())


def test_many_texts_of_different_length_are_read_in_little_memory(file) -> None:  # type: ignore[no-untyped-def]
    names = [f"q{i}" for i in range(40_000)]
    names[7], names[::1000] = "é" * 100, ["x" * (200 + i) for i in range(40)]
    path = file("".join(f"0 qid:{name} 1:5\n" for name in names))
    tracemalloc.start()
    table = read_table(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.query_ids.dtype == np.dtype("U239")
    assert table.query_ids.tolist() == names
    assert peak < 3 * table.query_ids.nbytes


def test_query_ids_that_are_all_integers_are_integers(file) -> None:  # type: ignore[no-untyped-def]
    ids = [0, 7, -7, 10**18, 2**63 - 1, -(2**63)]
    table = read_table(file("".join(f"0 qid:{i} 1:5\n" for i in ids)))
    assert table.query_ids.dtype == np.int64
    assert table.query_ids.tolist() == ids


def test_a_value_that_needs_exact_arithmetic_leaves_the_rest_of_its_line_as_it_is(file) -> None:  # type: ignore[no-untyped-def]
    hard = "1.00000005960464477539062500001"
    line = f"3 qid:x7 1:0.5 2:{hard} 4:nan # docid = d9\n"
    table = read_table(file("0 qid:1 1:1 2:2 3:3 4:4\n" + line + "1 qid:2 4:1\n"), missing="nan")
    expected = np.float32([[1, 2, 3, 4], [0.5, 1.0000001, np.nan, np.nan], [np.nan] * 3 + [1]])
    np.testing.assert_array_equal(table.features, expected)
    assert table.labels.tolist() == [0, 3, 1]
    assert table.query_ids.tolist() == ["1", "x7", "2"]
    assert table.document_ids is not None
    assert table.document_ids.tolist() == ["", "d9", ""]
    assert not table.full_rows


def test_a_full_row_that_needs_exact_arithmetic_is_full(file) -> None:  # type: ignore[no-untyped-def]
    assert read_table(file("0 qid:1 1:1.00000005960464477539062500001 2:1\n")).full_rows


def test_progress_rises_to_the_size_of_the_file(file, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("plackett.data.letor.blocks.PIECE_BYTES", 100)
    path = file("0 qid:1 1:5 2:6\n" * 50)
    for read in (read_table, lambda *a, **k: list(iter_tables(*a, **k, block_bytes=200))):
        calls: list[tuple[int, int]] = []
        read(path, progress=lambda done, total: calls.append((done, total)))  # noqa: B023
        assert len(calls) > 3
        assert calls == sorted(calls)
        assert calls[-1] == (path.stat().st_size, path.stat().st_size)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_number_of_threads_does_not_matter(
    file,
    monkeypatch: pytest.MonkeyPatch,
    threads: int,  # type: ignore[no-untyped-def]
) -> None:
    monkeypatch.setattr("plackett.data.letor.blocks.PIECE_BYTES", 64)
    lines = [f"{i % 3} qid:q{i // 7} 1:{i} {2 + i % 5}:0.25 #d{i}\n" for i in range(100)]
    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, before))
    try:
        table = read_table(file("".join(lines)))
    finally:
        numba.set_num_threads(before)
    assert table.labels.tolist() == [i % 3 for i in range(100)]
    assert table.query_ids.tolist() == [f"q{i // 7}" for i in range(100)]
    assert table.document_ids is not None
    assert table.document_ids.tolist() == [f"d{i}" for i in range(100)]
    assert table.features[:, 0].tolist() == list(range(100))
    assert [row[1 + i % 5] for i, row in enumerate(table.features)] == [0.25] * 100


def test_options_that_do_not_exist_are_refused(file) -> None:  # type: ignore[no-untyped-def]
    path = file("0 qid:1 1:5\n")
    with pytest.raises(UsageError, match="missing must be None or 'nan', got 'zero'"):
        read_table(path, missing="zero")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="n_features must be positive, got 0"):
        read_table(path, n_features=0)
    with pytest.raises(UsageError, match="block_bytes must be positive, got 0"):
        next(iter_tables(path, block_bytes=0))


def test_an_index_that_fits_in_memory_only_for_few_rows_is_checked_against_memory(
    file,
    monkeypatch: pytest.MonkeyPatch,  # type: ignore[no-untyped-def]
) -> None:
    path = file("0 qid:1 1:5 100:1\n" * 10)
    monkeypatch.setattr(parse, "available_memory", lambda: 4000)
    assert read_table(path).features.shape == (10, 100)
