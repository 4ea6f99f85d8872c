"""Scores of fitted nets, and their mean gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from plackett.base.ragged import Scores
from plackett.data import Dataset
from plackett.models.insight import deviations
from plackett.models.neural.batches import FeatureRows, scoring_batches
from plackett.models.neural.loss import to_float64
from plackett.models.neural.user_module import ModuleScorer
from plackett.models.ranker import SCORING_BLOCK

_SAMPLED_DOCUMENTS = 4096


def score_net(net: nn.Module, data: Dataset, device: torch.device) -> Scores:
    """Score all documents; the net keeps its training or evaluation mode."""
    features = FeatureRows(data.features, device)
    scores = np.empty(data.n_docs)
    training = net.training
    if training:  # visiting every module takes longer than scoring a short list
        net.eval()
    # A user's module may store tensors that it needs again in training.
    with torch.no_grad() if isinstance(net, ModuleScorer) else torch.inference_mode():
        for batch in scoring_batches(data.offsets, SCORING_BLOCK):
            scores[batch.documents] = to_float64(net(features[batch.documents], batch.offsets))
    if training:
        net.train()
    return scores


def score_nets(nets: Sequence[nn.Module], data: Dataset, device: torch.device, *, scale: float) -> Scores:
    """Add the first net's scores and ``scale`` times those of the others."""
    total = np.zeros(data.n_docs)
    for learner, net in enumerate(nets):
        total += score_net(net, data, device) * (scale if learner else 1.0)
    return total


def mean_gradients(
    nets: Sequence[nn.Module], data: Dataset, device: torch.device, *, scale: float
) -> list[float] | None:
    """Mean absolute derivative of scores by each feature, times its deviation; None if a module has none."""
    total, n_docs = np.zeros(data.n_features), 0
    for batch in scoring_batches(data.offsets, _SAMPLED_DOCUMENTS):
        rows = FeatureRows(data.features, device)[batch.documents].clone().requires_grad_()
        try:
            with torch.enable_grad():
                scores = [net.eval()(rows, batch.offsets) for net in nets]
                value = sum(s.sum() * (scale if learner else 1.0) for learner, s in enumerate(scores))
                (gradient,) = torch.autograd.grad(value, rows)
        except (RuntimeError, TypeError):
            return None
        total += gradient.abs().sum(dim=0).cpu().double().numpy()
        n_docs += len(rows)
        if n_docs >= _SAMPLED_DOCUMENTS:
            break
    result = total / n_docs * deviations(data.features)
    return list(map(float, result)) if np.isfinite(result).all() else None
