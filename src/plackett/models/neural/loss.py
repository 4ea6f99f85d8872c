"""What a net is trained for: an objective over lists, the same down the levels, or residuals."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.models.neural.autograd import listwise_values
from plackett.models.neural.batches import Batch, Levels
from plackett.models.neural.scorers import LevelScorer
from plackett.objectives import Objective


class Task(Protocol):
    """A loss of a net on a batch of lists."""

    def total(self, net: nn.Module, features: Tensor, batch: Batch, step: int) -> Tensor:
        """The sum of the losses of the lists."""


class ListTask:
    """An objective of the scores of lists."""

    def __init__(self, objective: Objective, data: Dataset) -> None:
        self._lists = objective.bind(
            data.labels,
            data.offsets,
            data.keys,
            data.weights,
            document_weights=data.document_weights,
        )

    def total(self, net: nn.Module, features: Tensor, batch: Batch, step: int) -> Tensor:
        scores = net(features, batch.offsets)
        return listwise_values(scores, self._lists.take(batch.positions), step).sum()


class LevelTask:
    """An objective of the scores of each step down the levels of labels."""

    def __init__(self, objective: Objective, data: Dataset) -> None:
        self._levels = Levels(objective, data)

    def total(self, net: nn.Module, features: Tensor, batch: Batch, step: int) -> Tensor:
        assert isinstance(net, LevelScorer)
        levels = list(self._levels.of(batch, features.device))
        scores = net.descend(features, levels)
        found = [
            listwise_values(each, level.lists, step)
            for each, level in zip(scores, levels, strict=True)
        ]
        return torch.cat(found).sum()


class ResidualTask:
    """Squared distance from targets, the mean over the documents of each list."""

    def __init__(self, targets: Scores, data: Dataset, device: torch.device) -> None:
        sizes = np.diff(data.offsets)
        weights = np.ones(data.n_lists) if data.weights is None else data.weights
        shares = np.repeat(weights / np.maximum(sizes, 1), sizes)
        self._targets = torch.from_numpy(targets.astype(np.float32)).to(device)
        self._shares = torch.from_numpy(shares.astype(np.float32)).to(device)

    def total(self, net: nn.Module, features: Tensor, batch: Batch, step: int) -> Tensor:  # noqa: ARG002 - nothing is drawn
        documents = batch.documents
        where = documents if isinstance(documents, slice) else torch.from_numpy(documents)
        distance = net(features, batch.offsets) - self._targets[where]
        return (distance.square() * self._shares[where]).sum()
