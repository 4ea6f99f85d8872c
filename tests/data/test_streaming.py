"""A streamed set is the set that reading gives, with its features on disk."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import plackett as pk
from dataset_helpers import difference, make_rows, row_sets
from plackett.data import large_arrays as on_disk

pytestmark = pytest.mark.usefixtures("_tiny_blocks")


def write_shards(table: pa.Table, folder: Path, cuts: list[int]) -> None:
    folder.mkdir(exist_ok=True)
    edges = [0, *sorted(cuts), len(table)]
    for i, (start, stop) in enumerate(pairwise(edges)):
        pq.write_table(table.slice(start, stop - start), folder / f"part-{i:02}.parquet")


def as_table(rows, **more) -> pa.Table:
    columns = {"query_id": rows.query_ids, "label": rows.labels, **more}
    if rows.document_ids is not None:
        columns["document_id"] = rows.document_ids
    return pa.table(columns | {f"x{j}": column for j, column in enumerate(rows.features.T)})


@pytest.mark.filterwarnings("ignore::plackett.DataWarning")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_rows_cut_into_shards_anywhere_are_the_same_set(data, tmp_path_factory) -> None:
    rows = data.draw(row_sets().filter(lambda r: r.features.shape[1] > 0))
    cuts = data.draw(st.lists(st.integers(0, len(rows.labels)), max_size=3))
    folder = tmp_path_factory.mktemp("shards")
    write_shards(as_table(rows), folder, cuts)
    streamed = pk.stream(folder)
    assert difference(streamed, pk.read(folder)) is None
    assert on_disk.is_large(streamed.features)
    assert all(path.suffix == ".parquet" for path in folder.iterdir())


@pytest.mark.parametrize("strings", [False, True])
def test_ids_weights_and_names_come_along(tmp_path, strings) -> None:
    rows = make_rows(documents=True, strings=strings)
    names, codes = np.unique(rows.query_ids, return_inverse=True)
    weights = np.linspace(0.5, 2, len(names))[codes]
    item = np.linspace(0, 1, len(codes))
    table = as_table(rows, weight=weights, document_weight=item)
    write_shards(table, tmp_path / "shards", [11, 20])
    pattern = str(tmp_path / "shards" / "*.parquet")
    streamed, read = pk.stream(pattern), pk.read(tmp_path / "shards")
    assert difference(streamed, read) is None
    assert streamed.weights is not None
    assert streamed.feature_names == ("x0", "x1", "x2")
    files = sorted((tmp_path / "shards").iterdir())
    assert difference(pk.stream(files), read) is None


def test_one_column_of_lists_and_arrow_files(tmp_path) -> None:
    rows = make_rows()
    table = pa.table({"qid": rows.query_ids, "y": rows.labels, "features": rows.features.tolist()})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    assert difference(pk.stream(tmp_path / "a.arrow"), pk.read(tmp_path / "a.arrow")) is None


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz", ".pkdata"])
def test_other_forms_are_streamed_too(tmp_path, suffix) -> None:
    pk.write(make_rows(documents=True).dataset(), tmp_path / f"a{suffix}")
    streamed = pk.stream(tmp_path / f"a{suffix}")
    assert difference(streamed, pk.read(tmp_path / f"a{suffix}")) is None
    assert on_disk.is_large(streamed.features)
    assert os.listdir(tmp_path) == [f"a{suffix}"]
    assert on_disk.is_large(streamed.select([0, 2]).features)


def test_missing_values_are_taken_or_refused_as_in_reading(tmp_path) -> None:
    rows = make_rows()
    rows.features[23, 1] = np.nan
    write_shards(as_table(rows), tmp_path / "shards", [10])
    assert np.isnan(pk.stream(tmp_path / "shards", missing="nan").features).sum() == 1
    with pytest.raises(pk.DataError, match=r"part-01.*row 13 \(counted from 0\): feature 'x1'"):
        pk.stream(tmp_path / "shards")


def test_wrong_labels_name_file_and_row(tmp_path) -> None:
    rows = make_rows()
    rows.labels[30] = -1
    write_shards(as_table(rows), tmp_path / "shards", [12])
    with pytest.raises(pk.DataError, match=r"part-01.*row 18 \(counted from 0\): label -1"):
        pk.stream(tmp_path / "shards")


def test_scattered_rows_are_reported_or_refused(tmp_path) -> None:
    table = as_table(make_rows().take(np.random.default_rng(0).permutation(40)))
    write_shards(table, tmp_path / "shards", [12])
    with pytest.warns(pk.DataWarning, match="not next to each other"):
        pk.stream(tmp_path / "shards")
    with pytest.raises(pk.DataError, match="occurs again after rows of other queries"):
        pk.stream(tmp_path / "shards", strict=True)


def test_ids_of_two_kinds_are_refused(tmp_path) -> None:
    for i, strings in enumerate((False, True)):
        pq.write_table(as_table(make_rows(strings=strings)), tmp_path / f"{i}.parquet")
    with pytest.raises(pk.DataError, match=r"1\.parquet.*integers in some files and strings"):
        pk.stream(tmp_path)


def test_several_sources_must_be_tables(tmp_path) -> None:
    data = make_rows().dataset()
    for name in ("a.txt", "b.parquet"):
        pk.write(data, tmp_path / name)
    with pytest.raises(pk.UsageError, match="only if all are Parquet or Arrow"):
        pk.stream([tmp_path / "a.txt", tmp_path / "b.parquet"])
    with pytest.raises(pk.DataError, match="no file matches"):
        pk.stream(str(tmp_path / "*.arrow"))
    with pytest.raises(pk.UsageError, match="no data"):
        pk.stream([])


def test_a_cache_is_used_again_until_the_files_change(tmp_path, monkeypatch) -> None:
    source, cache = tmp_path / "a.parquet", tmp_path / "cache"
    pk.write(make_rows().dataset(), source)
    first = pk.stream(source, cache=cache)
    assert difference(first, pk.read(source)) is None

    def refuse(*_args, **_options):
        raise AssertionError("read again")

    with monkeypatch.context() as patch:
        patch.setattr("plackett.data.columnar.blocks.spool", refuse)
        assert difference(pk.stream(source, cache=cache), first) is None
        with pytest.raises(AssertionError, match="read again"):
            pk.stream(source, cache=cache, label=None)
    pk.write(make_rows(seed=1).dataset(), source)
    assert difference(pk.stream(source, cache=cache), pk.read(source)) is None


def test_a_folder_that_is_no_cache_is_left_alone(tmp_path) -> None:
    pk.write(make_rows().dataset(), tmp_path / "a.parquet")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "letters.txt").write_text("dear")
    with pytest.raises(pk.DataError, match=r"is not a cache of plackett: it holds 'letters\.txt'"):
        pk.stream(tmp_path / "a.parquet", cache=tmp_path / "cache")


def test_progress_goes_from_nothing_to_all(tmp_path) -> None:
    write_shards(as_table(make_rows()), tmp_path / "shards", [20])
    seen: list[tuple[int, int]] = []
    pk.stream(tmp_path / "shards", progress=lambda done, total: seen.append((done, total)))
    shares = [done / total for done, total in seen]
    assert shares == sorted(shares)
    assert shares[-1] == 1
