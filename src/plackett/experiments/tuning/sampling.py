"""Suggestions that are values: the same seed, trial and history give the same, in any process.

Optuna's sampler draws from a generator that lives as long as its process, so a search that was
interrupted goes on with other numbers. Here each suggestion has a generator of its own, seeded by
the seed, the number of the trial and the name of the parameter.
"""

from __future__ import annotations

import hashlib
from typing import Any

from optuna.samplers import BaseSampler, TPESampler

STARTUP = 10
"""Trials at random before the sampler (tree-structured Parzen estimators) learns from them."""


class KeyedSampler(BaseSampler):  # type: ignore[misc] # Optuna is an extra
    """Bergstra et al. (2011) as in Optuna, with randomness keyed by trial and parameter."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def infer_relative_search_space(self, study: Any, trial: Any) -> Any:
        return self._keyed(trial).infer_relative_search_space(study, trial)

    def sample_relative(self, study: Any, trial: Any, search_space: Any) -> Any:
        return self._keyed(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Any, trial: Any, param_name: str, param_distribution: Any
    ) -> Any:
        own = self._keyed(trial, param_name)
        return own.sample_independent(study, trial, param_name, param_distribution)

    def _keyed(self, trial: Any, name: str = "") -> Any:
        key = f"{self._seed}/{trial.number}/{name}".encode()
        seed = int.from_bytes(hashlib.sha256(key).digest()[:4], "big")
        return TPESampler(
            seed=seed,
            n_startup_trials=STARTUP,
            multivariate=True,
        )
