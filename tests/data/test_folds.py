from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_matrix

from dataset_helpers import difference, make_rows
from plackett.base.errors import DataError, DataWarning
from plackett.data.dataset import Dataset
from plackett.data.folds import concat, is_folds, open_data_or_folds, read_folds, split
from plackett.data.reader import read
from plackett.data.synthetic import synthetic
from plackett.data.writer import write

LAYOUTS = [
    ("train.txt", "vali.txt", "test.txt"),
    ("trainingset.txt", "validationset.txt", "testset.txt"),
    ("Train.TXT", "Valid.txt", "TEST.txt"),
    ("training.dat.gz", "validation.dat.gz", "test.dat.xz"),
    ("train.parquet", "dev.parquet", "test.parquet"),
    ("train.pkdata", "vali.pkdata", "test.pkdata"),
    ("train.txt", "vali.arrow", "test.svmlight"),
]


def _set(seed: int, n_features: int = 3) -> Dataset:
    return make_rows(30, n_features, 4, seed=seed).dataset()


@pytest.mark.parametrize("names", LAYOUTS, ids=lambda names: names[0])
def test_folds_of_every_layout_are_read(tmp_path: Path, names: tuple[str, str, str]) -> None:
    for fold in (1, 2, 10):
        for part, name in enumerate(names):
            write(_set(10 * fold + part), tmp_path / f"Fold{fold}" / name)
    (tmp_path / "readme.txt").write_text("not data")
    folds = read_folds(tmp_path)
    assert [fold.name for fold in folds] == ["Fold1", "Fold2", "Fold10"]
    for fold, number in zip(folds, (1, 2, 10), strict=True):
        parts = (fold.train, fold.validation, fold.test)
        for part, actual in enumerate(parts):
            assert actual is not None
            assert difference(actual, _set(10 * number + part)) is None


def test_a_folder_of_files_is_one_fold(tmp_path: Path) -> None:
    write(_set(1), tmp_path / "mine" / "train.txt")
    write(_set(2), tmp_path / "mine" / "test.txt")
    (fold,) = read_folds(tmp_path / "mine")
    assert fold.name == "mine"
    assert fold.validation is None
    assert difference(fold.test, _set(2)) is None


@pytest.mark.parametrize("name", ["fold1", "FOLD_1", "Fold 1", "fold-1"])
def test_folders_of_folds_can_be_spelled_in_several_ways(tmp_path: Path, name: str) -> None:
    write(_set(1), tmp_path / name / "train.txt")
    write(_set(2), tmp_path / name / "test.txt")
    assert [fold.name for fold in read_folds(tmp_path)] == [name]


def test_files_of_the_same_content_are_read_once_and_shared(tmp_path: Path) -> None:
    for fold in (1, 2):
        write(_set(fold), tmp_path / f"Fold{fold}" / "train.txt")
        write(_set(fold + 2), tmp_path / f"Fold{fold}" / "test.txt")
    shutil.copy(tmp_path / "Fold1" / "test.txt", tmp_path / "Fold2" / "vali.txt")
    first, second = read_folds(tmp_path)
    assert second.validation is first.test
    assert second.train is not first.train


