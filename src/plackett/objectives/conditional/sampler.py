r"""A sample of rankings of goods against bads, drawn once (Dubey et al. 2009, section 4).

The sums of the conditional models run over all rankings. The paper replaces them with sums over a fixed
sample, because a new one at each step would make the line searches of quasi-Newton methods fail. The
sample should contain rankings of diverse quality, most of them good:

1. start a walk at a restart state: ``restarts="two"``: the ideal ranking with probability ``best``, else the worst one;
   ``restarts="many"``: rankings with k random bads above all goods, k on a grid of up to 11 values from none to all,
   chosen with probability in proportion to :math:`e^{\mathrm{skew}\, k / n_-}` (:math:`k / n_-` is the loss in AUC);
2. make ``walk`` mutations, and collect every state visited; with ``walk="auto"`` collect ten states,
   with four sweeps between two states (a sweep has as many mutations as there are goods);
3. repeat until there are enough.

The first walk starts at the ideal ranking, so the sample always contains it: without it ConvexLoss
and L1 have no lower bound. With ``dedupe`` a ranking counts once; short lists have fewer rankings
than requested, so the search ends after five visits per requested ranking.

**Mutations** (Dubey et al. 2009, figure 2). The paper draws a pair uniformly, proposes its flip with probability
:math:`\alpha`, rejects flips that leave the valid rankings, and repeats until one is accepted. That draws among the
flippable pairs in proportion to :math:`\alpha`, which is constant over the pairs of two neighboring blocks. We draw
from that distribution directly: a boundary between blocks in proportion to :math:`|\mathrm{block}| \cdot
|\mathrm{block'}| \cdot \alpha`, then one document of each block. A step costs O(number of blocks), a handful near the
best and the worst ranking, where the paper's loop takes thousands of proposals on long lists.

**Sweeps.** With one good among many bads, the paper's law takes the good below a few bads within ten mutations, and
losses vary widely (its Figure 7). With many goods it leads back: near the ideal ranking :math:`\alpha` is :math:`n_+ +
n_-` times larger for the flip that repairs the only wrong pair than for one that makes another, so walks of any length
stay where they started (45 goods, 100 bads: a mean AUC loss of .002 after 30,000 mutations). A mutation of a sweep
draws one good and moves it as if it were the only one: below a further bad or above one again in proportion to
:math:`(n_- - k)(1 + k)` and :math:`k (1 + n_- - k)` where k bads stand above it. So the number of bads above a good is
distributed as in a list with one good, whatever the number of goods. Four sweeps between collected states were best on
the validation lists of OHSUMED and MQ2007.

A walk holds the state, and goods and bads sorted by falling wins: the goods with v wins
are ``goods[good_at_least[v + 1] : good_at_least[v]]``.
"""

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from plackett.base.errors import UsageError
from plackett.base.kernels import compiled
from plackett.base.random import combine, mix, to_uniform
from plackett.objectives.conditional.rankings import RankingState, flip, ideal_state
from plackett.objectives.objective import check_choice, check_whole


class Walk(NamedTuple):
    """The current ranking of a random walk."""

    state: RankingState
    goods: NDArray[np.int64]
    """Goods by wins, descending."""
    good_places: NDArray[np.int64]
    """Position of each good in ``goods``."""
    bads: NDArray[np.int64]
    """Bads by wins, descending."""
    bad_places: NDArray[np.int64]
    """Position of each bad in ``bads``."""


@compiled
def start_walk(n_goods, n_bads):  # type: ignore[no-untyped-def]
    """A walk at the ideal ranking."""
    return Walk(
        ideal_state(n_goods, n_bads), np.arange(n_goods), np.arange(n_goods), np.arange(n_bads), np.arange(n_bads)
    )


