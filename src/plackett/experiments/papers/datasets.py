"""The data sets of the papers: how to find and read them, and synthetic data in their place."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from plackett.base.errors import DataError
from plackett.data import ByteProgress, Dataset, Fold, concat, is_folds, open_data_or_folds, read
from plackett.data.known import KNOWN, KnownSizes
from plackett.data.synthetic import synthetic
from plackett.experiments.protocols import DataSource


@dataclass(frozen=True)
class KnownDataset:
    """A public data set, as it is distributed."""

    name: str
    folders: tuple[str, ...]  # names of its folder, reduced to lowercase letters and digits
    where: str  # what the folder looks like, for people who have to find it
    stand_in: str  # the synthetic data of the same kind
    quick_lists: int  # how many lists of it, or of the data themselves, a quick run takes

    @property
    def published(self) -> KnownSizes:
        """Its published sizes."""
        return KNOWN[self.name]


_FOLDS = "{}/Fold1 ... Fold5 with train.txt, vali.txt, test.txt"
_GOV = "{}/Fold1 ... Fold5 with trainingset.txt, validationset.txt, testset.txt"


def _gov(task: str, year: int) -> KnownDataset:
    """One of the six .gov sets of LETOR 3; its archive calls them 2003_td_dataset and so on."""
    folders = (f"{task}{year}", f"{year}{task}", f"{year}{task}dataset")
    where = _GOV.format(f"Gov/QueryLevelNorm/{year}_{task}_dataset")
    return KnownDataset(f"{task.upper()}{year}", folders, where, "binary", 75)


_ALL = (
    KnownDataset("OHSUMED", ("ohsumed",), _GOV.format("OHSUMED/QueryLevelNorm"), "letor", 106),
    _gov("td", 2003),
    _gov("td", 2004),
    _gov("hp", 2003),
    _gov("hp", 2004),
    _gov("np", 2003),
    _gov("np", 2004),
    KnownDataset("MQ2007", ("mq2007",), _FOLDS.format("MQ2007"), "letor", 150),
    KnownDataset("MSLR-WEB10K", ("mslrweb10k", "mslr10k", "web10k"), _FOLDS.format("MSLR-WEB10K"), "web", 180),
    KnownDataset("MSLR-WEB30K", ("mslrweb30k", "mslr30k", "web30k"), _FOLDS.format("MSLR-WEB30K"), "web", 180),
    KnownDataset(
        "Yahoo set 1", ("yahoo", "yahooset1", "ltrcyahoo", "ltrc", "set1"),
        "a folder with set1.train.txt, set1.valid.txt, set1.test.txt", "yahoo", 240,
    ),
)  # fmt: skip
DATASETS: dict[str, KnownDataset] = {each.name: each for each in _ALL}
LETOR3 = ("TD2003", "TD2004", "HP2003", "HP2004", "NP2003", "NP2004", "OHSUMED")

View = Literal["first", "all"]
"""The first fold, which holds the whole set as train, validation and test; or all of them."""

_DEPTH = 5  # folders below the given one that are looked into: archives nest
_FOLD = re.compile(r"fold[ _-]?(\d+)", re.IGNORECASE | re.ASCII)
_YAHOO = {"train": "set1.train", "validation": "set1.valid", "test": "set1.test"}
_YAHOO_FEATURES = 700  # features are numbered up to 700; set 1 uses 519 of them
_PREFERRED = "querylevelnorm"  # LETOR 3 comes in several forms; the papers learn from features scaled within queries


def find_datasets(folder: Path) -> dict[str, Path]:
    """The papers' data sets in a folder and the folders in it, by name.

    A set is recognized by the name of its folder (``MSLR-WEB30K``, ``2003_hp_dataset`` ...), Yahoo's
    also by the names of its files. Of several copies, the one with features scaled within queries is
    preferred, then the one with the better matching name, then the one nearer to the top.
    """
    if not folder.is_dir():
        raise DataError("is not a folder; --data takes the one with the data sets", path=str(folder))
    best: dict[str, tuple[tuple[bool, bool, int, str], Path]] = {}
    for subfolder in _data_folders(folder, _DEPTH):
        names = [_plain(part) for part in (subfolder.name, *_above(subfolder))]
        for known in DATASETS.values():
            exact = any(name in known.folders for name in names)
            near = any(name.startswith(own) for name in names for own in known.folders)
            if not (exact or near or (known.name.startswith("Yahoo") and _is_yahoo(subfolder))):
                continue
            ranked = (_PREFERRED not in names, not exact, len(subfolder.parts), str(subfolder)), subfolder
            best[known.name] = min(ranked, best.get(known.name, ranked))
    return {name: best[name][1] for name in DATASETS if name in best}


def role_of(name: str) -> str | None:
    """The data set of the papers that a name means, such as ``mq2007`` or ``MQ2007_partial``."""
    plain = _plain(name)
    for matches in (str.__eq__, str.startswith):
        for known in DATASETS.values():
            if any(matches(plain, own) for own in (*known.folders, _plain(known.name))):
                return known.name
    return None


def find_named(name: str, folder: Path | None) -> Path:
    """Find a user's data set: a path, or the name of a file or folder somewhere below ``folder``."""
    for path in (Path(name), *([] if folder is None else [folder / name])):
        if path.exists():
            return path
    if folder is not None and folder.is_dir():
        for subfolder in _data_folders(folder, _DEPTH):
            if name in (subfolder.name, *_above(subfolder)):
                return subfolder
        role = role_of(name)
        if role and _plain(name) in (_plain(role), *DATASETS[role].folders) and role in (sets := find_datasets(folder)):
            return sets[role]
    raise DataError(f"there is no data set {name!r}; give a path, or the folder that holds it with --data.")


