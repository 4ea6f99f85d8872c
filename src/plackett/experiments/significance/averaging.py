r"""One number for several data sets."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from plackett.base.errors import DataError
from plackett.base.ragged import Values


def micro_average(values: Mapping[str, Values]) -> float:
    r"""Mean over the lists of all data sets, so that large sets count for more.

    .. math:: \frac{\sum_d |Q_d|\, \bar v_d}{\sum_d |Q_d|}

    with :math:`|Q_d|` the lists of data set d that count (Dubey et al. 2009).

    Parameters
    ----------
    values
        For each data set, one value per list, NaN where the metric drops the list.

    Examples
    --------
    >>> micro_average({"small": np.array([1.0]), "large": np.array([0.0, 0.5, np.nan, 0.5])})
    0.5
    """
    pooled = np.concatenate([np.empty(0), *values.values()])
    counted = pooled[~np.isnan(pooled)]
    if len(counted) == 0:
        raise DataError("no list of any data set counts; there is nothing to average.")
    return float(counted.mean())
