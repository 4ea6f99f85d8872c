r"""A simulated web: queries with terms and an intent, pages with words, links, clicks and quality.

A page has hidden traits: how well it matches the topic, authority, quality, length, spam. They
show only through counts and scores. What a judge thinks of it depends on the intent of the query,
which no feature names but the number and rarity of its terms hint at:

===========  ==================================================================================
intent       relevance grows with
===========  ==================================================================================
navigate     match in title and url, but only on pages of authority (a product of two curves)
inform       match in the body up to a point, and quality where the body matches
transact     topic and popularity; best at a middle length
===========  ==================================================================================

Keyword stuffing raises every count and lowers relevance under all of them. So a linear model gets
part of the way, trees further, and noise in the judgement keeps everyone from the end.

The coefficients below are the world. They were chosen so that shares, tails and the distance
between linear models and trees come out as in MSLR-WEB30K (the tests hold them); they mean nothing
else.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from plackett.base.kernels import compiled
from plackett.data.generators.draws import (
    CONTENT,
    logistic,
    normal,
    open_stream,
    uniform,
    whole,
)
from plackett.data.generators.streams import MEASURES, N_STREAMS, STREAMS, stream_features

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
"""Names of the 136 features."""

MAX_TERMS = 6
_N_WORD_FEATURES = N_STREAMS * len(MEASURES)
BODY, ANCHOR, TITLE, URL = range(4)
TOPIC, AUTHORITY, QUALITY, LENGTH, SPAM, N_TRAITS = 4, 5, 6, 7, 8, 9  # 0 to 3: match by stream
NAVIGATE, INFORM, TRANSACT = range(3)

_TERMS = (0.14, 0.46, 0.74, 0.88, 0.96)  # cumulative shares of 1 to 5 terms
_STUFFED = 0.10  # share of pages with stuffed keywords
_NOTHING = 100.0  # how far below every threshold a query without answer puts its pages
_STUFFING = 1.3  # by which the logarithm of their counts is raised

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
    """Draw terms and intent of a query; short queries of rare words tend to navigate."""
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
        own = traits[LENGTH] if s == BODY else normal(state)
        length = np.floor(1.0 + np.exp(_LENGTH[s] + _SPREAD[s] * own))
        # Nobody links to most pages; few have no text or no title.
        empty = logistic(1.0 - 1.2 * traits[AUTHORITY]) if s == ANCHOR else 0.025
        length = 0.0 if uniform(state) < empty and s != URL else length
        base = _RATE[s] + _MATCH[s] * traits[s] + _STUFFING * traits[SPAM] * (s != URL)
        base += _GROWTH[s] * (np.log(length + 1.0) - _LENGTH[s])
        for t in range(len(idf)):
            rate = np.exp(base + _RARE[s] * (idf[t] - 5.0) + _BURST[s] * normal(state))
            counts[s, t] = min(whole(state, rate), length)
            counts[4, t] += counts[s, t]
        lengths[s] = length
        lengths[4] += length


@compiled
def relevance(traits, intent):  # type: ignore[no-untyped-def]
    """Say how a page serves an intent, before noise; of similar mean and spread for all intents."""
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
def _draw_page_features(state, traits, opinion, out):  # type: ignore[no-untyped-def]
    """Draw what does not depend on words; slashes, outlinks and site rank are pure noise."""
    authority, quality = traits[AUTHORITY], traits[QUALITY]
    out[0] = np.floor(1.0 + np.exp(0.8 + 0.5 * normal(state)))
    out[1] = np.floor(10.0 + 6.0 * out[0] + np.exp(2.4 + 0.7 * normal(state)))
    out[2] = whole(state, np.exp(0.8 + 2.2 * authority + 1.6 * normal(state)))
    out[3] = np.floor(np.exp(0.1 + 1.6 * normal(state)))
    out[4] = np.floor(65535.0 * logistic(-1.7 + 1.3 * authority + 1.0 * normal(state)))
    out[5] = np.floor(65535.0 * logistic(0.3 + 1.6 * normal(state)))
    score = -2.8 - 1.1 * quality + 0.9 * traits[SPAM]
    out[6] = np.floor(1.0 + 254.0 * logistic(score + 0.9 * normal(state)))
    out[7] = np.floor(1.0 + 254.0 * logistic(score + 1.3 * normal(state)))
    clicked = uniform(state) < logistic(-4.1 + 0.55 * opinion)
    out[8] = np.floor(1.0 + np.exp(1.2 + 1.8 * normal(state))) if clicked else 0.0
    visited = uniform(state) < logistic(-1.3 + 1.1 * authority)
    out[9] = np.floor(1.0 + np.exp(1.5 + authority + 1.8 * normal(state))) if visited else 0.0
    out[10] = np.exp(3.0 + 0.4 * quality + 1.0 * normal(state)) if visited else 0.0


@njit(cache=True, nogil=True, parallel=True)
def page_lists(seed, offsets, judging, features, opinions):  # type: ignore[no-untyped-def]
    """Fill all lists.

    ``judging`` holds how far lists spread, the noise of a judgement, the share of queries that
    nothing answers, and the intent of all queries (or -1: each has its own).
    """
    ease, noise, hopeless, only = judging
    for q in prange(len(offsets) - 1):
        state = open_stream(seed, q, CONTENT)
        idf, work, traits = np.empty(MAX_TERMS), np.empty(MAX_TERMS), np.empty(N_TRAITS)
        n_terms, intent = _draw_query(state, idf)
        intent = intent if only < 0 else only
        counts, lengths = np.empty((N_STREAMS, n_terms)), np.empty(N_STREAMS)
        shift = ease * normal(state)
        shift = -_NOTHING if uniform(state) < hopeless else shift
        row = np.empty(features.shape[1])
        for i in range(offsets[q], offsets[q + 1]):
            _draw_traits(state, traits)
            _draw_words(state, traits, idf[:n_terms], counts, lengths)
            for s in range(N_STREAMS):
                stream_features(counts[s], idf[:n_terms], lengths[s], s, work, row)
            opinions[i] = relevance(traits, intent) + shift + noise * normal(state)
            _draw_page_features(state, traits, opinions[i], row[_N_WORD_FEATURES:])
            features[i, :] = row
