from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import plackett as pk
from plackett.base.errors import DataError, UsageError
from plackett.data.clicks import ClickLog, read_clicks, simulate, write_clicks

ROWS = {
    "impression": [1, 1, 1, 2, 2],
    "query": ["tea", "tea", "tea", "pot", "pot"],
    "document": ["a", "b", "c", "a", "b"],
    "position": [1, 2, 3, 2, 1],
    "click": [0, 1, 0, 0, 1],
}


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_any_table_is_a_log(kind) -> None:
    log = ClickLog.from_table(kind(ROWS))
    assert repr(log) == "ClickLog(2 impressions of 2 queries, 5 rows, 2 clicks)"
    assert log.positions.tolist() == [1, 2, 3, 2, 1]
    assert log.clicks.tolist() == [False, True, False, False, True]


def test_usual_other_names_are_found_and_others_can_be_given() -> None:
    other = dict(zip(("session_id", "qid", "url", "rank", "clicked"), ROWS.values(), strict=True))
    assert len(ClickLog.from_table(other)) == 5
    odd = {**ROWS, "place": ROWS["position"]}
    del odd["position"]
    with pytest.raises(DataError, match=r"no column 'position' \(nor 'rank', 'pos'\).*position="):
        ClickLog.from_table(odd)
    assert len(ClickLog.from_table(odd, position="place")) == 5
    with pytest.raises(DataError, match="no column 'nowhere'"):
        ClickLog.from_table(odd, position="nowhere")
    with pytest.raises(UsageError, match="not 'label'"):
        ClickLog.from_table(odd, label="x")


def test_queries_may_be_left_out() -> None:
    log = ClickLog.from_table({k: v for k, v in ROWS.items() if k != "query"})
    assert log.queries is None
    with pytest.raises(DataError, match="no column of queries"):
        log.of_queries(["tea"])


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("position", 3, 0, "row 3 .*position 0 in column 'position'; positions are whole"),
        ("position", 3, 1.5, "row 3 .*position 1.5"),
        ("position", 3, "x", "row 3 .*position x"),
        ("click", 2, 2, "row 2 .*2 in column 'click'; a click is 0 or 1"),
        ("query", 1, "pot", "row 1 .*two queries in impression 1: here and in row 0"),
        ("document", 2, "b", "row 2 .*same document twice in impression 1: here and in row 1"),
        ("position", 4, 2, "row 4 .*same position twice in impression 2: here and in row 3"),
    ],
)
def test_wrong_rows_are_named(column, row, value, message) -> None:
    values = list(ROWS[column])
    values[row] = value
    if isinstance(value, str) and column == "position":
        values = [str(v) for v in values]
    with pytest.raises(DataError, match=message):
        ClickLog.from_table({**ROWS, column: values})


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".arrow"])
def test_a_log_comes_back_from_a_file(tmp_path, suffix) -> None:
    log = ClickLog.from_table(ROWS)
    path = tmp_path / f"log{suffix}"
    write_clicks(log, path)
    calls = []
    back = read_clicks(path, progress=lambda done, total: calls.append(done / total))
    for name in ("impressions", "queries", "documents", "positions", "clicks"):
        assert getattr(back, name).tolist() == getattr(log, name).tolist()
    assert calls


@pytest.mark.parametrize("name", ["log.csv.gz", "log.tsv.csv.gz"])
def test_text_may_be_compressed_and_ids_keep_their_zeros(tmp_path, name) -> None:
    path = tmp_path / name  # the last suffix counts
    text = "impression,query,document,position,click\n7,007,010,1,true\n7,007,011,2,false\n"
    path.write_bytes(gzip.compress(text.encode()))
    log = read_clicks(path)
    assert log.documents.tolist() == ["010", "011"]
    assert log.queries.tolist() == ["007", "007"]
    assert log.impressions.tolist() == [7, 7]
    assert log.clicks.tolist() == [True, False]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,tea,d,x,0", r"log.csv:4: position x"),
        ("1,tea,d,4,9", r"log.csv:4: 9 in column 'click'"),
        ("1,tea,,4,0", r"log.csv:4: column 'document' is empty"),
        ("1,tea,d", r"not a readable click log"),
        ("", r"log.csv:4: column .impression. is empty"),
        ("1,tea,b,4,0", r"log.csv:4: the same document twice in impression 1: here and in line 3"),
    ],
)
def test_wrong_lines_are_named(tmp_path, line, message) -> None:
    path = tmp_path / "log.csv"
    head = "impression,query,document,position,click\n1,tea,a,1,0\n1,tea,b,2,1\n"
    path.write_text(head + line + "\n1,tea,z,9,0\n")
    with pytest.raises(DataError, match=message):
        read_clicks(path)


def test_files_that_are_no_logs_are_refused(tmp_path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        read_clicks(tmp_path / "nothing.csv")
    (tmp_path / "log.txt").write_text("x")
    with pytest.raises(UsageError, match="a click log is CSV or TSV"):
        read_clicks(tmp_path / "log.txt")
    (tmp_path / "log.parquet").write_text("x")
    with pytest.raises(DataError, match="not a readable Parquet"):
        read_clicks(tmp_path / "log.parquet")
    (tmp_path / "log.csv").write_text("")
    with pytest.raises(DataError, match="no column 'impression'"):
        read_clicks(tmp_path / "log.csv")
    with pytest.raises(UsageError, match="is written as"):
        write_clicks(ClickLog.from_table(ROWS), tmp_path / "log.json")


def test_parts_of_a_log_by_query() -> None:
    log = simulate(pk.synthetic("web", n_lists=10), impressions=2, top=3)
    part = log.of_queries(np.unique(log.queries)[:4])
    assert len(np.unique(part.impressions)) == 8


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_ids_that_are_not_utf8_are_named_as_an_error_of_the_file(tmp_path, suffix) -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 5, [None, pa.py_buffer(np.int32([0, 1, 2, 3, 4, 5])), pa.py_buffer(b"ab\xffcd")]
    )
    table = pa.table({**ROWS, "document": bad})
    path = tmp_path / f"log{suffix}"
    if suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(DataError, match=r"not a readable .*(not UTF-8|Invalid UTF8)"):
        read_clicks(path)
    with pytest.raises(DataError, match="not a readable table"):
        ClickLog.from_table(table)
    frame = table.rename_columns(["label", "q", "query_id", "f1", "f2"]).drop_columns("q")
    with pytest.raises(DataError, match="not a readable table"):
        pk.Dataset(frame)
