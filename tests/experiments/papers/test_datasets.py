"""Data sets are found as they were unpacked."""

from __future__ import annotations

import pytest

import plackett as pk
from plackett.base.errors import DataError
from plackett.experiments.papers import Budget, PaperDatasets, paper
from plackett.experiments.papers.datasets import DATASETS, LETOR3, find_datasets, load, reduce_source, sizes, stand_in
from plackett.experiments.papers.run import silent_progress_bar
from plackett.experiments.protocols import DataSource

_LINES = "1 qid:1 1:0.5 2:1\n0 qid:1 1:0.25 2:0\n2 qid:2 1:0.5 2:0.125\n0 qid:2 1:0 2:1\n"


def _folds(folder, count=2, names=("train.txt", "vali.txt", "test.txt")):
    for i in range(1, count + 1):
        (folder / f"Fold{i}").mkdir(parents=True)
        for k, name in enumerate(names):
            # Different in every file: identical files would be read once.
            text = _LINES.replace("0.125", f"0.{i}{k + 1}")
            (folder / f"Fold{i}" / name).write_text(text)


def _note(folder, name: str) -> str:
    """What paper D says of a data set."""
    datasets = PaperDatasets(paper("D"), Budget(), folder, silent_progress_bar)
    datasets.source(name)
    return datasets.notes[0]


def test_archives_are_recognised_by_their_folders(tmp_path) -> None:
    _folds(tmp_path / "MSLR-WEB30K")
    _folds(tmp_path / "letor" / "MQ2007")
    _folds(tmp_path / "Gov" / "QueryLevelNorm" / "2003_hp_dataset")
    _folds(tmp_path / "OHSUMED" / "QueryLevelNorm", names=("trainingset.txt", "testset.txt"))
    found = find_datasets(tmp_path)
    assert list(found) == ["OHSUMED", "HP2003", "MQ2007", "MSLR-WEB30K"]
    assert found["HP2003"].name == "2003_hp_dataset"


def test_features_scaled_within_queries_and_exact_names_are_preferred(tmp_path) -> None:
    for form in ("Feature_min", "QueryLevelNorm", "Feature_null"):
        _folds(tmp_path / "Gov" / form / "2004_td_dataset")
    _folds(tmp_path / "MQ2007_partial")
    _folds(tmp_path / "MQ2007")
    found = find_datasets(tmp_path)
    assert found["TD2004"].parent.name == "QueryLevelNorm"
    assert found["MQ2007"].name == "MQ2007"


def test_the_folder_may_be_the_set_itself(tmp_path) -> None:
    _folds(tmp_path / "MSLR-WEB10K")
    assert list(find_datasets(tmp_path / "MSLR-WEB10K")) == ["MSLR-WEB10K"]
    assert list(find_datasets(tmp_path / "MSLR-WEB10K" / "Fold1")) == ["MSLR-WEB10K"]


def test_yahoo_is_recognised_by_its_files_and_read_as_one_division(tmp_path) -> None:
    for part in ("train", "valid", "test"):
        (tmp_path / f"set1.{part}.txt").write_text(_LINES.replace("2:1", "699:1"))
    found = find_datasets(tmp_path)
    assert list(found) == ["Yahoo set 1"]
    source = load(found["Yahoo set 1"], "first")
    (fold,) = source.folds
    assert fold.train.n_features == fold.test.n_features == 700
    assert sizes(source) == (6, 12)


def test_one_fold_or_all_of_them_are_read(tmp_path) -> None:
    _folds(tmp_path / "MQ2007", count=3)
    place = find_datasets(tmp_path)["MQ2007"]
    assert [fold.name for fold in load(place, "all").folds] == ["Fold1", "Fold2", "Fold3"]
    assert [fold.name for fold in load(place, "first").folds] == ["Fold1"]
    assert sizes(load(place, "all")) == sizes(load(place, "first")) == (6, 12)


def test_data_that_are_not_those_of_the_paper_are_called_so(tmp_path) -> None:
    _folds(tmp_path / "MQ2007")
    assert "4 lists, 8 documents, where MQ2007 has 1,692 and 69,623" in _note(tmp_path, "MQ2007")


def test_data_keep_their_own_name_unless_they_are_as_published(tmp_path) -> None:
    _folds(tmp_path / "MQ2007_partial")
    _folds(tmp_path / "mine" / "QueryLevelNorm")
    assert load(find_datasets(tmp_path)["MQ2007"], "all").name == "MQ2007_partial"
    assert load(tmp_path / "mine" / "QueryLevelNorm", "first").name == "mine"
    assert load(tmp_path / "MQ2007_partial" / "Fold1", "first").name == "MQ2007_partial"


def test_a_folder_that_is_not_there_is_refused(tmp_path) -> None:
    with pytest.raises(DataError, match="absent: is not a folder"):
        find_datasets(tmp_path / "absent")
    assert find_datasets(tmp_path) == {}


def test_ohsumed_is_complete_where_it_is_at_hand(real_data) -> None:
    assert _note(real_data, "OHSUMED").endswith("as published.")


@pytest.mark.parametrize("view", ["first", "all"])
def test_stand_ins_have_the_form_of_what_they_stand_for(view) -> None:
    known = DATASETS["MQ2007"]
    source = stand_in(known, view)
    assert source.pooled.n_lists == known.quick_lists
    assert len(source.folds) == (5 if view == "all" else 0)
    for fold in source.folds:
        assert fold.validation is not None
        parts = (fold.train, fold.validation, fold.test)
        assert sum(part.n_lists for part in parts) == known.quick_lists


def test_sets_of_one_kind_get_different_lists() -> None:
    drawn = {name: stand_in(DATASETS[name], "first").pooled.keys.tobytes() for name in LETOR3}
    assert len(set(drawn.values())) == len(LETOR3)


def test_a_quick_run_takes_a_share_of_every_part() -> None:
    parts = pk.split(pk.synthetic("letor", n_lists=600), (0.6, 0.2, 0.2), seed=0)
    whole = pk.Fold("Fold1", *parts)
    source = reduce_source(DataSource("MQ2007", folds=(whole,)), DATASETS["MQ2007"])
    (fold,) = source.folds
    assert fold.train.n_lists == round(whole.train.n_lists * 150 / 600)
    assert source.name == "25.0% of MQ2007"
