"""Nets trained by several workers that each hold a part of the lists.

Workers use the same batches as a single process. PyTorch's DistributedDataParallel adds up the gradients, so that
weights differ from those of a single process only by the order of sums. Where a net draws random numbers (dropout,
groups), each worker draws its own.
"""

from typing import Any

import torch
from torch import nn

from plackett.base.errors import UsageError
from plackett.data.dataset import Dataset
from plackett.distributed import Partition, WorkerGroup
from plackett.models.fit_context import Curves, FitContext
from plackett.models.neural.batch_norm import check_batch_norm
from plackett.models.neural.batches import BatchPlan, find_trained_lists
from plackett.models.neural.boosted import BoostedTraining, load_net
from plackett.models.neural.environment import limit_threads, resolve_device
from plackett.models.neural.ranker import BaseNeuralRanker
from plackett.models.neural.scorers import build_net
from plackett.models.neural.training import copy_weights
from plackett.models.workers import WorkerSpec, run_on_workers


def train_on_cluster(
    ranker: BaseNeuralRanker, train: Dataset, validation: Dataset | None, context: FitContext
) -> tuple[list[nn.Module], Curves, list[int]]:
    """Train with the workers of a cluster; return nets, curves and epochs."""
    if ranker.device not in ("auto", "cpu"):
        raise UsageError(
            f"workers of a cluster train nets on CPUs; fit without cluster= to use device={ranker.device!r}."
        )
    check_batch_norm(build_net(ranker, train.n_features))
    parts = {"train": train} if validation is None else {"train": train, "validation": validation}
    positions = find_trained_lists(ranker, train)
    weights, curves, epochs = run_on_workers(train_as_worker, "torch", ranker, parts, context, positions)
    device = resolve_device(ranker.device)
    nets = [
        load_net(ranker, {k: torch.from_numpy(v.copy()) for k, v in arrays.items()}, i, device)
        for i, arrays in enumerate(weights)
    ]
    return nets, curves, epochs


def train_as_worker(
    worker_group: WorkerGroup, parts: dict[str, Dataset], partition: Partition, spec: WorkerSpec
) -> tuple[list[dict[str, Any]], Curves, list[int]]:
    """Train as one of the workers; all of them return the same weights."""
    plan = BatchPlan(partition, spec.content, worker_group)
    with spec.context(worker_group) as context, limit_threads(spec.threads):
        validation, cpu = parts.get("validation"), torch.device("cpu")
        training = BoostedTraining(spec.ranker, parts["train"], validation, context, cpu, plan)
        training.finish()
    weights = [{name: v.numpy() for name, v in copy_weights(net).items()} for net in training.nets]
    return weights, training.curves, training.epochs
