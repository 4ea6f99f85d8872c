r"""Generators of synthetic data: two simulated worlds, and the random numbers they draw from.

**Random numbers.** Each list has a stream of its own, keyed by (seed, list, purpose): SplitMix64, started at the hash
of its key. It is defined by integer arithmetic in this project, so it never changes, and list i does not depend on the
number of lists. Other random numbers are computed from its uniform ones by fixed formulas. Their logarithms and cosines
may differ in the last of 53 bits between mathematical libraries; features are rounded to float32 at the end, which
removes the difference except for about one value in 10^8.

**Factors** (:func:`factor_lists`): anonymous features in [0, 1], many of them sparse or constant,
in the shape of the Yahoo! data. Every list has query traits, every document page traits and match
traits, all standard normal and hidden. A feature is a noisy function of two of them:

.. math:: x = \operatorname{logistic}(b + w_1 z_1 + w_2 z_2 + \sigma\,\varepsilon)

Some features are constant within a list (functions of query traits), some are constant everywhere.
The others come in groups, as from different subsystems: if a subsystem has no data on a document,
its whole group is zero. Some are coarse (steps), some cut off at one half, so zeros are common.
Relevance multiplies match and page traits, saturates, and weights them by a query trait.

**Pages** (:func:`page_lists`): a simulated web of queries with terms and an intent, and pages with words, links, clicks
and quality. A page has hidden traits: how well it matches the topic, authority, quality, length, spam. They affect the
features only through counts and scores. Its relevance depends on the intent of the query, which is not a feature but
correlates with the number and rarity of the query's terms:

===========  ==================================================================================
intent       relevance grows with
===========  ==================================================================================
navigate     match in title and url, but only on pages of authority (a product of two curves)
inform       match in the body up to a point, and quality where the body matches
transact     topic and popularity; best at a middle length
===========  ==================================================================================

Keyword stuffing raises every count and lowers relevance under all of them. So trees rank better
than a linear model, and noise in the judgments keeps every model from being perfect.

Each stream of a page (its body, title ...) has 25 features. With :math:`f_t` the count of query term t, :math:`L` the
length of the stream and :math:`w_t` the term's idf: coverage, length, statistics of :math:`f_t`, :math:`f_t/L` and
:math:`f_t w_t`, a cosine, BM25 (Robertson & Zaragoza 2009) and three smoothed language models (Zhai & Lafferty 2004:
absolute discount, Dirichlet, Jelinek-Mercer).

The coefficients were chosen so that shares, tails and the difference between linear models and trees are those of the
Yahoo! data and of MSLR-WEB30K (tests check them); they have no other meaning.
"""

import numpy as np
from numba import prange, uint64
from numpy.typing import NDArray

from plackett.base.kernels import compiled, parallel
from plackett.base.random import GOLDEN, combine, mix, to_uniform

SIZES, CONTENT, WORLD, ANSWERS = range(4)
"""Purposes of streams."""


@compiled
def open_stream(seed, position, purpose):  # type: ignore[no-untyped-def]
    """Start the stream of a list; its state is an array of one word, which draws advance."""
    state = np.empty(1, np.uint64)
    state[0] = combine(combine(uint64(seed), uint64(position)), uint64(purpose))
    return state


@compiled
def uniform(state):  # type: ignore[no-untyped-def]
    """Draw from the uniform distribution on (0, 1)."""
    state[0] += uint64(GOLDEN)
    return to_uniform(mix(state[0]))


@compiled
def normal(state):  # type: ignore[no-untyped-def]
    """Draw from the standard normal distribution (Box & Muller 1958, without the second draw)."""
    radius = np.sqrt(-2.0 * np.log(uniform(state)))
    return radius * np.cos(2.0 * np.pi * uniform(state))


@compiled
def round_randomly(state, mean):  # type: ignore[no-untyped-def]
    """Round to one of the two neighboring integers, such that ``mean`` is the mean."""
    return np.floor(mean + uniform(state))


@compiled
def logistic(x):  # type: ignore[no-untyped-def]
    """The logistic function, from real numbers to (0, 1)."""
    return 1.0 / (1.0 + np.exp(-x))


@compiled
def draw_sizes(seed, center, spread, short, longest, sizes):  # type: ignore[no-untyped-def]
    """Draw lengths of lists: log-normal, and a share ``short`` of them 1 to 9."""
    for q in range(len(sizes)):
        state = open_stream(seed, q, SIZES)
        size = np.floor(np.exp(center + spread * normal(state)))
        if uniform(state) < short:
            size = np.floor(1.0 + 9.0 * uniform(state) ** 2)
        sizes[q] = min(max(size, 1), longest)


