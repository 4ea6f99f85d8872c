"""Nets trained by one process, or by several workers, each with its own lists.

Workers take the same batches as one process would, each its own lists of them.
PyTorch's DistributedDataParallel adds the gradients up, weighted so that a step goes down the mean
(or sum) over the lists of the whole batch: every worker has the same weights after it, and they
are those of one process but for the order of sums. Batch normalisation is over the batch of all
workers. Where a net draws random numbers (dropout, groups), each worker draws its own, and the
result is another net of the same kind.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from plackett.base.errors import UsageError
from plackett.base.ragged import Rows
from plackett.data.dataset import Dataset
from plackett.distributed import Partition, TrainingJob, WorkerGroup
from plackett.metrics import Metric
from plackett.models.checkpoint import RemoteCheckpoint, checkpoint_saver, latest_state
from plackett.models.neural.batch_plan import BatchPlan, check_norms
from plackett.models.neural.batches import learnable
from plackett.models.neural.boosted_training import BoostedTraining
from plackett.models.neural.scorers import build
from plackett.models.neural.training import as_device, copied, threads
from plackett.models.ranker import FitContext, no_watch

if TYPE_CHECKING:
    from plackett.models.neural.ranker import Net


Curves = dict[str, dict[str, list[float]]]


@dataclass(frozen=True)
class Trained:
    """What a fit ends with."""

    nets: list[nn.Module]
    curves: Curves
    epochs: list[int]


@dataclass(frozen=True)
class Lesson:
    """What the workers are told."""

    net: Net
    metrics: tuple[Metric, ...]
    positions: Rows
    """Of the lists with two levels of labels, among all."""
    seconds: float
    """Between two states."""
    watched: bool
    threads: int


def trained(
    given: Net,
    train: Dataset,
    validation: Dataset | None,
    run: FitContext,
    device: torch.device,
    share: BatchPlan,
) -> Trained:
    """Train in this process."""
    rate = given._shrinkage
    stages = BoostedTraining(given, train, validation, run, device, given._learners, rate, share)
    stages.grow()
    return Trained(stages.nets, stages.curves, stages.epochs)


def trained_together(
    given: Net, train: Dataset, validation: Dataset | None, run: FitContext
) -> Trained:
    """Train by the workers of a cluster."""
    assert run.cluster is not None
    _check(given, train.n_features)
    parts = {"train": train} if validation is None else {"train": train, "validation": validation}
    sent = given.clone()
    sent.n_features_, sent.feature_names_ = given.n_features_, given.feature_names_
    watched = run.watch is not no_watch
    positions = learnable(train.labels, train.offsets)
    seconds, cores = RemoteCheckpoint.seconds, run.cluster.threads
    lesson = Lesson(sent, run.metrics, positions, seconds, watched, cores)
    job = TrainingJob(
        train_as_worker, lesson, parts, run.cluster, "torch", latest_state(run.checkpoint)
    )
    weights, curves, epochs = job.run(
        save_state=checkpoint_saver(run.checkpoint),
        progress=run.progress,
        watch=run.watch if watched else None,
    )
    device = as_device(given.device)
    return Trained([_net(given, w, i, device) for i, w in enumerate(weights)], curves, epochs)


def train_as_worker(
    worker_group: WorkerGroup, parts: dict[str, Dataset], partition: Partition, lesson: Lesson
) -> tuple[list[dict[str, Any]], Curves, list[int]]:
    """What each worker does; all end with the same weights."""
    given = lesson.net
    share = BatchPlan(partition, lesson.positions, worker_group)
    watch = worker_group.report_metric if lesson.watched else no_watch
    with tempfile.TemporaryDirectory() as folder, threads(lesson.threads):
        kept = RemoteCheckpoint(Path(folder), worker_group, lesson.seconds)
        run = FitContext(
            lesson.metrics, kept, worker_group.report_progress, watch, worker_group=worker_group
        )
        cpu = torch.device("cpu")
        found = trained(given, parts["train"], parts.get("validation"), run, cpu, share)
    weights = [{name: v.numpy() for name, v in copied(net).items()} for net in found.nets]
    return weights, found.curves, found.epochs


def _net(given: Net, weights: dict[str, Any], learner: int, device: torch.device) -> nn.Module:
    assert given.n_features_ is not None
    net = build(given, given.n_features_, learner=learner)
    net.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in weights.items()})
    return net.requires_grad_(False).to(device).eval()


def _check(given: Net, n_features: int) -> None:
    if given.device not in ("auto", "cpu"):
        raise UsageError(
            f"workers train nets on processors; device={given.device!r} needs a fit without "
            "cluster=."
        )
    check_norms(build(given, n_features))
