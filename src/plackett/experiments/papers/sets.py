"""The data sets that the papers used: their names, their sizes, and what stands in for them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownSet:
    """A public data set, as it is distributed."""

    name: str
    folders: tuple[str, ...]
    """Names of its folder, in small letters and digits alone."""
    lists: int
    documents: int
    """Both as published."""
    where: str
    """What the folder looks like, for people who have to find it."""
    stand_in: str
    """The synthetic data of the same kind."""
    quick_lists: int
    """How many lists of it, or of the data themselves, a quick run takes."""


_FOLDS = "{}/Fold1 ... Fold5 with train.txt, vali.txt, test.txt"
_GOV = "{}/Fold1 ... Fold5 with trainingset.txt, validationset.txt, testset.txt"


def _gov(task: str, year: int, lists: int, documents: int) -> KnownSet:
    """One of the six .gov sets of LETOR 3; its archive calls them 2003_td_dataset and so on."""
    folders = (f"{task}{year}", f"{year}{task}", f"{year}{task}dataset")
    where = _GOV.format(f"Gov/QueryLevelNorm/{year}_{task}_dataset")
    return KnownSet(f"{task.upper()}{year}", folders, lists, documents, where, "binary", 75)


_ALL = (
    KnownSet(
        "OHSUMED", ("ohsumed",), 106, 16_140,
        _GOV.format("OHSUMED/QueryLevelNorm"), "letor", 106,
    ),
    _gov("td", 2003, 50, 49_058),
    _gov("td", 2004, 75, 74_146),
    _gov("hp", 2003, 150, 147_606),
    _gov("hp", 2004, 75, 74_409),
    _gov("np", 2003, 150, 148_657),
    _gov("np", 2004, 75, 73_834),
    KnownSet("MQ2007", ("mq2007",), 1_692, 69_623, _FOLDS.format("MQ2007"), "letor", 150),
    KnownSet(
        "MSLR-WEB10K", ("mslrweb10k", "mslr10k", "web10k"), 10_000, 1_200_192,
        _FOLDS.format("MSLR-WEB10K"), "web", 180,
    ),
    KnownSet(
        "MSLR-WEB30K", ("mslrweb30k", "mslr30k", "web30k"), 31_531, 3_771_125,
        _FOLDS.format("MSLR-WEB30K"), "web", 180,
    ),
    KnownSet(
        "Yahoo set 1", ("yahoo", "yahooset1", "ltrcyahoo", "ltrc", "set1"), 29_921, 709_877,
        "a folder with set1.train.txt, set1.valid.txt, set1.test.txt", "yahoo", 240,
    ),
)  # fmt: skip
SETS: dict[str, KnownSet] = {each.name: each for each in _ALL}
"""By name."""
LETOR3 = ("TD2003", "TD2004", "HP2003", "HP2004", "NP2003", "NP2004", "OHSUMED")
"""The seven sets of LETOR 3."""