@compiled
def mark_best(seed, relevance, offsets, labels):  # type: ignore[no-untyped-def]
    """Label the best document of each list 1, in some lists the best two or three, the others 0."""
    for q in range(len(offsets) - 1):
        u = uniform(open_stream(seed, q, ANSWERS))
        n_best = 1 + (u > 0.85) + (u > 0.97)
        best = np.argsort(-relevance[offsets[q] : offsets[q + 1]])[:n_best]
        labels[offsets[q] : offsets[q + 1]] = 0.0
        for place in best:
            labels[offsets[q] + place] = 1.0


N_FEATURES = 519
KINDS = ("constant", "query", "page", "match")
_KIND_SHARES = (0.10, 0.22, 0.50)  # cumulative; the rest are match features
_FIRST_TRAIT, _LAST_TRAIT = (0, 0, 3, 7), (0, 3, 7, 12)  # traits that features of a kind use
_N_TRAITS, _N_QUERY_TRAITS = 12, 3
_N_GROUPS = 9  # group 0 is always there
_KIND, _ONE, _TWO, _WEIGHT_ONE, _WEIGHT_TWO, _BIAS, _NOISE, _GROUP, _SHAPE = range(9)
_SMOOTH, _COARSE, _CUT = range(3)
_WORLD_SEED = 519


@compiled
def draw_world():  # type: ignore[no-untyped-def]
    """Draw the parameters of each feature: the same for every seed, so that train matches test."""
    world = np.zeros((N_FEATURES, 9))
    for j in range(N_FEATURES):
        state = open_stream(_WORLD_SEED, j, WORLD)
        u, kind = uniform(state), 0
        for share in _KIND_SHARES:
            kind += u > share
        first, span = _FIRST_TRAIT[kind], _LAST_TRAIT[kind] - _FIRST_TRAIT[kind]
        world[j, _KIND] = kind
        world[j, _ONE] = first + np.floor(span * uniform(state))
        world[j, _TWO] = first + np.floor(span * uniform(state))
        world[j, _WEIGHT_ONE] = 0.2 + 1.3 * uniform(state)
        world[j, _WEIGHT_TWO] = 0.7 * normal(state)
        world[j, _BIAS] = 0.8 * normal(state)
        world[j, _NOISE] = 0.5 + 2.5 * uniform(state)
        world[j, _GROUP] = np.floor(_N_GROUPS * uniform(state)) if kind >= 2 else 0
        shape = uniform(state)
        world[j, _SHAPE] = _SMOOTH if shape < 0.5 else (_COARSE if shape < 0.7 else _CUT)
    return world


def feature_names(world: NDArray[np.float64]) -> tuple[str, ...]:
    """Names of the features by kind and number, such as ``match_204``."""
    return tuple(f"{KINDS[int(kind)]}_{j + 1:03d}" for j, kind in enumerate(world[:, _KIND]))


@compiled
def _value(state, feature, traits):  # type: ignore[no-untyped-def]
    """Draw the value of one feature for a document with these traits."""
    mean = feature[_WEIGHT_ONE] * traits[int(feature[_ONE])]
    mean += feature[_WEIGHT_TWO] * traits[int(feature[_TWO])]
    value = logistic(feature[_BIAS] + mean + feature[_NOISE] * normal(state))
    if feature[_SHAPE] == _COARSE:
        return np.floor(5.0 * value) / 4.0 if value < 0.8 else 1.0
    if feature[_SHAPE] == _CUT:
        return max(0.0, 2.0 * value - 1.0)
    return value


@compiled
def factor_relevance(traits):  # type: ignore[no-untyped-def]
    """Relevance of a document with these traits, before noise."""
    focus = logistic(2.5 * traits[0])  # a trait of the query decides what counts
    match = logistic(2.0 * (0.8 * traits[7] + 0.6 * traits[8]))
    page = logistic(2.0 * (0.7 * traits[3] + 0.5 * traits[4]))
    sharp = 4.0 * match * page - 1.0
    broad = 0.6 * traits[9] + 0.5 * traits[5] - 0.35 * (traits[6] * traits[6] - 1.0)
    return focus * sharp + (1.0 - focus) * broad + 0.3 * traits[7]


