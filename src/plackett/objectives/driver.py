r"""The compiled driver that runs a list function over all lists, in parallel.

The driver receives the list function as a pointer (:mod:`plackett.base.kernels`), so it is compiled once for all
objectives, later processes load it from the on-disk cache, and a call costs nanoseconds per list. It has nothing to do
with the driver process of :mod:`plackett.distributed`, which owns the connection to Ray.

With ``samples`` above zero the driver perturbs the scores of each list that many times and averages
(:mod:`plackett.objectives.stochastic` has the mathematics). Buffers and prepared numbers serve all samples of a list.

**Document weights**: factors of the gain of a document, such as one over its propensity.

Where an objective uses gains or a distribution made of labels, a weight is the same as another
label, so nothing else has to know about it:

===============  ============================  ====================================================
weighting        what is scaled                the label y of a document of weight w becomes
===============  ============================  ====================================================
``gain``         :math:`2^y - 1`               :math:`\log_2(1 + w(2^y - 1))`
``share``        y                             :math:`wy`
``exponential``  :math:`e^y - 1`               :math:`\ln(1 + w(e^y - 1))`
===============  ============================  ====================================================

A weight of 0 turns any document into one of label 0. This also holds for ListNet, in which label 0 has a
positive share. Labels are float32, so a weighted gain is exact to about seven digits.

Objectives that use only the order of labels (``order``) receive the weights as an addition to the numbers
prepared for each list: every pair, or every pick of a ranking, is multiplied by the weight of its better
document, as in the propensity-weighted SVM-rank of Joachims, Swaminathan & Schnabel (2017). Weights of 1
leave every bit of the result unchanged.
"""

from typing import Literal, TypeAlias

import numpy as np
from numba import boolean, float64, int64, prange, uint64, void
from numpy.typing import ArrayLike, NDArray

from plackett.base.errors import DataError
from plackett.base.kernels import FLOATS, INTEGERS, LABELS, compiled, function_maker, list_function, parallel, readonly
from plackett.base.ragged import Labels, Offsets, offsets_from_sizes
from plackett.base.random import inner_key, noise_state, perturb

Weighting: TypeAlias = Literal["gain", "share", "exponential", "order"]


def check_document_weights(weights: ArrayLike, n_docs: int) -> NDArray[np.float64] | None:
    """Return the weights as an array; None if all are 1, which is the same as no weights."""
    array = np.ascontiguousarray(weights, dtype=np.float64)
    if array.shape != (n_docs,) or not np.all((array >= 0.0) & (array < np.inf)):
        raise DataError(
            f"document_weights must be {n_docs} finite numbers that are not negative, one per "
            f"document, got {array.dtype} of shape {array.shape}."
        )
    return None if np.all(array == 1.0) else array


def weighted_labels(weighting: Weighting, labels: Labels, weights: NDArray[np.float64]) -> Labels:
    """Labels that have the same effect as the given ones with these weights."""
    y = labels.astype(np.float64)
    if weighting == "share":
        scaled = y * weights
    else:
        # 1 + w (b^y - 1) = b^y (w + (1 - w) b^-y), which does not overflow for any label.
        base = np.log(2.0) if weighting == "gain" else 1.0
        with np.errstate(divide="ignore"):
            scaled = y + np.log(weights + (1.0 - weights) * np.exp(-base * y)) / base
        scaled = np.maximum(scaled, 0.0)
    return np.where(weights == 1.0, labels, scaled.astype(np.float32))


def append_weights(
    values: NDArray[np.float64], value_offsets: Offsets, weights: NDArray[np.float64], offsets: Offsets
) -> tuple[NDArray[np.float64], Offsets]:
    """The numbers prepared for each list, followed by the weights of its documents."""
    joined_offsets = offsets_from_sizes(np.diff(value_offsets) + np.diff(offsets))
    joined = np.empty(joined_offsets[-1])
    _fill_joined(values, value_offsets, weights, offsets, joined_offsets, joined)
    return joined, joined_offsets


@compiled
def _fill_joined(values, value_offsets, weights, offsets, joined_offsets, joined):  # type: ignore[no-untyped-def]
    for q in range(len(offsets) - 1):
        middle = joined_offsets[q + 1] - (offsets[q + 1] - offsets[q])
        joined[joined_offsets[q] : middle] = values[value_offsets[q] : value_offsets[q + 1]]
        joined[middle : joined_offsets[q + 1]] = weights[offsets[q] : offsets[q + 1]]


