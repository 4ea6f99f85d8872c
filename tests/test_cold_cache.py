"""The process that compiles the kernels and those that load them compute the same bits."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import hashlib
import numpy as np
import plackett as pk
from plackett.objectives import LambdaRank, XENDCG

rng = np.random.default_rng(0)
offsets = np.arange(0, 601, 20)
scores, labels = rng.normal(size=600), rng.integers(0, 3, 600).astype(np.float32)
for objective in (LambdaRank(), pk.Stochastic(LambdaRank(), samples=2), XENDCG()):
    bound = objective.bind(labels, offsets)
    exact = bound.newton(scores, 3)
    arrays = [*bound.float32_gradient(scores, 3), exact.gradient, exact.curvature]
    print(*(hashlib.sha256(array.tobytes()).hexdigest()[:16] for array in arrays))
"""


def test_kernels_out_of_the_cache_give_the_bits_of_those_just_compiled(tmp_path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    environment.pop("NUMBA_BOUNDSCHECK", None)
    compiling, loading = (
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, check=True, capture_output=True, text=True, timeout=300
        ).stdout
        for _ in range(2)
    )
    assert compiling.count("\n") == 3
    assert compiling == loading