@compiled
def restart(walk, n_above, key):  # type: ignore[no-untyped-def]
    """Put ``n_above`` random bads above all goods, and the others below."""
    state, bads = walk.state, walk.bads
    n_goods, n_bads = len(walk.goods), len(bads)
    state.good_wins[:] = n_bads - n_above
    state.good_at_least[:] = 0
    state.good_at_least[: n_bads - n_above + 1] = n_goods
    state.bad_wins[:] = 0
    state.bad_at_least[:] = n_above
    state.bad_at_least[0] = n_bads
    state.bad_at_least[n_goods + 1] = 0
    for k in range(n_above):
        other = k + int(to_uniform(combine(key, uint64(k))) * (n_bads - k))
        _swap(bads, walk.bad_places, k, other)
        state.bad_wins[bads[k]] = n_goods


@compiled
def mutate(walk, key):  # type: ignore[no-untyped-def]
    """Flip one flippable pair, drawn in proportion to alpha; returns it."""
    left = to_uniform(combine(key, uint64(0))) * _next_flip(walk, np.inf)[0]
    _, wins, bad_wins = _next_flip(walk, left)
    low, high = walk.state.good_at_least[wins + 1], walk.state.good_at_least[wins]
    g = walk.goods[low + int(to_uniform(combine(key, uint64(1))) * (high - low))]
    return g, _flip_with_block(walk, g, bad_wins, key)


@compiled
def mutate_one(walk, key):  # type: ignore[no-untyped-def]
    """Draw a good and flip it with a bad as if it were the only good; returns the pair."""
    n_goods, n_bads = len(walk.goods), len(walk.bads)
    g = int(to_uniform(combine(key, uint64(0))) * n_goods)
    wins = walk.state.good_wins[g]
    above = n_bads - wins
    down, up = wins * (1.0 + above), above * (1.0 + wins)
    falls = to_uniform(combine(key, uint64(1))) * (down + up) < down
    return g, _flip_with_block(walk, g, n_goods - walk.state.good_at_least[wins if falls else wins + 1], key)


@compiled
def _flip_with_block(walk, g, bad_wins, key):  # type: ignore[no-untyped-def]
    """Flip a good with a bad of a neighboring block, whose bads have ``bad_wins`` wins; returns the bad."""
    state = walk.state
    wins = state.good_wins[g]
    low, high = state.bad_at_least[bad_wins + 1], state.bad_at_least[bad_wins]
    b = walk.bads[low + int(to_uniform(combine(key, uint64(2))) * (high - low))]
    # A document that loses becomes the first of the next lower level, one that wins the last of the
    # next higher one: it changes places with the one there before the boundary moves over it.
    falls = 1 if state.good_at_least[wins] <= len(walk.goods) - bad_wins else 0
    rises = 1 - falls
    place = state.good_at_least[wins + rises] - falls
    _swap(walk.goods, walk.good_places, walk.good_places[g], place)
    place = state.bad_at_least[bad_wins + falls] - rises
    _swap(walk.bads, walk.bad_places, walk.bad_places[b], place)
    flip(state, g, b)
    return b


@compiled
def _next_flip(walk, left):  # type: ignore[no-untyped-def]
    """Walk along the boundaries of blocks until their weights exceed ``left``.

    Returns the sum of weights so far and the wins of the goods and of the bads at that boundary;
    with infinite ``left``, the sum of all weights and the last boundary.
    """
    state = walk.state
    n_goods, n_bads = len(walk.goods), len(walk.bads)
    total, good_wins, bad_wins = 0.0, 0, 0
    first = 0
    while first < n_goods:
        wins = state.good_wins[walk.goods[first]]
        last = state.good_at_least[wins]
        for above in (first, last):  # the bads just above the block, then those just below it
            lost = n_goods - above
            width = (last - first) * (state.bad_at_least[lost] - state.bad_at_least[lost + 1])
            if width > 0:
                near = n_goods + wins - lost if above == first else n_bads - wins + lost
                total += width * (1.0 + near)
                good_wins, bad_wins = wins, lost
                if total > left:
                    return total, good_wins, bad_wins
        first = last
    return total, good_wins, bad_wins


@compiled
def _swap(order, places, k, other):  # type: ignore[no-untyped-def]
    order[k], order[other] = order[other], order[k]
    places[order[k]] = k
    places[order[other]] = other


RestartName: TypeAlias = Literal["two", "many"]

