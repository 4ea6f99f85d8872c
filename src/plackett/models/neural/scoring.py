"""Scores of fitted nets, and their mean gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from plackett.base.ragged import Scores
from plackett.data import Dataset
from plackett.models.insight import deviations
from plackett.models.neural.batches import FeatureRows, scoring_batches
from plackett.models.neural.loss import to_float64
from plackett.models.neural.ranker import BaseNeuralRanker
from plackett.models.neural.scorers import DocumentScorer
from plackett.models.neural.user_module import ModuleScorer
from plackett.models.ranker import SCORING_BLOCK

_SAMPLED_DOCUMENTS = 4096
_FEW_DOCUMENTS = 1024  # up to which nets are scored together


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


def score_together(rankers: Sequence[BaseNeuralRanker], data: Dataset) -> NDArray[np.float64] | None:
    """Scores of nets of one shape, a row each; None if they have to be scored one by one.

    For short lists, a product of stacked matrices takes a fifth of the time of a product for each net. Scores may
    differ from those of :func:`score_net` in the last bits of single precision.
    """
    if data.n_docs > _FEW_DOCUMENTS or not isinstance(data.features, np.ndarray):
        return None
    nets = [layers for ranker in rankers if (layers := _plain_layers(ranker)) is not None]
    kinds = {(tuple(ranker.layers), ranker.activation, tuple(ranker.transforms)) for ranker in rankers}
    if len(nets) < len(rankers) or len(kinds) > 1:
        return None
    canonical = data.canonical()
    with torch.inference_mode():
        x = torch.from_numpy(np.stack([np.asarray(ranker._prepare(canonical).features) for ranker in rankers]))
        for column in zip(*nets, strict=True):
            if isinstance(column[0], nn.Linear):
                biases = torch.stack([layer.bias for layer in column])[:, None]
                x = torch.baddbmm(biases, x, torch.stack([layer.weight for layer in column]).transpose(1, 2))
            else:
                x = column[0](x)
    scores = x[:, :, 0].double().numpy()
    return np.stack([data.order.restore(row) for row in scores])


def _plain_layers(ranker: BaseNeuralRanker) -> list[Any] | None:
    """The layers of a net that does nothing but multiply and apply an activation, on the CPU; else None."""
    net = ranker.networks_[0]
    if not isinstance(net, DocumentScorer) or len(ranker.networks_) > 1 or net.training:
        return None
    layers: list[Any] = [*net.net[0], net.net[1]]  # type: ignore[misc]
    is_plain = all(getattr(layer, "bias", True) is not None for layer in layers) and ranker.batch_norm is None
    return layers if is_plain and layers[-1].weight.device.type == "cpu" else None


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
