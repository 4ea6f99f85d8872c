"""Public data sets by name: their layouts, and sizes that are not those published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import plackett as pk
from plackett.base.errors import DataError, UsageError
from plackett.data import known
from plackett.data.known import KNOWN, find_known

LETOR3 = ("trainingset.txt", "validationset.txt", "testset.txt")
LETOR4 = ("train.txt", "vali.txt", "test.txt")
LAYOUTS = {
    "OHSUMED": ("OHSUMED/QueryLevelNorm", LETOR3, 5),
    "TD2003": ("Gov/QueryLevelNorm/2003_td_dataset", LETOR3, 5),
    "MQ2008": ("MQ2008", LETOR4, 5),
    "MSLR-WEB10K": ("MSLR-WEB10K", LETOR4, 5),
    "MSLR-WEB30K": ("MSLR-WEB30K", LETOR4, 5),
    "Yahoo set 1": ("ltrc_yahoo", ("set1.train.txt", "set1.valid.txt", "set1.test.txt"), 1),
    "Yahoo set 2": ("ltrc_yahoo", ("set2.train.txt", "set2.valid.txt", "set2.test.txt"), 1),
    "Istella": ("istella-letor/full", ("train.txt", "", "test.txt"), 1),
    "Istella-S": ("istella-s-letor/sample", LETOR4, 1),
}
"""Folder, files of train, validation and test, and number of folds."""


def _write(file: Path, n_features: int, seed: int) -> None:
    """Two lists of two documents; the last features are absent, as in sparse files."""
    rng = np.random.default_rng(seed)
    rows = [f"{k % 2} qid:{seed}{k // 2} 1:{rng.random():.3f} {n_features - k}:1" for k in range(4)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(rows) + "\n")


def _make(root: Path, name: str) -> Path:
    folder, files, folds = LAYOUTS[name]
    for fold in range(folds):
        place = root / folder / (f"Fold{fold + 1}" if folds > 1 else "")
        for part, file in enumerate(files):
            if file:
                _write(place / file, KNOWN[name].features, 10 * (fold + 1) + part)
    return root / folder


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_layout_is_read_and_its_sizes_are_compared(name, tmp_path, monkeypatch) -> None:
    folder, (_, files, folds) = _make(tmp_path, name), LAYOUTS[name]
    with pytest.raises(DataError, match=f"is not {name} as published: it has .*Published results do not apply") as e:
        pk.read_folds(folder, known=name)
    where = " in the train set" if KNOWN[name].splits else ""
    lists = KNOWN[name].splits.get("train", (KNOWN[name].lists,))[0]
    assert f"{2 * (folds if folds > 1 else 1):,} lists{where}, published {lists:,}" in str(e.value)
    assert "features" not in str(e.value)
    # With the sizes of these files, they are what was published.
    n_parts = folds if folds > 1 else sum(map(bool, files))
    splits = dict.fromkeys(KNOWN[name].splits, (2, 4))
    monkeypatch.setitem(
        known.KNOWN, name, replace(KNOWN[name], lists=2 * n_parts, documents=4 * n_parts, splits=splits)
    )
    read = pk.read_folds(folder, known=name.lower())
    assert len(read) == folds
    assert read[0].train.n_features == KNOWN[name].features
    assert (read[0].validation is None) == (not files[1])


def test_one_folder_may_hold_both_sets_of_yahoo(tmp_path, monkeypatch) -> None:
    _make(tmp_path, "Yahoo set 1")
    folder = _make(tmp_path, "Yahoo set 2")
    monkeypatch.setitem(known.KNOWN, "Yahoo set 2", replace(KNOWN["Yahoo set 2"], splits={"train": (2, 4)}))
    (fold,) = pk.read_folds(folder, known="yahoo-set2")
    assert fold.train.n_docs == 4
    with pytest.raises(DataError, match="no train set"):
        pk.read_folds(folder)


def test_other_numbers_of_features_are_named(tmp_path) -> None:
    folder = tmp_path / "MQ2008"
    for file in LETOR4:
        _write(folder / file, 5, 1)
    with pytest.raises(DataError, match=r"7 features, published 46; .* documents, published 15,211"):
        pk.read_folds(folder, known="MQ2008", n_features=7)
    assert pk.read_folds(folder)[0].train.n_features == 5  # without a name nothing is expected


def test_the_sizes_of_splits_add_up() -> None:
    for item in KNOWN.values():
        if item.splits:
            assert sum(lists for lists, _ in item.splits.values()) == item.lists
            assert sum(documents for _, documents in item.splits.values()) == item.documents


def test_unknown_names_are_answered_with_those_there_are() -> None:
    assert find_known("mslr web10k") is KNOWN["MSLR-WEB10K"]
    with pytest.raises(UsageError, match="Did you mean 'MSLR-WEB10K'"):
        find_known("MSLR-WEB1K")
