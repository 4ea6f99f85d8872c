"""Two processes that grow trees by LightGBM's data-parallel learner, without Ray.

``python parallel_lightgbm.py RANK PORT PORT ...`` prints the models of this process as JSON: for
each objective one by one process with all lists (rank 0 only), and one by both together.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import lightgbm
import numpy as np

import plackett as pk
from plackett.distributed.training_job import split_lists
from plackett.models.trees.lightgbm_data import dataset_from_bins, find_bins

OBJECTIVES = ("lambdarank", "ours")
TREES = 10
SETTINGS = {
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "learning_rate": 0.1,
    "lambdarank_truncation_level": 10_000,
    "lambdarank_norm": False,
    "metric": "None",
    "verbosity": -1,
    "num_threads": 1,
    "deterministic": True,
    "force_col_wise": True,
}


def lists() -> tuple[pk.Dataset, pk.Dataset]:
    """Training and other lists."""
    train, other = pk.split(pk.synthetic("letor", n_lists=150, seed=1), (0.7, 0.3), seed=0)
    return train, other


def grown(data: pk.Dataset, objective: str, settings: dict[str, Any], reference: Any = None) -> str:
    """The text of a model."""
    labels, groups = data.labels, np.diff(data.offsets)
    actual = lightgbm.Dataset(data.features, labels, group=groups, reference=reference)
    return lightgbm.train(
        settings | {"objective": _ours(data) if objective == "ours" else objective}, actual, TREES
    ).model_to_string()


def _ours(data: pk.Dataset) -> Any:
    loss = pk.objective("lambdarank")
    derivatives = loss.bind(data.labels, data.offsets, data.keys, data.weights).float32_gradient
    return lambda scores, _: derivatives(scores, 0)


def main() -> None:
    rank, *ports = map(int, sys.argv[1:])
    whole, _ = lists()
    ours = whole.lists(*split_lists(whole.offsets, 2)[rank])
    models = {}
    for place, objective in enumerate(OBJECTIVES):
        if rank == 0:
            models[f"{objective} alone"] = grown(whole, objective, SETTINGS)
        pair = ports[2 * place : 2 * place + 2]
        network = {
            "tree_learner": "data",
            "pre_partition": True,
            "num_machines": 2,
            "machines": ",".join(f"127.0.0.1:{port}" for port in pair),
            "local_listen_port": pair[rank],
            "time_out": 1,
        }
        bins = dataset_from_bins(find_bins(whole, SETTINGS, []), SETTINGS, [])
        models[f"{objective} together"] = grown(ours, objective, SETTINGS | network, bins)
    sys.stderr.write(json.dumps(models))


if __name__ == "__main__":
    main()