@parallel
def factor_lists(seed, offsets, judging, world, features, relevance):  # type: ignore[no-untyped-def]
    """Fill all lists; ``judging`` is as in :func:`page_lists`."""
    ease, noise, unanswerable, _ = judging
    for q in prange(len(offsets) - 1):
        state = open_stream(seed, q, CONTENT)
        traits, known = np.zeros(_N_TRAITS), np.ones(_N_GROUPS)
        for t in range(_N_QUERY_TRAITS):
            traits[t] = normal(state)
        shift = ease * normal(state) if uniform(state) > unanswerable else -np.inf
        fixed = np.zeros(N_FEATURES)
        for j in range(N_FEATURES):
            if world[j, _KIND] == 1:
                fixed[j] = _value(state, world[j], traits)
        for i in range(offsets[q], offsets[q + 1]):
            for t in range(_N_QUERY_TRAITS, _N_TRAITS):
                traits[t] = normal(state)
            for group in range(1, _N_GROUPS):  # later groups are more often zero
                known[group] = uniform(state) > 0.1 * group
            for j in range(N_FEATURES):
                drawn = world[j, _KIND] >= 2 and known[int(world[j, _GROUP])] > 0
                features[i, j] = _value(state, world[j], traits) if drawn else fixed[j]
            relevance[i] = factor_relevance(traits) + shift + noise * normal(state)


STREAMS = ("body", "anchor", "title", "url", "page")
"""The last is the whole page: the other four together."""
MEASURES = (
    "covered",
    "covered_ratio",
    "length",
    "idf",
    *(f"{kind}_{how}" for kind in ("tf", "ntf", "tfidf") for how in ("sum", "min", "max", "mean", "var")),
    "all_covered",
    "cosine",
    "bm25",
    "lm_abs",
    "lm_dir",
    "lm_jm",
)
N_STREAMS = len(STREAMS)

_TYPICAL_LENGTH = (600.0, 10.0, 8.0, 9.0, 625.0)
_IDF_SCALE = (1.0, 2.1, 2.0, 2.05, 1.0)  # words are rarer in short streams
_BM25_K, _BM25_B = 1.2, 0.75
_SUBTRACTED, _PRIOR, _BACKGROUND = 0.7, 2000.0, 0.1  # of the three language models
_VOCABULARY = 0.75  # distinct words of a text grow as this power of its length (Heaps' law)


@compiled
def _statistics(values, out, first):  # type: ignore[no-untyped-def]
    """Sum, least, greatest, mean and variance of a value per term."""
    total, low, high, square = 0.0, np.inf, -np.inf, 0.0
    for value in values:
        total += value
        low = min(low, value)
        high = max(high, value)
    mean = total / len(values)
    for value in values:
        square += (value - mean) * (value - mean)
    out[first] = total
    out[first + N_STREAMS] = low
    out[first + 2 * N_STREAMS] = high
    out[first + 3 * N_STREAMS] = mean
    out[first + 4 * N_STREAMS] = square / len(values)


@compiled
def _language_models(counts, idf, length, out, first):  # type: ignore[no-untyped-def]
    """Log-likelihood of the query under three smoothed models of the stream."""
    absolute, dirichlet, mercer = 0.0, 0.0, 0.0
    n = max(length, 1.0)
    spared = _SUBTRACTED * n**_VOCABULARY / n
    for count, weight in zip(counts, idf):  # noqa: B905 - Numba's zip has no strict
        common = np.exp(-weight - 1.0)
        absolute += np.log(max(count - _SUBTRACTED, 0.0) / n + spared * common)
        dirichlet += np.log((count + _PRIOR * common) / (n + _PRIOR))
        mercer += np.log((1.0 - _BACKGROUND) * count / n + _BACKGROUND * common)
    out[first] = absolute
    out[first + N_STREAMS] = dirichlet
    out[first + 2 * N_STREAMS] = mercer


@compiled
def stream_features(counts, idf, length, stream, work, out):  # type: ignore[no-untyped-def]
    """Write the 25 features of a stream to every fifth place of ``out``; ``work`` is scratch."""
    covered, weight, bm25, dot, norm, idf_norm = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    slack = _BM25_K * (1.0 - _BM25_B + _BM25_B * length / _TYPICAL_LENGTH[stream])
    for t in range(len(counts)):
        count = counts[t]
        covered += count > 0
        weight += idf[t]
        bm25 += idf[t] * count * (_BM25_K + 1.0) / (count + slack)
        dot += idf[t] * idf[t] * count
        norm += (count * idf[t]) ** 2
        idf_norm += idf[t] ** 2
    at = stream
    out[at] = covered
    out[at + N_STREAMS] = covered / len(counts)
    out[at + 2 * N_STREAMS] = length
    out[at + 3 * N_STREAMS] = weight * _IDF_SCALE[stream]
    at += 4 * N_STREAMS
    for power in range(3):
        for t in range(len(counts)):
            scaled = counts[t] / max(length, 1.0) if power == 1 else counts[t]
            work[t] = scaled * idf[t] if power == 2 else scaled
        _statistics(work[: len(counts)], out, at)
        at += 5 * N_STREAMS
    out[at] = covered == len(counts)
    out[at + N_STREAMS] = dot / np.sqrt(norm * idf_norm) if norm > 0 else 0.0
    out[at + 2 * N_STREAMS] = bm25
    _language_models(counts, idf, length, out, at + 3 * N_STREAMS)


