"""Random lists for hypothesis: ties in scores and labels, graded and real-valued labels."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st


@st.composite
def one_list(draw, longest=8, distinct=False):
    """Scores and labels of one list with at least two documents and two label levels."""
    n = draw(st.integers(2, longest))
    label = st.sampled_from([0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 0.5])
    labels = draw(st.lists(label, min_size=n, max_size=n).filter(lambda y: len(set(y)) > 1))
    steps = draw(st.lists(st.integers(-8, 8), min_size=n, max_size=n, unique=distinct))
    scale = draw(st.sampled_from([0.25, 0.7, 0.03]))
    return scale * np.array(steps, dtype=np.float64), np.array(labels)