RESTARTS: tuple[RestartName, ...] = ("two", "many")
WalkLength: TypeAlias = int | Literal["auto"]
COLLECTED, _SWEEPS = 10, 4  # states of a walk of length "auto", and sweeps before each
_GRID = 11  # maximum number of restart states of "many"
_VISITS = 5  # maximum number of visits per requested ranking
_CHOOSE, _PLACE, _MOVE = 1, 2, 3  # streams of a list's key


class SamplerSettings(NamedTuple):
    """How rankings are drawn, in the form that compiled code uses."""

    samples: int
    many: bool
    best: float
    skew: float
    walk: int
    """0 for ``"auto"``."""
    dedupe: bool


class SampledRankings(NamedTuple):
    """Rankings of one list's goods against its bads, one per row; the first is the ideal one."""

    good_wins: NDArray[np.int32]
    """Number of bads that each good beats."""
    bad_wins: NDArray[np.int32]
    """Number of goods that each bad beats."""


def check_settings(
    objective: str, samples: int, restarts: RestartName, best: float, skew: float, walk: WalkLength, dedupe: bool
) -> SamplerSettings:
    """Check settings; errors name the objective that has them."""
    check_whole(objective, samples=samples)
    if walk != "auto":
        if isinstance(walk, str):
            raise UsageError(f"{objective} needs walk='auto' or a number of mutations, got {walk!r}.")
        check_whole(objective, walk=walk)
    check_choice(objective, RESTARTS, restarts=restarts)
    if not 0.0 <= best <= 1.0 or not np.isfinite(skew):
        raise UsageError(
            f"{objective} needs best between 0 and 1 and a finite skew, got best={best!r} and skew={skew!r}."
        )
    many = restarts == "many"
    return SamplerSettings(samples, many, float(best), float(skew), 0 if walk == "auto" else walk, bool(dedupe))


def sample_rankings(
    n_goods: int,
    n_bads: int,
    *,
    samples: int = 200,
    restarts: RestartName = "two",
    best: float = 0.9,
    skew: float = -5.0,
    walk: WalkLength = "auto",
    key: int = 0,
    dedupe: bool = True,
) -> SampledRankings:
    """Draw rankings of goods against bads.

    Parameters
    ----------
    n_goods, n_bads
        Numbers of relevant and of irrelevant documents, at least one each.
    samples
        Number of rankings; fewer are returned if there are fewer different ones.
    restarts
        ``two``: the walks start at the best or the worst ranking; ``many``: also in between.
    best
        Probability of the best ranking, for ``two``.
    skew
        For ``many``: restart states with loss D are chosen in proportion to exp(skew D).
    walk
        Mutations after each restart, or ``"auto"``: as many as the list needs.
    key
        Source of randomness, a 64-bit number: the same key gives the same rankings.
    dedupe
        Count each ranking once.

    >>> sample_rankings(1, 2, samples=4).good_wins.shape
    (4, 1)
    """
    check_whole("sample_rankings", n_goods=n_goods, n_bads=n_bads)
    settings = check_settings("sample_rankings", samples, restarts, best, skew, walk, dedupe)
    wins = np.empty((samples, n_goods + n_bads), dtype=np.int32)
    count = draw_rankings(settings, np.uint64(key % 2**64), n_goods, wins)
    return SampledRankings(wins[:count, :n_goods], wins[:count, n_goods:])


