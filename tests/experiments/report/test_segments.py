"""Results by segment: groups of test lists, and columns that the user gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plackett.base.errors import DataError, UsageError
from plackett.experiments.compare import compare
from plackett.experiments.report.queries import MAX_GROUPS, OTHER, group_values, read_column, segment_results
from small_systems import FeatureRanker, small_data


@pytest.fixture(scope="module")
def compared():
    systems = {"base": FeatureRanker(feature=3), "other": FeatureRanker(feature=0)}
    return compare(small_data(), systems, protocol="folds:3", metrics="ndcg@5")


def _segment(compared, **columns):
    return segment_results(
        compared.results.details, metric="ndcg@5", baseline="base", systems=["base", "other"], columns=columns
    )


def test_groups_cover_every_counted_list_once_and_average_its_values(compared) -> None:
    values = compared.results.values["other"]["ndcg@5"]
    for segmentation in _segment(compared):
        sizes = [group.n_lists for group in segmentation.groups]
        assert sum(sizes) == np.isfinite(values).sum()
        means = [group.means["other"] for group in segmentation.groups]
        assert np.average(means, weights=sizes) == pytest.approx(np.nanmean(values))


def test_a_column_of_the_user_makes_groups_of_its_values(compared) -> None:
    data = small_data()
    column = {q: "even" if i % 2 else "odd" for i, q in enumerate(data.list_ids.tolist())}
    segmentation = _segment(compared, parity=column)[-1]
    assert segmentation.column == "parity"
    assert [group.name for group in segmentation.groups] == ["even", "odd"]
    difference, low, high = segmentation.groups[0].differences["other"]
    assert low < difference < high
    assert len(segmentation.chart("other").rows) == 2
    with pytest.raises(DataError, match="no value for the query"):
        _segment(compared, parity={})


def test_many_numbers_become_ranges_and_rare_words_become_one_group() -> None:
    names, members = group_values(np.arange(100))
    assert len(names) == MAX_GROUPS
    assert names[0].startswith("0–")
    assert np.ptp(np.bincount(members)) <= 2
    words = np.array(["a"] * 9 + ["b"] * 8 + ["c"] * 7 + ["d"] * 6 + ["e"] * 5 + ["x", "y"])
    names, members = group_values(words)
    assert names == ["a", "b", "c", "d", "e", OTHER]
    assert np.bincount(members).tolist() == [9, 8, 7, 6, 5, 2]


def test_columns_are_read_from_parquet_files(tmp_path) -> None:
    table = pa.table({"query_id": [1, 1, 2], "country": ["de", "fr", "fr"]})
    pq.write_table(table, tmp_path / "data.parquet")
    assert read_column([tmp_path], "country") == {1: "de", 2: "fr"}
    with pytest.raises(UsageError, match="has no column 'city'"):
        read_column([tmp_path / "data.parquet"], "city")
    with pytest.raises(UsageError, match="only Parquet and Arrow"):
        read_column([tmp_path / "data.txt"], "country")
