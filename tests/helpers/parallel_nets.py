"""Processes that train nets together, without Ray.

``python parallel_nets.py RANK SIZE PORT FOLDER CASE...`` trains the nets of these cases and writes
what this process ends with to ``FOLDER/CASE-RANK.npz``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import plackett as pk
from plackett.distributed.training_job import Partition, split_lists
from plackett.models.fit_context import FitContext, no_progress, no_watch, parse_metrics
from plackett.models.neural.batches import BatchPlan, learnable
from plackett.models.neural.boosted import BoostedTraining

# Batches of 3 lists: in some of them, one of the workers has none.
SETTINGS = {"layers": (8,), "epochs": 3, "batch_lists": 3, "seed": 2, "threads": 1, "clip": 1.0}
# Of a weight without effect, such as a constant added to all scores, the gradient is a rounding
# error. Adam makes steps of full length from it; Adagrad, as in Bruch et al. (2020), none.
STEADY = SETTINGS | {"optimizer": "adagrad", "learning_rate": 0.02}


@dataclass
class Group:
    """Stands for the workers of a cluster."""

    rank: int
    size: int
    timeout_seconds: float = 60.0


class Own(nn.Module):
    """A module of a user, with a batch normalisation that is used twice and one over places."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(n_features, 8), nn.BatchNorm1d(8, momentum=None)
        self.again, self.places = nn.Linear(8, 8), nn.BatchNorm1d(2, affine=False)
        self.last = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.norm(self.first(x)))
        x = torch.tanh(self.norm(self.again(x)))
        return self.last(self.places(x.reshape(-1, 2, 4)).flatten(1)).reshape(-1)


def net(case: str) -> Any:
    noisy = pk.Stochastic(pk.objective("lambdaloss"), samples=4, seed=1)
    makers = {
        "plain": lambda: pk.NeuralRanker(objective=noisy, **SETTINGS),
        "norm": lambda: pk.NeuralRanker(objective="approxndcg", batch_norm=0.8, **STEADY),
        "sum": lambda: pk.NeuralRanker(
            objective="xendcg", batch_norm=0.9, reduction="sum", weight_decay=0.01, **STEADY
        ),
        "attention": lambda: pk.NeuralRanker(attention=2, heads=2, **STEADY),
        "adam-norm": lambda: pk.NeuralRanker(batch_norm=0.8, **SETTINGS),
        "attention-norm": lambda: pk.NeuralRanker(attention=1, batch_norm=0.8, activation="elu", **STEADY),
        "gru": lambda: pk.NeuralRanker(recurrent="gru", **STEADY),
        "lstm-norm": lambda: pk.NeuralRanker(recurrent="lstm", batch_norm=0.8, **STEADY),
        "boosted": lambda: pk.BoostedNeuralRanker(learners=3, **STEADY),
        "boosted-norm": lambda: pk.BoostedNeuralRanker(learners=2, recurrent="rnn", batch_norm=0.8, **STEADY),
        "group-norm": lambda: pk.NeuralRanker(group_size=2, batch_norm=0.8, **STEADY),
        "dropout-norm": lambda: pk.NeuralRanker(dropout=0.3, batch_norm=0.8, **STEADY),
        "module": lambda: pk.NeuralRanker(module=Own, **STEADY),
    }
    return makers[case]()


def lists() -> pk.Dataset:
    """Lists with weights, and documents with weights."""
    data = pk.synthetic("letor", n_lists=40, seed=1).canonical()
    rng = np.random.default_rng(0)
    return pk.Dataset.from_arrays(
        data.features,
        data.labels,
        np.repeat(np.arange(data.n_lists), np.diff(data.offsets)),
        weights=rng.uniform(0.1, 3.0, data.n_lists),
        document_weights=rng.uniform(0.5, 2.0, data.n_docs),
    ).canonical()


def train(case: str, rank: int, size: int, folder: Path) -> None:
    ranker = net(case)
    data, _ = ranker._prepare_fit(lists(), None)
    start, stop = split_lists(data.offsets, size)[rank]
    partition = Partition(data.keys, np.diff(data.offsets), start, stop)
    group: Any = Group(rank, size)
    plan = BatchPlan(partition, learnable(data.labels, data.offsets), group)
    context = FitContext(parse_metrics("ndcg@5"), None, no_progress, no_watch)
    cpu = torch.device("cpu")
    trained = BoostedTraining(ranker, data.lists(start, stop), None, context, cpu, plan)
    trained.finish()
    weights = {
        f"{place}.{name}": value.numpy()
        for place, item in enumerate(trained.nets)
        for name, value in item.state_dict().items()
    }
    ranker.networks_ = trained.nets
    scores = ranker._predict(data)
    np.savez(folder / f"{case}-{rank}.npz", loss=trained.curves["train"]["loss"], scores=scores, **weights)


def main() -> None:
    rank, size, port, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    for case in sys.argv[5:]:
        train(case, rank, size, folder)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