def load(path: Path, view: View, progress: ByteProgress | None = None) -> DataSource:
    """Read a data set under its own name; one without folds is divided into folds if all are wanted."""
    # The name of its file or folder, or of the folder around a fold or a form of the set.
    names = (path.name, *_above(path))
    name = next((n for n in names if not _FOLD.fullmatch(n) and _plain(n) != _PREFERRED), path.name)
    if _is_yahoo(path):
        parts = {
            part: read(file, n_features=_YAHOO_FEATURES, progress=progress) for part, file in _yahoo_files(path).items()
        }
        return DataSource(name, folds=(Fold("set 1", **parts),))
    if path.is_dir() and view == "first":
        folds = {int(m[1]): e for e in path.iterdir() if e.is_dir() and (m := _FOLD.fullmatch(e.name))}
        path = folds[min(folds)] if folds else path
    data = open_data_or_folds(path, progress=progress)
    if not isinstance(data, Dataset):
        return DataSource(name, folds=tuple(data))
    return _divide(name, data, view)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _above(folder: Path) -> list[str]:
    """Names of the folders around it, the nearest first; farther ones say nothing about it."""
    return [parent.name for parent in folder.resolve().parents][:2]


def _data_folders(folder: Path, depth: int) -> Iterator[Path]:
    """Folders that hold folds, or the files of one."""
    if is_folds(folder) or _is_yahoo(folder):
        yield folder
        return
    if depth == 0:
        return
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.name.startswith("."):
            yield from _data_folders(entry, depth - 1)


def _yahoo_files(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        for part, stem in _YAHOO.items():
            if entry.name.lower().startswith(stem + "."):
                found.setdefault(part, entry)
    return found


def _is_yahoo(folder: Path) -> bool:
    return len(_yahoo_files(folder)) == len(_YAHOO)


def sizes(source: DataSource) -> tuple[int, int]:
    """Lists and documents of the whole set, each once."""
    parts = [source.whole, *(fold.test for fold in source.folds)]
    if len(source.folds) == 1:
        parts += [source.folds[0].train, source.folds[0].validation]
    there = [part for part in parts if part is not None]
    return sum(part.n_lists for part in there), sum(part.n_docs for part in there)


_PARTS = 5  # folds that a stand-in is divided into if the set comes in folds
_LEAST = 5  # lists of each part that are always kept


def stand_in(known: KnownDataset, view: View) -> DataSource:
    """Synthetic lists of the same kind; whole, or in folds if all folds are wanted."""
    # Sets of one kind are different draws of it.
    whole = synthetic(known.stand_in, n_lists=known.quick_lists, seed=known.published.documents)
    return _divide(f"synthetic {known.stand_in!r} for {known.name}", whole, view)


def _divide(name: str, whole: Dataset, view: View) -> DataSource:
    """The data as they are, or in folds if all folds are wanted."""
    if view == "first":
        return DataSource(name, whole=whole)
    parts = [whole.select(range(i, whole.n_lists, _PARTS)) for i in range(_PARTS)]
    folds = []
    for i in range(_PARTS):  # each tests on one part, validates on the next one and trains on the rest
        test, validation, *rest = parts[i:] + parts[:i]
        folds.append(Fold(f"Fold{i + 1}", concat(rest), validation, test))
    return DataSource(name, folds=tuple(folds))


def reduce_source(source: DataSource, known: KnownDataset) -> DataSource:
    """As many lists of real data as a quick run takes."""
    total = sum(fold.test.n_lists for fold in source.folds) * (1 if len(source.folds) > 1 else 5)
    share = min(1.0, known.quick_lists / total)
    name = f"{share:.1%} of {source.name}" if share < 1 else source.name

    def take_lists(data: Dataset) -> Dataset:
        # Lists are in the order of a hash of their contents, so the first ones are a random sample.
        return data.lists(0, min(data.n_lists, max(_LEAST, round(share * data.n_lists))))

    return replace(source.map(take_lists), name=name)
