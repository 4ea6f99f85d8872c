"""Scores of whole data sets by fitted nets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from plackett.base.ragged import Scores
from plackett.data.dataset import Dataset
from plackett.models.neural.batches import FeatureRows, blocks
from plackett.models.neural.listwise import as_float64
from plackett.models.neural.own import OwnScorer
from plackett.models.ranker import SCORED_TOGETHER


def score(net: nn.Module, data: Dataset, device: torch.device) -> Scores:
    """Scores of all documents; the net is left in the mode it was in."""
    features = FeatureRows(data.features, device)
    out = np.empty(data.n_docs)
    training = net.training
    net.eval()
    # A module of the user's own may keep tensors that training needs again.
    with torch.no_grad() if isinstance(net, OwnScorer) else torch.inference_mode():
        for batch in blocks(data.offsets, SCORED_TOGETHER):
            found = net(features[batch.documents], batch.offsets)
            out[batch.documents] = as_float64(found)
    net.train(training)
    return out


def summed(
    nets: Sequence[nn.Module], data: Dataset, device: torch.device, *, shrinkage: float
) -> Scores:
    """The first net's scores plus the others', each times the shrinkage."""
    total = np.zeros(data.n_docs)
    for place, net in enumerate(nets):
        total += score(net, data, device) * (shrinkage if place else 1.0)
    return total
