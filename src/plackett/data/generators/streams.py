r"""What the words of a query do in one stream of a page (its body, title ...): 25 features.

With :math:`f_t` the count of query term t, :math:`L` the length of the stream and
:math:`w_t` the term's idf: coverage, length, statistics of :math:`f_t`, :math:`f_t/L` and
:math:`f_t w_t`, a cosine, BM25 (Robertson & Zaragoza 2009) and three smoothed language models
(Zhai & Lafferty 2004: absolute discount, Dirichlet, Jelinek-Mercer).
"""

from __future__ import annotations

import numpy as np

from plackett.base.kernels import compiled

STREAMS = ("body", "anchor", "title", "url", "page")
"""The last is the whole page: the other four together."""
MEASURES = (
    "covered",
    "covered_ratio",
    "length",
    "idf",
    *(
        f"{kind}_{how}"
        for kind in ("tf", "ntf", "tfidf")
        for how in ("sum", "min", "max", "mean", "var")
    ),
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
_DISCOUNT, _PRIOR, _BACKGROUND = 0.7, 2000.0, 0.1
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
    spared = _DISCOUNT * n**_VOCABULARY / n
    for count, weight in zip(counts, idf):  # noqa: B905 - Numba's zip has no strict
        common = np.exp(-weight - 1.0)
        absolute += np.log(max(count - _DISCOUNT, 0.0) / n + spared * common)
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
