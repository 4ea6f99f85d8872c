"""Public data sets of learning to rank: their folders and the sizes that their makers published.

LETOR 3 and 4 (Qin, Liu, Xu & Li 2010; Qin & Liu 2013) and MSLR come in five folds. Yahoo's challenge (Chapelle & Chang
2011) and Istella (Dato et al. 2016) come as one split; a folder of Yahoo's may hold the files of both of its sets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from plackett.base.errors import DataError, unknown_name
from plackett.data.files import SplitName

if TYPE_CHECKING:
    from plackett.data.folds import Fold


@dataclass(frozen=True)
class KnownSizes:
    """The published facts about a data set."""

    name: str
    lists: int
    documents: int
    """For all splits together; in folds, each list counts once."""
    features: int
    splits: Mapping[SplitName, tuple[int, int]] = field(default_factory=dict)
    """Lists and documents of each split, if there is only one division."""
    prefix: str = ""
    """Prefix of the names of its files."""


def _yahoo(number: int, **splits: tuple[int, int]) -> KnownSizes:
    lists, documents = (sum(sizes) for sizes in zip(*splits.values(), strict=True))
    return KnownSizes(f"Yahoo set {number}", lists, documents, 700, splits, f"set{number}.")  # type: ignore[arg-type]


_GOV = 64
KNOWN: dict[str, KnownSizes] = {
    known.name: known
    for known in (
        KnownSizes("OHSUMED", 106, 16_140, 45),
        KnownSizes("TD2003", 50, 49_058, _GOV),
        KnownSizes("TD2004", 75, 74_146, _GOV),
        KnownSizes("HP2003", 150, 147_606, _GOV),
        KnownSizes("HP2004", 75, 74_409, _GOV),
        KnownSizes("NP2003", 150, 148_657, _GOV),
        KnownSizes("NP2004", 75, 73_834, _GOV),
        KnownSizes("MQ2007", 1_692, 69_623, 46),
        KnownSizes("MQ2008", 784, 15_211, 46),
        KnownSizes("MSLR-WEB10K", 10_000, 1_200_192, 136),
        KnownSizes("MSLR-WEB30K", 31_531, 3_771_125, 136),
        _yahoo(1, train=(19_944, 473_134), validation=(2_994, 71_083), test=(6_983, 165_660)),
        _yahoo(2, train=(1_266, 34_815), validation=(1_266, 34_881), test=(3_798, 103_174)),
        KnownSizes(
            "Istella", 33_018, 10_454_629, 220, {"train": (23_219, 7_325_625), "test": (9_799, 3_129_004)}
        ),
        KnownSizes(
            "Istella-S", 33_018, 3_408_630, 220,
            {"train": (19_245, 2_043_304), "validation": (7_211, 684_076), "test": (6_562, 681_250)},
        ),
    )
}  # fmt: skip


def find_known(name: str) -> KnownSizes:
    """The data set of a name; capitals, spaces and hyphens do not matter (``mslr-web10k``, ``yahoo-set1``)."""
    by_name = {_plain(known): sizes for known, sizes in KNOWN.items()}
    if _plain(name) not in by_name:
        raise unknown_name("known data set", name, KNOWN)
    return by_name[_plain(name)]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def refuse_other_sizes(known: KnownSizes, folds: Sequence[Fold], path: Path) -> None:
    """Raise DataError that names every difference between the sizes of the folds and the published ones."""
    differences = []
    first = folds[0]
    if first.train.n_features != known.features:
        differences.append(f"{first.train.n_features:,} features, published {known.features:,}")
    for split, published in known.splits.items():
        data = first.parts.get(split)
        if data is None:
            differences.append(f"no {split} set")
        else:
            differences += _compare((data.n_lists, data.n_docs), published, f" in the {split} set")
    if not known.splits:
        tests = [fold.test for fold in folds] if len(folds) > 1 else list(first.parts.values())
        sizes = (sum(part.n_lists for part in tests), sum(part.n_docs for part in tests))
        differences += _compare(sizes, (known.lists, known.documents), "")
    if differences:
        raise DataError(
            f"is not {known.name} as published: it has {'; '.join(differences)}. Published results do not apply to it; "
            "read it without known=, or fetch it again.",
            path=str(path),
        )


def _compare(sizes: tuple[int, int], published: tuple[int, int], where: str) -> list[str]:
    return [
        f"{size:,} {what}{where}, published {wanted:,}"
        for what, size, wanted in zip(("lists", "documents"), sizes, published, strict=True)
        if size != wanted
    ]
