"""Two processes that train a net together, without Ray.

``python parallel_nets.py RANK PORT FILE`` writes the weights of this process to a file.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import plackett as pk
from plackett.distributed.sharding import Outline, cut
from plackett.models.neural.batches import learnable
from plackett.models.neural.shares import Share
from plackett.models.neural.spreading import trained
from plackett.models.run import Run, as_metrics, silent, unwatched


@dataclass
class Pair:
    """Stands for the workers of a cluster."""

    rank: int
    size: int = 2


def lists() -> pk.Dataset:
    return pk.synthetic("letor", n_lists=40, seed=1)


def net() -> pk.NeuralRanker:
    # Batches of 3 lists: in some of them, one of the workers has none.
    objective = pk.Stochastic(pk.objective("lambdaloss"), samples=4, seed=1)
    return pk.NeuralRanker(
        objective=objective, layers=(8,), epochs=5, batch_lists=3, seed=2, threads=1, clip=1.0
    )


def main() -> None:
    rank, port, file = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    ranker = net()
    data, _ = ranker._begin(lists(), None)
    start, stop = cut(data.offsets, 2)[rank]
    outline = Outline(data.keys, np.diff(data.offsets), start, stop)
    peers: Any = Pair(rank)
    share = Share(outline, learnable(data.labels, data.offsets), peers)
    run = Run(as_metrics("ndcg@5"), None, silent, unwatched)
    found = trained(ranker, data.lists(start, stop), None, run, torch.device("cpu"), share)
    weights = {name: value.numpy() for name, value in found.nets[0].state_dict().items()}
    np.savez(file, loss=found.curves["train"]["loss"], **weights)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
