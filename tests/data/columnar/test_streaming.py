"""Whole lists come out of blocks of rows, wherever the blocks and files were cut."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import plackett as pk
from dataset_helpers import difference, make_rows
from plackett.data import collect_lists, read_blocks

pytestmark = pytest.mark.usefixtures("_tiny_blocks")


def shards(folder, rows, cuts):
    folder.mkdir(exist_ok=True)
    columns = {"query_id": rows.query_ids, "label": rows.labels}
    table = pa.table(columns | {f"x{j}": column for j, column in enumerate(rows.features.T)})
    edges = [0, *sorted(cuts), len(table)]
    for i, (start, stop) in enumerate(pairwise(edges)):
        pq.write_table(table.slice(start, stop - start), folder / f"part-{i:02}.parquet")
    return folder


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 60), max_size=4), n_lists=st.integers(1, 20), seed=st.integers(0))
def test_lists_are_stitched_over_blocks_and_files(cuts, n_lists, seed, tmp_path_factory) -> None:
    rows = make_rows(60, 3, n_lists, seed=seed % 1000)
    folder = tmp_path_factory.mktemp("shards")
    parts = list(read_blocks(shards(folder, rows, cuts)))
    queries = np.concatenate([part.list_ids for part in parts])
    assert len(queries) == len(set(queries.tolist()))
    for part in parts:
        assert np.array_equal(part.features, rows.features[part.rows])
    whole = pk.read(folder)
    joined, scores = collect_lists(parts, lambda part: part.features.sum(axis=1))
    assert difference(joined, whole) in ("features", "feature_names")
    for name in ("labels", "offsets", "list_ids", "keys", "rows"):
        assert np.array_equal(getattr(joined, name), getattr(whole, name))
    assert np.array_equal(scores, whole.features.sum(axis=1))


def test_a_list_that_occurs_again_is_refused(tmp_path) -> None:
    rows = make_rows(60, 3, 12)
    rows.query_ids[-1] = rows.query_ids[0]
    with pytest.raises(pk.DataError, match=r"query id 3 occurs again .* sort them by query"):
        list(read_blocks(shards(tmp_path / "s", rows, [30])))
