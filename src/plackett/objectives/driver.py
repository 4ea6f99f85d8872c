"""The compiled driver that runs a list function over all lists, in parallel.

The driver receives the list function as a pointer (:mod:`plackett.base.kernels`), so it is compiled
once for all objectives, later processes load it from the on-disk cache, and a call costs
nanoseconds per list.

With ``samples`` above zero the driver perturbs the scores of each list that many times and averages
(:mod:`plackett.objectives.stochastic` has the mathematics). Buffers and prepared numbers serve all
samples of a list.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float64, int64, prange, uint64, void

from plackett.base.kernels import (
    FLOATS,
    LABELS,
    compiled,
    function_maker,
    parallel_function,
    readonly,
)
from plackett.base.random import inner_key, noise_state, perturb

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

List functions are not called for lists with one document or one label level.
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
        z -= top + np.log(np.sum(np.exp(z - top)))


@compiled
def _average(  # type: ignore[no-untyped-def]
    function,
    scores,
    labels,
    prepared,
    key,
    params,
    uniform,
    samples,
    beta,
    normalize,
    gradient,
    curvature,
):
    n = len(scores)
    z, g, h = np.empty(n), np.empty(n), np.empty(n)
    value = 0.0
    for sample in range(samples):
        _perturb(scores, key, sample, uniform, beta, normalize, z)
        g[:] = 0.0
        h[:] = 0.0
        value += function(z, labels, prepared, inner_key(key, sample), params, g, h)
        total = np.sum(g) if normalize else 0.0
        for i in range(n):
            share = np.exp(z[i]) if normalize else 0.0
            gradient[i] += (g[i] - share * total) / samples
            # The Hessian's diagonal through the normalization needs all of the inner Hessian; its
            # diagonal, scaled as the document's own score enters, serves trees.
            curvature[i] += h[i] * (1.0 - share) ** 2 / samples
    return value / samples


@compiled
def _one_level(labels):  # type: ignore[no-untyped-def]
    same = 1  # in most lists one of the first few labels differs
    while same < len(labels) and labels[same] == labels[0]:
        same += 1
    return same >= len(labels)


@parallel_function(
    void,
    int64,  # address of the list function's C wrapper
    int64,  # and of its machine code
    FLOATS,  # scores
    LABELS,
    readonly(int64),  # offsets
    FLOATS,  # prepared numbers
    readonly(int64),  # its offsets
    readonly(uint64),  # keys
    FLOATS,  # params
    readonly(float64, 2),  # explicit uniform draws, samples x documents; or no rows
    int64,  # samples; 0: no noise
    float64,  # beta
    boolean,  # normalize
    float64[::1],  # values
    float64[::1],  # gradient
    float64[::1],  # curvature
)
def each_list(  # type: ignore[no-untyped-def]
    wrapper,
    machine_code,
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
    values,
    gradient,
    curvature,
):
    """Call a list function for each list; fills all outputs."""
    function = _function_at(wrapper, machine_code)
    for q in prange(len(offsets) - 1):
        low, high = offsets[q], offsets[q + 1]
        s, y, g, h = scores[low:high], labels[low:high], gradient[low:high], curvature[low:high]
        numbers = prepared[prepared_offsets[q] : prepared_offsets[q + 1]]
        values[q] = 0.0
        g[:] = 0.0
        h[:] = 0.0
        if _one_level(y):
            continue
        if samples == 0:
            values[q] = function(s, y, numbers, keys[q], params, g, h)
        else:
            draws = uniform[:, low:high]
            values[q] = _average(
                function, s, y, numbers, keys[q], params, draws, samples, beta, normalize, g, h
            )
