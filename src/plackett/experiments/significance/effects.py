r"""Size of a difference, beside its certainty: with enough lists, any difference is significant."""

from __future__ import annotations

import numpy as np

from plackett.base.ragged import Values


def cohens_d(differences: Values) -> float:
    r"""Cohen's d of paired differences: :math:`\bar d / s`, 0 where all of them are equal.

    By custom .2 is called small, .5 medium and .8 large (Cohen 1988).

    >>> round(cohens_d(np.array([1.0, 2.0, 3.0])), 3)
    2.0
    """
    spread = float(np.std(differences, ddof=1)) if len(differences) > 1 else 0.0
    return float(np.mean(differences)) / spread if spread > 0.0 else 0.0
