"""One division of the data: the one it comes with, or a random one."""

from __future__ import annotations

from plackett.experiments.protocols.protocol import (
    Part,
    Trial,
    as_given,
    at_random,
    given_division,
    split_division,
)
from plackett.experiments.protocols.source import Source, fold_fingerprint


def fixed_part(source: Source, *, name: str, seed: int, division_seed: int, index: int) -> Part:
    """A trial on the one division, with this seed of the model."""
    fold = source.fixed()
    if fold is None:
        division = split_division(division_seed)
        return Part(name, source.pooled_fingerprint, division, seed, index)
    return Part(name, fold_fingerprint(fold), given_division(fold, division_seed), seed, index)


def fixed_trial(source: Source, part: Part, *, division_seed: int) -> Trial:
    """The data of such a trial."""
    fold = source.fixed()
    if fold is None:
        return at_random(source.pooled, name=part.name, seed=part.seed, division_seed=division_seed)
    return as_given(fold, name=part.name, seed=part.seed, division_seed=division_seed)
