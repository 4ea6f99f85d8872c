"""Stateless random numbers: 64-bit hashes of keys, and Gumbel noise derived from them.

``mix`` is the finalizer of SplitMix64 (Steele, Lea & Flood 2014): a bijection of 64-bit words in
which each input bit changes each output bit with probability one half. Content hashes and noise are
both built on it, so neither depends on hidden state, threads or the order of calls. Noise is a
function of the list's key, the sample and the document's position. All arguments are uint64.
"""

from typing import Any

import numpy as np
from numba import float64, uint64
from numpy.typing import NDArray

from plackett.base.arithmetic import log
from plackett.base.kernels import compiled

GOLDEN = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio; the stream increment of SplitMix64
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_TO_UNIT = 2.0**-52
_ALL_BITS = 2**64 - 1


@compiled
def mix(word):  # type: ignore[no-untyped-def]
    """Scramble one 64-bit word."""
    word = (word ^ (word >> uint64(30))) * uint64(_FIRST)
    word = (word ^ (word >> uint64(27))) * uint64(_SECOND)
    return word ^ (word >> uint64(31))


@compiled
def combine(state, word):  # type: ignore[no-untyped-def]
    """Add a word to a running hash; the order of the words matters."""
    return mix((state ^ mix(word + uint64(GOLDEN))) * uint64(_FIRST) + uint64(GOLDEN))


def mix_array(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """:func:`mix` of each word, in NumPy."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(_FIRST)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(_SECOND)
    return words ^ (words >> np.uint64(31))


def combine_arrays(states: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """:func:`combine` of each state with its word, in NumPy."""
    return mix_array((states ^ mix_array(words + np.uint64(GOLDEN))) * np.uint64(_FIRST) + np.uint64(GOLDEN))


def combine_all(words: NDArray[np.uint64]) -> int:
    """:func:`combine` of 0 with the words, one after the other, in Python: for a short array, faster than NumPy."""
    state = 0
    for word in mix_array(words + np.uint64(GOLDEN)).tolist():
        state = ((state ^ word) * _FIRST + GOLDEN) & _ALL_BITS
        state = ((state ^ (state >> 30)) * _FIRST) & _ALL_BITS
        state = ((state ^ (state >> 27)) * _SECOND) & _ALL_BITS
        state ^= state >> 31
    return state


@compiled
def to_uniform(word):  # type: ignore[no-untyped-def]
    """Map a scrambled word to the middle of one of 2**52 cells of (0, 1): never 0, never 1."""
    return (float64(word >> uint64(12)) + 0.5) * _TO_UNIT


_NOISE, _INNER = 1, 2  # streams of a list's key: for the scores, and for the objective


@compiled
def noise_state(key, sample):  # type: ignore[no-untyped-def]
    """State of the noise of one sample of a list."""
    return combine(combine(key, uint64(_NOISE)), uint64(sample))


@compiled
def inner_key(key, sample):  # type: ignore[no-untyped-def]
    """Key for the random numbers of the objective in one sample."""
    return combine(combine(key, uint64(_INNER)), uint64(sample))


@compiled
def perturb(scores, state, beta, out):  # type: ignore[no-untyped-def]
    """Add Gumbel noise of scale beta to the scores."""
    for i in range(len(scores)):
        out[i] = scores[i] - beta * log(-log(to_uniform(combine(state, uint64(i)))))


@compiled
def mix_keys(keys: Any, seed: Any, step: Any) -> Any:
    """Keys of lists mixed with two more words."""
    mixed = np.empty_like(keys)
    base = combine(seed, step)
    for q in range(len(keys)):
        mixed[q] = combine(base, keys[q])
    return mixed
