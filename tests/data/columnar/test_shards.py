"""Shards as they come: empty, in other forms, cut off, or changed while they are read."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import plackett as pk
from dataset_helpers import difference, make_rows
from plackett.cli import main
from plackett.data import ReadOptions, find_files, read_blocks

pytestmark = pytest.mark.usefixtures("_tiny_blocks")


def as_table(rows) -> pa.Table:
    columns = {"query_id": rows.query_ids, "label": rows.labels}
    return pa.table(columns | {f"x{j}": column for j, column in enumerate(rows.features.T)})


def write(folder: Path, *tables: pa.Table) -> Path:
    folder.mkdir(exist_ok=True)
    for place, table in enumerate(tables):
        pq.write_table(table, folder / f"part-{place}.parquet")
    return folder


def cast(table: pa.Table, **kinds: pa.DataType) -> pa.Table:
    for name, kind in kinds.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table.column(name).cast(kind))
    return table


def blocks(folder: Path) -> list[pk.Dataset]:
    return list(read_blocks(folder))


@pytest.fixture
def table() -> pa.Table:
    return as_table(make_rows(60, 3, 9))


def test_empty_shards_do_nothing(table, tmp_path) -> None:
    nothing = table.slice(0, 0)
    parts = (nothing, table.slice(0, 25), nothing, table.slice(25), nothing)
    folder, plain = write(tmp_path / "odd", *parts), write(tmp_path / "plain", table)
    assert difference(pk.stream(folder), pk.read(plain)) is None
    assert sum(part.n_docs for part in blocks(folder)) == 60


def test_other_orders_and_types_of_columns_are_the_same_set(table, tmp_path) -> None:
    names, rest = table.schema.names, table.slice(20)
    exact = cast(rest, x0=pa.float64(), label=pa.int8(), query_id=pa.int32()).select(names[::-1])
    folder = write(tmp_path / "odd", table.slice(0, 20), exact)
    plain = pk.read(write(tmp_path / "plain", table))
    assert difference(pk.stream(folder), plain) is None
    actual = np.concatenate([part.features[np.argsort(part.rows)] for part in blocks(folder)])
    assert np.array_equal(actual, plain.features[np.argsort(plain.rows)])


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_shards_that_are_cut_off_are_named(table, tmp_path, form, share) -> None:
    folder = write(tmp_path / "s", table.slice(0, 20))
    last = folder / f"part-1.{form}"
    if form == "parquet":
        pq.write_table(table.slice(20), last)
    else:
        with pa.OSFile(str(last), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table.slice(20), max_chunksize=10)
    os.truncate(last, int(share * last.stat().st_size))
    with pytest.raises(pk.DataError, match=rf"part-1\.{form}: not a readable"):
        pk.stream([folder / "part-0.parquet", last])


def replaced(path: Path, table: pa.Table | None) -> None:
    path.unlink()
    if table is not None:
        pq.write_table(table, path)


@pytest.mark.parametrize("change", ["values", "more", "fewer", "gone", "columns"])
def test_files_that_change_between_the_passes_are_refused(table, tmp_path, change) -> None:
    folder = write(tmp_path / "s", table.slice(0, 20), table.slice(20))
    others = {
        "values": as_table(make_rows(60, 3, 9, seed=1)).slice(20),
        "more": pa.concat_tables([table.slice(20)] * 3),
        "fewer": table.slice(30),
        "columns": table.slice(20).drop_columns(["x1"]),
        "gone": None,
    }
    done: list[int] = []

    def change_once(at: int, total: int) -> None:
        if 2 * at >= total and not done:
            done.append(at)
            replaced(folder / "part-1.parquet", others[change])

    word = "removed" if change == "gone" else "changed"
    with pytest.raises(pk.DataError, match=rf"part-1\.parquet: was {word} while it was read"):
        pk.stream(folder, progress=change_once)
    assert done
    assert not list(folder.glob(".plackett*"))


def test_a_file_that_changes_while_lists_are_scored_is_refused(table, tmp_path) -> None:
    folder = write(tmp_path / "s", table)
    parts = read_blocks(folder)
    next(parts)
    os.utime(folder / "part-0.parquet", ns=(1, 1))
    with pytest.raises(pk.DataError, match=r"part-0\.parquet: was changed while it was read"):
        list(parts)


def test_lists_longer_than_blocks_stay_whole(tmp_path) -> None:
    rows = make_rows(60, 3, 1)
    actual = blocks(write(tmp_path / "s", *[as_table(rows).slice(i, 7) for i in range(0, 60, 7)]))
    assert [part.n_docs for part in actual] == [60]


def test_a_file_given_twice_is_refused(table, tmp_path) -> None:
    folder = write(tmp_path / "s", table)
    with pytest.raises(pk.UsageError, match=r"part-0\.parquet: is among the data twice"):
        pk.stream([folder, folder / "part-0.parquet"])


@pytest.mark.parametrize("out", [None, "o.npy", "o.parquet", "o.tsv"])
def test_rank_says_that_there_are_no_documents(table, tmp_path, out) -> None:
    folder = write(tmp_path / "s", table.slice(0, 0), table.slice(0, 0))
    model = tmp_path / "m.plackett"
    pk.LinearRanker(objective="xendcg").fit(make_rows(60, 3, 9).dataset()).save(model)
    inputs = ["rank", model, folder, "--label", "label", "--stream"]
    err = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["plackett", *map(str, inputs), *_out(tmp_path, out)]),
        redirect_stdout(io.StringIO()),
        redirect_stderr(err),
        pytest.raises(SystemExit, match="1"),
    ):
        main()
    assert "there are no documents" in err.getvalue()
    assert out is None or not (tmp_path / out).exists()


def _out(folder: Path, name: str | None) -> list[str]:
    return [] if name is None else ["--out", str(folder / name)]


def test_an_empty_shard_is_an_empty_ranking_on_a_cluster(table, tmp_path) -> None:
    from plackett.cli.rank import _list_items, rank_shard

    folder, model = write(tmp_path / "s", table.slice(0, 0), table), tmp_path / "m.plackett"
    pk.LinearRanker(objective="xendcg").fit(make_rows(60, 3, 9).dataset()).save(model)
    items = _list_items(model, find_files(folder), tmp_path / "out", None, vars(ReadOptions()))
    notes = [rank_shard(item) for item in items]
    assert [note["documents"] for note in notes] == [0, 60]
    first, second = (pq.read_table(item["out"]) for item in items)
    assert len(first) == 0
    assert first.schema.names == second.schema.names


@pytest.mark.parametrize("first", [pa.nulls(4), pa.array([1, 2, 2, 1])])
def test_a_column_of_categories_may_have_another_type_in_a_shard(tmp_path, first) -> None:
    """Values of shards without a dictionary are texts or missing, like those of the others."""
    rows = {"label": [0.0, 1.0, 0.0, 1.0], "query_id": [1, 1, 2, 2], "x": [1.0, 2.0, 3.0, 4.0]}
    later = rows | {"query_id": [3, 3, 4, 4]}
    pq.write_table(pa.table(rows | {"c": first}), tmp_path / "1.parquet")
    pq.write_table(pa.table(later | {"c": pa.array(["a", "b", "a", "b"]).dictionary_encode()}), tmp_path / "2.parquet")
    paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    data, streamed = pk.read(paths, missing="nan"), pk.stream(paths, missing="nan")
    values = data.categories["c"]
    assert values[-2:] == ("a", "b")
    assert [values[int(code)] for code in data.features[4:, 1]] == ["a", "b", "a", "b"]
    assert difference(streamed, data) is None