@compiled
def document_weights(prepared, n_docs, start):  # type: ignore[no-untyped-def]
    """Weights of a list's documents, which begin at ``start`` of its prepared numbers, or ones."""
    if len(prepared) == start + n_docs:
        return prepared[start:].copy()
    return np.ones(n_docs)


LIST_FUNCTION = float64(FLOATS, LABELS, FLOATS, uint64, FLOATS, float64[::1], float64[::1])
"""scores, labels, prepared, key, params, gradient, curvature -> value.

prepared
    Numbers that the objective prepared for the list: gains, explicit draws, sampled rankings.
key
    A 64-bit word that depends on seed, step and list: the source of random numbers.
params
    The objective's parameters.
gradient, curvature
    Zero on entry.

List functions are not called for lists with one document or one label level, unless the objective
says so (``Objective.uses_one_level``).
"""

_function_at = function_maker(LIST_FUNCTION)


@compiled
def _perturb(scores, key, sample, uniform, beta, normalize, z):  # type: ignore[no-untyped-def]
    if len(uniform):
        for i in range(len(scores)):
            z[i] = scores[i] - beta * np.log(-np.log(uniform[sample, i]))
    else:
        perturb(scores, noise_state(key, sample), beta, z)
    if normalize:
        top = np.max(z)
        total = 0.0
        for i in range(len(z)):
            total += np.exp(z[i] - top)
        shift = top + np.log(total)
        for i in range(len(z)):
            z[i] -= shift


@compiled
def _average(  # type: ignore[no-untyped-def]
    function, scores, labels, prepared, key, params, uniform, samples, beta, normalize, gradient, curvature
):
    n = len(scores)
    z, g, h = np.empty(n), np.empty(n), np.empty(n)
    value = 0.0
    for sample in range(samples):
        _perturb(scores, key, sample, uniform, beta, normalize, z)
        g[:] = 0.0
        h[:] = 0.0
        value += function(z, labels, prepared, inner_key(key, sample), params, g, h)
        total = 0.0
        if normalize:
            for i in range(n):
                total += g[i]
        for i in range(n):
            share = np.exp(z[i]) if normalize else 0.0
            gradient[i] += (g[i] - share * total) / samples
            # The exact diagonal through the normalization needs the whole inner Hessian. For trees, the
            # inner diagonal is enough, scaled by the derivative of the document's own score.
            curvature[i] += h[i] * (1.0 - share) ** 2 / samples
    return value / samples


@compiled
def has_one_level(labels):  # type: ignore[no-untyped-def]
    """Whether all labels of a list are equal, as in a list of one document."""
    same = 1  # in most lists one of the first few labels differs
    while same < len(labels) and labels[same] == labels[0]:
        same += 1
    return same >= len(labels)


@list_function(
    void(
        int64,  # address of the list function
        FLOATS,  # scores
        LABELS,
        INTEGERS,  # offsets
        FLOATS,  # prepared numbers
        INTEGERS,  # its offsets
        readonly(uint64),  # keys
        FLOATS,  # params
        readonly(float64, 2),  # explicit uniform draws, samples x documents; or no rows
        int64,  # samples; 0: no noise
        float64,  # beta
        boolean,  # normalize
        boolean,  # whether lists with one label level count
        float64[::1],  # values
        float64[::1],  # gradient
        float64[::1],  # curvature
    ),
    parallel,
)
def each_list(  # type: ignore[no-untyped-def]
    address,
    scores,
    labels,
    offsets,
    prepared,
    prepared_offsets,
    keys,
    params,
    uniform,
    samples,
    beta,
    normalize,
    one_level,
    values,
    gradient,
    curvature,
):
    """Call a list function for each list; fills all outputs."""
    function = _function_at(address)
    for q in prange(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        s, y, g, h = scores[low:high], labels[low:high], gradient[low:high], curvature[low:high]
        numbers = prepared[prepared_offsets[q] : prepared_offsets[q + 1]]
        values[q] = 0.0
        g[:] = 0.0
        h[:] = 0.0
        if not one_level and has_one_level(y):
            continue
        if samples == 0:
            values[q] = function(s, y, numbers, keys[q], params, g, h)
        else:
            draws = uniform[:, low:high]
            values[q] = _average(function, s, y, numbers, keys[q], params, draws, samples, beta, normalize, g, h)