PAGE_NAMES = (
    "url_slashes",
    "url_length",
    "inlinks",
    "outlinks",
    "page_rank",
    "site_rank",
    "quality_score",
    "quality_score_2",
    "query_url_clicks",
    "url_clicks",
    "url_dwell",
)
NAMES = (*(f"{m}_{s}" for m in MEASURES for s in STREAMS), *PAGE_NAMES)

MAX_TERMS = 6
_N_WORD_FEATURES = N_STREAMS * len(MEASURES)
BODY, ANCHOR, TITLE, URL = range(4)
TOPIC, AUTHORITY, QUALITY, LENGTH, SPAM, N_TRAITS = 4, 5, 6, 7, 8, 9  # 0 to 3: match by stream
NAVIGATE, INFORM, TRANSACT = range(3)

_TERMS = (0.14, 0.46, 0.74, 0.88, 0.96)  # cumulative shares of 1 to 5 terms
_STUFFED = 0.10  # share of pages with stuffed keywords
_NOTHING = 100.0  # subtracted from the relevance of all pages of a query without answers
_STUFFING = 1.3  # added to the logarithm of the counts of stuffed pages

# By stream: share of the topic in the match, log of typical length, its spread, log of a term's
# rate at idf 5, effect of the match, of the idf, of length on it, and the spread of counts.
_SHARE = (0.80, 0.55, 0.70, 0.50)
_LENGTH = (6.0, 1.1, 1.75, 1.6)
_SPREAD = (1.0, 0.7, 0.5, 0.4)
_RATE = (1.0, -0.9, -1.0, -2.3)
_MATCH = (1.0, 0.8, 0.75, 1.0)
_RARE = (-0.22, -0.05, -0.04, -0.02)
_GROWTH = (0.55, 0.3, 0.2, 0.2)
_BURST = (0.55, 0.3, 0.25, 0.2)


@compiled
def _draw_query(state, idf):  # type: ignore[no-untyped-def]
    """Draw the terms and intent of a query; short queries of rare words tend to navigate."""
    u, n_terms = uniform(state), 1
    for share in _TERMS:
        n_terms += u > share
    total = 0.0
    for t in range(n_terms):
        idf[t] = 1.5 + 7.5 * np.sqrt(uniform(state))
        total += idf[t]
    navigate = logistic(2.5 - 2.5 * (n_terms - 1) + 1.2 * (total / n_terms - 6.5))
    if uniform(state) < navigate:
        return n_terms, NAVIGATE
    inform = logistic(2.0 * (n_terms - 2.6) + 0.6 * (total / n_terms - 6.5))
    return n_terms, INFORM if uniform(state) < inform else TRANSACT


@compiled
def _draw_traits(state, traits):  # type: ignore[no-untyped-def]
    for trait in (TOPIC, AUTHORITY, QUALITY, LENGTH):
        traits[trait] = normal(state)
    traits[SPAM] = uniform(state) < _STUFFED
    for stream in range(4):
        share = _SHARE[stream]
        traits[stream] = share * traits[TOPIC] + np.sqrt(1.0 - share * share) * normal(state)


@compiled
def _draw_words(state, traits, idf, counts, lengths):  # type: ignore[no-untyped-def]
    """Draw lengths of streams and counts of the query's terms in them; add up the whole page."""
    lengths[4] = 0.0
    counts[4, :] = 0.0
    for s in range(4):
        deviation = traits[LENGTH] if s == BODY else normal(state)
        length = np.floor(1.0 + np.exp(_LENGTH[s] + _SPREAD[s] * deviation))
        # Most pages have no links to them; few have no text or no title.
        empty = logistic(1.0 - 1.2 * traits[AUTHORITY]) if s == ANCHOR else 0.025
        length = 0.0 if uniform(state) < empty and s != URL else length
        base = _RATE[s] + _MATCH[s] * traits[s] + _STUFFING * traits[SPAM] * (s != URL)
        base += _GROWTH[s] * (np.log(length + 1.0) - _LENGTH[s])
        for t in range(len(idf)):
            rate = np.exp(base + _RARE[s] * (idf[t] - 5.0) + _BURST[s] * normal(state))
            counts[s, t] = min(round_randomly(state, rate), length)
            counts[4, t] += counts[s, t]
        lengths[s] = length
        lengths[4] += length