@compiled
def draw_rankings(settings, key, n_goods, wins):  # type: ignore[no-untyped-def]
    """Fill rows of wins, goods before bads, with rankings; returns how many there are."""
    n_bads = wins.shape[1] - n_goods
    walk = start_walk(n_goods, n_bads)
    seen = np.zeros(4 * settings.samples, dtype=np.uint64)
    length = settings.walk if settings.walk > 0 else COLLECTED
    count, visits = 0, 0
    while count < settings.samples and visits < _VISITS * settings.samples:
        # Each restart has its own words of the stream, numbered by the visits so far.
        n_above = 0
        if visits > 0:
            chance = to_uniform(combine(combine(key, uint64(_CHOOSE)), uint64(visits)))
            n_above = _choose_restart(settings, n_bads, chance)
        restart(walk, n_above, combine(combine(key, uint64(_PLACE)), uint64(visits)))
        fingerprint = _fingerprint(walk.state)
        for step in range(length + 1):
            if step > 0:
                word = combine(combine(key, uint64(_MOVE)), uint64(visits))
                fingerprint = advance(walk, settings.walk == 0, word, fingerprint)
            visits += 1
            if not settings.dedupe or _is_new(seen, fingerprint):
                wins[count, :n_goods] = walk.state.good_wins
                wins[count, n_goods:] = walk.state.bad_wins
                count += 1
                if count == settings.samples:
                    break
    return count


@compiled
def advance(walk, sweeps, word, fingerprint):  # type: ignore[no-untyped-def]
    """Go on to the next state to collect; returns its hash from that of the last one."""
    if not sweeps:
        g, b = mutate(walk, word)
        return _moved(fingerprint, walk.state, g, b)
    # One more mutation half of the time: each adds or repairs one wrong pair, and an even number of them
    # would never reach rankings with an odd number of wrong pairs.
    for k in range(np.int64(_SWEEPS * len(walk.goods)) + np.int64(word & uint64(1))):
        g, b = mutate_one(walk, combine(word, uint64(k)))
        fingerprint = _moved(fingerprint, walk.state, g, b)
    return fingerprint


@compiled
def _choose_restart(settings, n_bads, chance):  # type: ignore[no-untyped-def]
    """How many bads stand above all goods at the restart."""
    if not settings.many:
        return 0 if chance < settings.best else n_bads
    last = min(_GRID - 1, n_bads)
    weights = np.empty(last + 1)
    for t in range(last + 1):
        loss = _grid_point(t, last, n_bads) / n_bads
        # Relative to the largest, so that no skew overflows.
        weights[t] = np.exp(settings.skew * loss - max(settings.skew, 0.0))
    left = chance * np.sum(weights)
    choice = 0
    while choice < last and left >= weights[choice]:
        left -= weights[choice]
        choice += 1
    return _grid_point(choice, last, n_bads)


@compiled
def _grid_point(t, last, n_bads):  # type: ignore[no-untyped-def]
    """The t-th of last + 1 even steps from 0 to n_bads, to the nearest whole number."""
    return (2 * t * n_bads + last) // (2 * last)


@compiled
def _word(side, document, wins):  # type: ignore[no-untyped-def]
    return mix((uint64(wins) << uint64(33)) | (uint64(document) << uint64(1)) | uint64(side))


@compiled
def _fingerprint(state):  # type: ignore[no-untyped-def]
    """A 64-bit hash of a ranking, a sum over documents, so that a flip changes it in O(1)."""
    total = uint64(0)
    for g in range(len(state.good_wins)):
        total += _word(0, g, state.good_wins[g])
    for b in range(len(state.bad_wins)):
        total += _word(1, b, state.bad_wins[b])
    return total


@compiled
def _moved(fingerprint, state, g, b):  # type: ignore[no-untyped-def]
    """The hash after a flip of g and b, from the hash before it."""
    good_wins, bad_wins = state.good_wins[g], state.bad_wins[b]
    # After the flip the good stands above the bad if it has just won.
    above = state.good_at_least[good_wins] <= len(state.good_wins) - bad_wins
    change = 1 if above else -1
    fingerprint += _word(0, g, good_wins) - _word(0, g, good_wins - change)
    fingerprint += _word(1, b, bad_wins) - _word(1, b, bad_wins + change)
    return fingerprint


@compiled
def _is_new(seen, fingerprint):  # type: ignore[no-untyped-def]
    """Whether a hash is new; it is put into the table, where 0 marks a free place."""
    word = max(fingerprint, uint64(1))
    slot = np.int64(word % uint64(len(seen)))
    while seen[slot] != uint64(0) and seen[slot] != word:
        slot = (slot + 1) % len(seen)
    new = seen[slot] == uint64(0)
    seen[slot] = word
    return new
