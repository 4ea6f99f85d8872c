r"""Target distributions derived from labels, for the softmax family.

============================  ==================================================================
kind                          target :math:`\varphi_i` of label :math:`y_i`
============================  ==================================================================
``LABEL_SHARE``               :math:`y_i / \sum_j y_j`
``SOFTMAX``                   :math:`e^{y_i} / \sum_j e^{y_j}`
``PERTURBED_GAIN``            :math:`(2^{y_i} - \gamma_i) / \sum_j (2^{y_j} - \gamma_j)`, with
                              :math:`\gamma` uniform on (0, 1)
============================  ==================================================================

Powers are relative to the top label of the list, so that no label overflows; draws are then in
units of :math:`2^{-\max y}`.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from plackett.base.arithmetic import exp
from plackett.base.kernels import compiled, reordered
from plackett.base.random import combine, to_uniform

LABEL_SHARE, SOFTMAX, PERTURBED_GAIN = 0.0, 1.0, 2.0
_LOG_2 = np.log(2.0)


@reordered
def sum_values(values):  # type: ignore[no-untyped-def]
    """The sum, in any order."""
    result = 0.0
    for i in range(len(values)):
        result += values[i]
    return result


@compiled
def fill_shares(kind, labels, shares):  # type: ignore[no-untyped-def]
    """Fill targets before draws and normalization; returns the unit of the draws, or 0."""
    # One loop for each kind: loops without branches become vector code.
    top = np.float64(np.max(labels))
    if kind == LABEL_SHARE:
        for i in range(len(labels)):
            shares[i] = np.float64(labels[i]) / top
    elif kind == SOFTMAX:
        for i in range(len(labels)):
            shares[i] = exp(np.float64(labels[i]) - top)
    else:
        for i in range(len(labels)):
            shares[i] = exp(_LOG_2 * (np.float64(labels[i]) - top))
    return 2.0**-top if kind == PERTURBED_GAIN else 0.0


@compiled
def fill_targets(kind, labels, gammas, key, targets):  # type: ignore[no-untyped-def]
    """Fill the targets of one list; gammas: explicit draws, or none to draw from the key."""
    draw_unit = fill_shares(kind, labels, targets)
    if len(gammas):
        for i in range(len(labels)):
            targets[i] -= gammas[i] * draw_unit
    elif kind == PERTURBED_GAIN:
        for i in range(len(labels)):
            targets[i] -= to_uniform(combine(key, uint64(i))) * draw_unit
    targets /= sum_values(targets)