@compiled
def page_relevance(traits, intent):  # type: ignore[no-untyped-def]
    """Relevance of a page to an intent, before noise; mean and spread are similar for all intents."""
    if intent == NAVIGATE:
        named = logistic(2.5 * (0.7 * traits[TITLE] + 0.5 * traits[URL] + 0.4 * traits[TOPIC]))
        value = 5.5 * named * logistic(2.2 * traits[AUTHORITY]) - 1.4 - 0.3 * traits[LENGTH]
    elif intent == INFORM:
        body = logistic(2.0 * (0.75 * traits[BODY] + 0.45 * traits[TOPIC]))
        value = 2.6 * body - 1.3 + 1.7 * traits[QUALITY] * body + 0.3 * traits[LENGTH]
    else:
        off = traits[LENGTH] - 0.3
        value = 0.6 * traits[TOPIC] + 0.6 * traits[AUTHORITY] + 0.55 - 0.6 * off * off
    return value - 2.2 * traits[SPAM]


@compiled
def _draw_page_features(state, traits, relevance, out):  # type: ignore[no-untyped-def]
    """Draw the features that do not depend on words; slashes, outlinks, site rank are noise."""
    authority, quality = traits[AUTHORITY], traits[QUALITY]
    out[0] = np.floor(1.0 + np.exp(0.8 + 0.5 * normal(state)))
    out[1] = np.floor(10.0 + 6.0 * out[0] + np.exp(2.4 + 0.7 * normal(state)))
    out[2] = round_randomly(state, np.exp(0.8 + 2.2 * authority + 1.6 * normal(state)))
    out[3] = np.floor(np.exp(0.1 + 1.6 * normal(state)))
    out[4] = np.floor(65535.0 * logistic(-1.7 + 1.3 * authority + 1.0 * normal(state)))
    out[5] = np.floor(65535.0 * logistic(0.3 + 1.6 * normal(state)))
    score = -2.8 - 1.1 * quality + 0.9 * traits[SPAM]
    out[6] = np.floor(1.0 + 254.0 * logistic(score + 0.9 * normal(state)))
    out[7] = np.floor(1.0 + 254.0 * logistic(score + 1.3 * normal(state)))
    clicked = uniform(state) < logistic(-4.1 + 0.55 * relevance)
    out[8] = np.floor(1.0 + np.exp(1.2 + 1.8 * normal(state))) if clicked else 0.0
    visited = uniform(state) < logistic(-1.3 + 1.1 * authority)
    out[9] = np.floor(1.0 + np.exp(1.5 + authority + 1.8 * normal(state))) if visited else 0.0
    out[10] = np.exp(3.0 + 0.4 * quality + 1.0 * normal(state)) if visited else 0.0


@parallel
def page_lists(seed, offsets, judging, features, relevance):  # type: ignore[no-untyped-def]
    """Fill all lists.

    ``judging`` holds the spread of lists, the noise of a judgment, the share of queries without
    answers, and the intent of all queries (or -1: each has its own).
    """
    ease, noise, unanswerable, only = judging
    for q in prange(len(offsets) - 1):
        state = open_stream(seed, q, CONTENT)
        idf, work, traits = np.empty(MAX_TERMS), np.empty(MAX_TERMS), np.empty(N_TRAITS)
        n_terms, intent = _draw_query(state, idf)
        intent = intent if only < 0 else only
        counts, lengths = np.empty((N_STREAMS, n_terms)), np.empty(N_STREAMS)
        shift = ease * normal(state)
        shift = -_NOTHING if uniform(state) < unanswerable else shift
        row = np.empty(features.shape[1])
        for i in range(offsets[q], offsets[q + 1]):
            _draw_traits(state, traits)
            _draw_words(state, traits, idf[:n_terms], counts, lengths)
            for s in range(N_STREAMS):
                stream_features(counts[s], idf[:n_terms], lengths[s], s, work, row)
            relevance[i] = page_relevance(traits, intent) + shift + noise * normal(state)
            _draw_page_features(state, traits, relevance[i], row[_N_WORD_FEATURES:])
            features[i, :] = row