def test_missing_sets_are_named_with_what_was_looked_for_and_found(tmp_path: Path) -> None:
    write(_set(1), tmp_path / "train.txt")
    (tmp_path / "tets.txt").write_text("")
    with pytest.raises(DataError, match=r"no test set: looked for test or testset .*found tets\.txt, train\.txt"):
        read_folds(tmp_path)
    with pytest.raises(DataError, match="is not a directory of folds"):
        read_folds(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no train set: looked for train or training .*found nothing"):
        read_folds(tmp_path / "empty")


def test_two_files_for_one_part_are_not_guessed_between(tmp_path: Path) -> None:
    for name in ("train.txt", "train.txt.gz", "test.txt"):
        write(_set(1), tmp_path / name)
    with pytest.raises(DataError, match=r"train\.txt and train\.txt\.gz could both be the train"):
        read_folds(tmp_path)


def test_folders_with_folds_are_told_from_others(tmp_path: Path) -> None:
    assert not is_folds(tmp_path)
    assert not is_folds(tmp_path / "nowhere")
    write(_set(1), tmp_path / "one" / "train.txt")
    assert is_folds(tmp_path / "one")
    assert not is_folds(tmp_path / "one" / "train.txt")
    (tmp_path / "Fold1").mkdir()
    assert is_folds(tmp_path)


FULL_3 = "1 qid:1 1:1 2:2 3:3\n0 qid:1 1:4 2:5 3:6\n"
FULL_4 = "1 qid:1 1:1 2:2 3:3 4:4\n"
SPARSE_2 = "1 qid:1 2:2\n0 qid:1 1:4\n"
SPARSE_5 = "1 qid:1 2:2\n0 qid:1 5:4\n"


def _texts(folder: Path, train: str, test: str) -> Path:
    (folder / "train.txt").write_text(train)
    (folder / "test.txt").write_text(test)
    return folder


@pytest.mark.parametrize(
    ("train", "test", "width"),
    [(SPARSE_2, SPARSE_5, 5), (SPARSE_5, SPARSE_2, 5), (FULL_3, SPARSE_2, 3), (FULL_3, FULL_3, 3)],
)
def test_sparse_files_are_as_wide_as_the_widest(tmp_path: Path, train: str, test: str, width: int) -> None:
    (fold,) = read_folds(_texts(tmp_path, train, test))
    for name, actual in (("train.txt", fold.train), ("test.txt", fold.test)):
        assert difference(actual, read(tmp_path / name, n_features=width)) is None


def test_what_padding_adds_is_missing_where_missing_values_are_allowed(tmp_path: Path) -> None:
    (fold,) = read_folds(_texts(tmp_path, SPARSE_2, SPARSE_5), missing="nan")
    expected = read(tmp_path / "train.txt", n_features=5, missing="nan")
    assert np.isnan(fold.train.features[:, 4]).all()
    assert difference(fold.train, expected) is None


@pytest.mark.parametrize(("train", "test", "widths"), [(FULL_3, FULL_4, (3, 4)), (FULL_3, SPARSE_5, (3, 5))])
def test_widths_that_cannot_agree_are_refused_with_both_files(
    tmp_path: Path, train: str, test: str, widths: tuple[int, int]
) -> None:
    _texts(tmp_path, train, test)
    with pytest.raises(DataError) as caught:
        read_folds(tmp_path)
    message = str(caught.value)
    for name, width in zip(("train.txt", "test.txt"), widths, strict=True):
        assert f"{name} has {width}" in message
    assert "n_features=" in message
    (fold,) = read_folds(tmp_path, n_features=5)
    assert fold.train.n_features == fold.test.n_features == 5


def test_a_table_has_a_definite_width(tmp_path: Path) -> None:
    write(_set(1), tmp_path / "train.parquet")
    (tmp_path / "test.txt").write_text(SPARSE_2)
    (fold,) = read_folds(tmp_path)
    assert fold.test.n_features == 3
    (tmp_path / "test.txt").write_text(SPARSE_5)
    with pytest.raises(DataError, match=r"train\.parquet has 3 features and .*test\.txt has 5"):
        read_folds(tmp_path)


def test_scattered_queries_are_reported_by_file(tmp_path: Path) -> None:
    _texts(tmp_path, "1 qid:1 1:1\n0 qid:2 1:2\n1 qid:1 1:3\n", "1 qid:1 1:1\n")
    with pytest.warns(DataWarning, match=r"train\.txt: the rows of some queries"):
        read_folds(tmp_path)
    with pytest.raises(DataError, match=r"train\.txt:3: query id 1 occurs again"):
        read_folds(tmp_path, strict=True)


def test_progress_goes_over_all_files(tmp_path: Path) -> None:
    _texts(tmp_path, FULL_3 * 50, FULL_3)
    calls: list[tuple[int, int]] = []
    read_folds(tmp_path, progress=lambda done, total: calls.append((done, total)))
    total = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert calls[-1] == (total, total)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_files_that_name_their_features_differently_are_refused_with_both(tmp_path: Path) -> None:
    for part, names in (("train", ["a", "b", "c"]), ("test", ["a", "c", "b"])):
        write(make_rows().dataset(feature_names=names), tmp_path / f"{part}.parquet")
    with pytest.raises(
        DataError,
        match=r"test\.parquet and .*train\.parquet have different features: number 2 \(counted "
        r"from 1\) is 'c' in the first and 'b' in the second",
    ):
        read_folds(tmp_path)
    (fold,) = read_folds(tmp_path, features=["b", "a"])
    assert fold.train.feature_names == fold.test.feature_names == ("b", "a")


def test_files_without_names_fit_those_with_names(tmp_path: Path) -> None:
    write(make_rows().dataset(feature_names=["a", "b", "c"]), tmp_path / "train.parquet")
    write(make_rows().dataset(), tmp_path / "test.txt")
    (fold,) = read_folds(tmp_path)
    assert fold.train.feature_names == ("a", "b", "c")
    assert fold.test.feature_names is None


def test_columns_of_folds_can_have_any_names(tmp_path: Path) -> None:
    columns = {"s": ["a", "a"], "stars": [2, 0], "url": ["u", "v"], "w": [3.0, 3.0], "x": [1, 2]}
    for part in ("train", "test"):
        pq.write_table(pa.table(columns | {"title": [part, part]}), tmp_path / f"{part}.parquet")
    choice = {"label": "stars", "query": "s", "document": "url", "weight": "w", "features": ["x"]}
    (fold,) = read_folds(tmp_path, **choice)
    for name, actual in (("train", fold.train), ("test", fold.test)):
        assert difference(actual, read(tmp_path / f"{name}.parquet", **choice)) is None


def test_ohsumed_has_five_folds_with_106_lists_in_all(real_data: Path) -> None:
    folds = read_folds(real_data / "OHSUMED")
    assert [fold.name for fold in folds] == [f"Fold{i}" for i in range(1, 6)]
    assert sum(fold.test.n_lists for fold in folds) == 106
    assert sum(fold.test.n_docs for fold in folds) == 16_140
    queries = np.concatenate([fold.test.query_ids for fold in folds])
    assert len(np.unique(queries)) == 106
    for fold in folds:
        assert fold.validation is not None
        parts = (fold.train, fold.validation, fold.test)
        assert sum(part.n_lists for part in parts) == 106
        assert {part.n_features for part in parts} == {45}


def test_validation_sets_of_letor_are_the_test_sets_of_other_folds(real_data: Path) -> None:
    folds = read_folds(real_data / "MQ2007_partial")
    assert sum(fold.test.n_lists for fold in folds) == 1692
    tests = [fold.test for fold in folds]
    for fold in folds:
        assert any(fold.validation is test for test in tests)


def test_sets_without_validation_and_with_sparse_rows_are_read(real_data: Path) -> None:
    (fold,) = read_folds(real_data / "LightGBM_lambdarank")
    assert fold.validation is None
    assert (fold.train.n_lists, fold.test.n_lists) == (201, 50)
    assert fold.train.n_features == fold.test.n_features == 300
    (fold,) = read_folds(real_data / "MSLR_5k")
    assert (fold.train.n_docs, fold.test.n_docs) == (5000, 5000)
    assert fold.train.n_features == 136


def test_parts_joined_again_are_the_whole() -> None:
    whole = synthetic("letor", n_lists=40, seed=2)
    parts = split(whole, (0.5, 0.25, 0.25), seed=3)
    again, whole = concat(parts), whole.canonical()
    for joined in (again.canonical(), again._replace(order=None).canonical()):
        assert np.array_equal(joined.features, whole.features)
        assert np.array_equal(joined.labels, whole.labels)
        assert np.array_equal(joined.offsets, whole.offsets)
        assert np.array_equal(joined.list_ids, whole.list_ids)
        assert np.array_equal(joined.keys, whole.keys)


def test_parts_do_not_overlap_and_depend_on_the_seed() -> None:
    whole = synthetic("letor", n_lists=40, seed=2)
    a, b = split(whole, (0.5, 0.5), seed=1)
    assert set(a.query_ids).isdisjoint(b.query_ids)
    assert a.n_lists + b.n_lists == 40
    other, _ = split(whole, (0.5, 0.5), seed=2)
    assert not np.array_equal(a.query_ids, other.query_ids)


def test_lists_of_different_parts_with_the_same_id_stay_apart() -> None:
    a = Dataset.from_arrays([[1.0], [2.0]], [0, 1], [7, 7])
    b = Dataset.from_arrays([[3.0], [4.0]], [0, 1], [7, 7])
    joined = concat([a, b])
    assert joined.n_lists == 2
    assert sorted(joined.rows.tolist()) == [0, 1, 2, 3]


def test_dense_and_sparse_parts_join() -> None:
    a = Dataset.from_arrays([[1.0, 0.0], [2.0, 0.0]], [0, 1], [1, 1])
    b = Dataset.from_arrays(csr_matrix([[0.0, 3.0], [4.0, 0.0]]), [0, 1], [2, 2])
    assert sorted(concat([a, b]).features.toarray().sum(axis=1)) == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("shares", [(), (0.5, 0.6), (0.5, -0.1), (0.999, 0.0001), (0.5, np.nan)])
def test_shares_that_make_no_sense_are_refused(shares) -> None:
    with pytest.raises(DataError, match="shares"):
        split(synthetic("letor", n_lists=10), shares)


def test_different_features_do_not_join() -> None:
    a = Dataset.from_arrays([[1.0]], [0], [1])
    b = Dataset.from_arrays([[1.0, 2.0]], [0], [1])
    with pytest.raises(DataError, match="different features: 1 and 2"):
        concat([a, b])
    with pytest.raises(DataError, match="no data sets"):
        concat([])


@pytest.mark.parametrize("suffix", [".txt", ".parquet", ".pkdata"])
def test_streamed_folds_equal_folds_in_memory(tmp_path: Path, suffix: str) -> None:
    for number, name in enumerate(("train", "vali", "test")):
        write(_set(number), tmp_path / "Fold1" / f"{name}{suffix}")
    (fold,) = read_folds(tmp_path)
    for cache in (None, tmp_path / "cache"):
        (streamed,) = read_folds(tmp_path, stream=True, cache=cache)
        for part in ("train", "validation", "test"):
            assert difference(getattr(streamed, part), getattr(fold, part)) is None


def test_one_function_opens_folds_and_single_files(tmp_path: Path) -> None:
    for number, name in enumerate(("train", "test")):
        write(_set(number), tmp_path / f"{name}.txt")
    folds = open_data_or_folds(tmp_path)
    assert isinstance(folds, list)
    assert [fold.name for fold in open_data_or_folds([tmp_path])] == [folds[0].name]
    single = open_data_or_folds(tmp_path / "train.txt")
    assert difference(single, folds[0].train) is None
