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

data = pk.synthetic("letor", n_lists=30, seed=1)
scores = np.random.default_rng(0).normal(size=data.n_docs)
for objective in (LambdaRank(), pk.Stochastic(LambdaRank(), samples=2), XENDCG()):
    lists = data.labels, data.offsets, data.keys
    bound = objective.bind(*lists)
    exact = bound.newton(scores, 3)
    arrays = [*bound.float32_gradient(scores, 3), exact.gradient, exact.curvature]
    print(*(hashlib.sha256(array.tobytes()).hexdigest()[:16] for array in arrays))
ranker = pk.LinearRanker(objective="listnet").fit(data)
print(hashlib.sha256(ranker.predict(data).tobytes()).hexdigest()[:16])
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
    assert compiling.count("\n") == 4
    assert compiling == loading
