"""Gumbel noise as a function of key, sample and the document's place: a value, not a state."""

from __future__ import annotations

from numba import uint64

from plackett.base.arithmetic import log
from plackett.base.kernels import compiled
from plackett.base.mixing import combine, unit

_NOISE, _INNER = 1, 2  # streams of a list's key: for the scores, and for the objective itself


@compiled
def noise_state(key, sample):  # type: ignore[no-untyped-def]
    """What the noise of one sample of a list is drawn from."""
    return combine(combine(key, uint64(_NOISE)), uint64(sample))


@compiled
def inner_key(key, sample):  # type: ignore[no-untyped-def]
    """The key that the perturbed objective itself draws from in one sample."""
    return combine(combine(key, uint64(_INNER)), uint64(sample))


@compiled
def perturb(scores, state, beta, out):  # type: ignore[no-untyped-def]
    """Add Gumbel noise of scale beta to the scores."""
    for i in range(len(scores)):
        out[i] = scores[i] - beta * log(-log(unit(combine(state, uint64(i)))))
