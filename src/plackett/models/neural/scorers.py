r"""The nets that score documents, and how they are built from parameters.

**Fully connected** (:class:`DocumentScorer`):

.. math:: x \to \text{BN} \to [W \to \text{BN} \to \phi \to \text{dropout}]^L \to w \to \text{score}

Batch normalization, where enabled, is on the input and between the layers, as in Bruch et al. (2020). Its momentum m
follows TensorFlow, :math:`\text{running} \leftarrow m \cdot \text{running} + (1 - m) \cdot \text{batch}`; PyTorch calls
:math:`1 - m` momentum. Two kinds of constants are removed by a later normalization and therefore not trained: the bias
of each W, and that of the normalization of the input. Adam would turn the rounding errors in their gradients into full
steps.

**Self-attention** within each list (:class:`AttentionScorer`). The blocks are those of the context-aware ranker of
Pobrotyn et al. (2020, allRank), which normalize before each part:

.. math:: x \leftarrow x + \text{attention}(\text{norm}(x)), \qquad
    x \leftarrow x + W_2\,\mathrm{relu}(W_1\,\text{norm}(x)).

There is no positional encoding, so permuting the documents of a list permutes their scores. With *inducing points*
(SetRank's IMSAB, Pang et al. 2020), m trained vectors attend to the documents of a list and the documents attend to the
result: time O(nm) instead of O(n²). With a *latent cross* (DASALC, Qin et al. 2021) the score is that of
:math:`(1 + a) \odot x`, with x the output of the layers and a that of the blocks.

**Local context** (:class:`ContextScorer`), the Deep Listwise Context Model of Ai et al. (2018). A GRU reads the outputs
:math:`x_i` of the layers from the last to the first document of the ranking by :math:`u \cdot x_i` (in the paper, by
another ranker); with its outputs :math:`o_i` and its last state s,

.. math:: f_i = u \cdot x_i + v \cdot \big(o_i \odot \tanh(W s + b)\big).

**Groupwise** (:class:`GroupScorer`). Each document of a list leads one group: itself and the m - 1 documents that
follow it in a circle, which is shuffled at each step of training (Ai et al. 2019, as in TF-Ranking). The net maps the
features of a group to m scores; a document's score is the mean over the m groups that contain it.

**Recurrent** (:class:`LevelScorer`), urBoost's net: a cell that steps through the levels of labels, highest first (Zhu
& Klabjan 2020). With :math:`\tilde x(d)` the output of the last layer and :math:`h_0 = 0`, step t is over the documents
at level t and below:

.. math:: \tilde h_t(d) = \tanh(h_{t-1} W + \tilde x(d) U + b), \qquad
    f_t(d) = [\tilde h_t(d), \tilde x(d)] \cdot w, \qquad
    h_t = \max_{d \in c_t} \tilde h_t(d)

with :math:`c_t` the documents of level t, known in training. Prediction uses the scores of the first step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import PackedSequence

from plackett.base.ragged import Offsets, Rows, Scores, list_of_document
from plackett.models.neural.environment import float32_default, initial_weights
from plackett.models.neural.ranker import BaseNeuralRanker
from plackett.models.neural.user_module import make_module_scorer

if TYPE_CHECKING:
    from plackett.models.neural.loss import Level

_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
}
_CELLS: dict[str, type[nn.RNNCell] | type[nn.LSTMCell] | type[nn.GRUCell]] = {
    "rnn": nn.RNNCell,
    "lstm": nn.LSTMCell,
    "gru": nn.GRUCell,
}


def build_net(ranker: BaseNeuralRanker, n_features: int, *, learner: int = 0) -> nn.Module:
    """Build a net whose initial weights depend on the seed and the number of the learner."""
    with initial_weights(ranker.seed, learner):
        return make_net(ranker, n_features, learner=learner)


def make_net(ranker: BaseNeuralRanker, n_features: int, *, learner: int = 0) -> nn.Module:
    """Make a net with the weights that PyTorch draws; only the first one is recurrent."""
    if ranker.module is not None:
        return make_module_scorer(ranker.module, n_features)
    with float32_default():
        if ranker.recurrent is not None and learner == 0:
            return LevelScorer(ranker, n_features)
        if ranker.attention:
            return AttentionScorer(ranker, n_features)
        if ranker.local_context:
            return ContextScorer(ranker, n_features)
        if ranker.group_size > 1:
            return GroupScorer(ranker, n_features)
        return DocumentScorer(ranker, n_features)


class DocumentScorer(nn.Module):
    """A net that scores each document independently."""

    def __init__(self, ranker: BaseNeuralRanker, n_features: int) -> None:
        super().__init__()
        hidden, width = _hidden_layers(ranker, n_features)
        self.net = nn.Sequential(hidden, nn.Linear(width, 1))

    def forward(self, features: Tensor, offsets: Offsets) -> Tensor:  # noqa: ARG002 - for scorers of lists
        scores: Tensor = self.net(features)
        return scores.reshape(-1)


class AttentionScorer(nn.Module):
    """Hidden layers for each document, then self-attention blocks within each list."""

    def __init__(self, ranker: BaseNeuralRanker, n_features: int) -> None:
        super().__init__()
        self.body, width = _hidden_layers(ranker, n_features)
        self.latent_cross = ranker.latent_cross
        block = _InducedBlock if ranker.inducing else _Block
        self.blocks = nn.ModuleList([block(ranker, width) for _ in range(ranker.attention)])
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, features: Tensor, offsets: Offsets) -> Tensor:
        x = outputs = self.body(features)
        groups = [rows.to(features.device) for rows in _group_by_length(offsets)]
        for block in self.blocks if groups else ():  # a worker may have no list of a batch
            x = block(x, groups)
        scores: Tensor = self.last((1.0 + x) * outputs if self.latent_cross else x)
        return scores.reshape(-1)


def _inside(width: int, dropout: float) -> nn.Sequential:
    wide = 2 * width
    return nn.Sequential(nn.Linear(width, wide), nn.ReLU(), nn.Dropout(dropout), nn.Linear(wide, width))


def _attend(parts: Sequence[Tensor], heads: int, dropout: float) -> Tensor:
    """Attention with several heads to query, key and value, each lists x items x width."""
    query, key, value = (part.reshape(*part.shape[:2], heads, -1).transpose(1, 2) for part in parts)
    return scaled_dot_product_attention(query, key, value, dropout_p=dropout).transpose(1, 2).flatten(2)


class _Block(nn.Module):
    """One block of self-attention; the names of its layers are part of saved files."""

    def __init__(self, ranker: BaseNeuralRanker, width: int) -> None:
        super().__init__()
        self.heads, self.dropout = ranker.heads, ranker.dropout
        self.norm, self.inside_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inside = _inside(width, ranker.dropout)

    def forward(self, x: Tensor, groups: list[Tensor]) -> Tensor:
        mixed, dropout = self.mixed(self.norm(x)), self.dropout if self.training else 0.0
        attended = [_attend(mixed[rows].chunk(3, dim=2), self.heads, dropout) for rows in groups]
        x = x + self.out(_ungroup(attended, groups))
        inside: Tensor = self.inside(self.inside_norm(x))
        return x + inside


class _InducedBlock(nn.Module):
    """Attention through inducing points; the names of its layers are part of saved files."""

    def __init__(self, ranker: BaseNeuralRanker, width: int) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.empty(ranker.inducing, width))
        nn.init.xavier_uniform_(self.points)
        self.collect, self.spread = (_CrossAttention(ranker, width) for _ in range(2))

    def forward(self, x: Tensor, groups: list[Tensor]) -> Tensor:
        results = []
        for rows in groups:
            documents = x[rows]
            points = self.points.expand(len(rows), *self.points.shape)
            results.append(self.spread(documents, self.collect(points, documents)))
        return _ungroup(results, groups)


class _CrossAttention(nn.Module):
    """One set attends to another: both lists x items x width; the result is like the first."""

    def __init__(self, ranker: BaseNeuralRanker, width: int) -> None:
        super().__init__()
        self.heads, self.dropout = ranker.heads, ranker.dropout
        self.norm, self.other_norm, self.inside_norm = (nn.LayerNorm(width) for _ in range(3))
        self.query, self.pair, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.inside = _inside(width, ranker.dropout)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        parts = (self.query(self.norm(x)), *self.pair(self.other_norm(other)).chunk(2, dim=2))
        x = x + self.out(_attend(parts, self.heads, self.dropout if self.training else 0.0))
        inside: Tensor = self.inside(self.inside_norm(x))
        return x + inside


class ContextScorer(nn.Module):
    """Hidden layers for each document and a GRU that reads the ranked list."""

    def __init__(self, ranker: BaseNeuralRanker, n_features: int) -> None:
        super().__init__()
        self.body, width = _hidden_layers(ranker, n_features)
        self.first, self.gru = nn.Linear(width, 1), nn.GRU(width, width)
        self.context, self.last = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, features: Tensor, offsets: Offsets) -> Tensor:
        x = self.body(features)
        scores: Tensor = self.first(x).reshape(-1)
        if len(offsets) < 2:  # a worker may have no list of a batch
            return scores
        rows, lists, batch_sizes = _reading_order(scores.detach().cpu().double().numpy(), offsets)
        places = torch.from_numpy(rows).to(x.device)
        outputs, state = self.gru(PackedSequence(x[places], torch.from_numpy(batch_sizes)))
        context = torch.tanh(self.context(state[0]))[torch.from_numpy(lists).to(x.device)]
        return scores.index_add(0, places, self.last(outputs.data * context).reshape(-1))


def _reading_order(scores: Scores, offsets: Offsets) -> tuple[Rows, Rows, Rows]:
    """The documents as a packed sequence: the first one of each list, then the second one of each, and so on.

    Each list is read from its lowest to its highest score, since the state remembers best what it read last. Returns
    the documents, the position of each document's list when lists are sorted by descending length, and the number of
    lists that have a document at each step.
    """
    list_of, sizes = list_of_document(offsets), np.diff(offsets)
    rows = np.lexsort((scores, list_of))
    step = np.arange(len(rows)) - offsets[:-1][list_of]
    place = np.empty(len(sizes), np.int64)
    place[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    packed = np.lexsort((place[list_of], step))
    return rows[packed], place[list_of][packed], np.bincount(step)


def _ungroup(results: list[Tensor], groups: list[Tensor]) -> Tensor:
    """One row per document, in the order of documents, from results of lists x documents x width."""
    grouped = torch.cat([rows.reshape(-1) for rows in groups])
    places = torch.empty_like(grouped)
    places[grouped] = torch.arange(len(grouped), device=grouped.device)
    return torch.cat([result.flatten(0, 1) for result in results])[places]


def _group_by_length(offsets: Offsets) -> list[Tensor]:
    """For each length of lists, the documents of these lists, lists x documents."""
    sizes = np.diff(offsets)
    return [
        torch.from_numpy(offsets[:-1][sizes == size][:, None] + np.arange(size)) for size in np.unique(sizes) if size
    ]


class GroupScorer(nn.Module):
    """A net that scores groups of documents together."""

    def __init__(self, ranker: BaseNeuralRanker, n_features: int) -> None:
        super().__init__()
        self.size = ranker.group_size
        hidden, width = _hidden_layers(ranker, n_features * self.size)
        self.net = nn.Sequential(hidden, nn.Linear(width, self.size))

    def forward(self, features: Tensor, offsets: Offsets) -> Tensor:
        members = self._members(offsets).to(features.device)
        scores: Tensor = self.net(features[members].flatten(1))
        total = scores.new_zeros(len(features))
        return total.index_add(0, members.reshape(-1), scores.reshape(-1)) / self.size

    def _members(self, offsets: Offsets) -> Tensor:
        """The documents of each group, one row per group."""
        sizes, starts = np.diff(offsets), offsets[:-1]
        list_of = list_of_document(offsets)
        place = np.arange(offsets[-1]) - starts[list_of]
        circle = (place[:, None] + np.arange(self.size)) % sizes[list_of][:, None]
        members = torch.from_numpy(circle + starts[list_of][:, None])
        if not self.training:
            return members
        uniform = torch.rand(len(list_of), dtype=torch.float64, device="cpu")
        shuffled_within_lists = (torch.from_numpy(list_of) + uniform).argsort()
        return shuffled_within_lists[members]


class LevelScorer(nn.Module):
    """Hidden layers for each document and a recurrent cell for the levels of labels."""

    def __init__(self, ranker: BaseNeuralRanker, n_features: int) -> None:
        super().__init__()
        assert ranker.recurrent is not None
        self.body, width = _hidden_layers(ranker, n_features)
        self.width, self.pooling = width, ranker.pooling
        self.both, self.is_lstm = ranker.score_from == "both", ranker.recurrent == "lstm"
        self.cell = _CELLS[ranker.recurrent](width, width)
        self.last = nn.Linear(2 * width if self.both else width, 1)

    def forward(self, features: Tensor, offsets: Offsets) -> Tensor:  # noqa: ARG002 - for scorers of lists
        """Scores of the first step."""
        x = self.body(features)
        return self._score(x, self._step(x, None))

    def score_levels(self, features: Tensor, levels: Sequence[Level]) -> list[Tensor]:
        """Scores of each step through the levels."""
        x = self.body(features)
        pooled: Tensor | None = None
        scores = []
        for level in levels:
            if pooled is not None:
                pooled = pooled[level.previous]
            outputs = x[level.documents]
            state = self._step(outputs, pooled)
            scores.append(self._score(outputs, state))
            pooled = torch.segment_reduce(state[level.of_level], self.pooling, lengths=level.sizes, axis=0)
        return scores

    def _step(self, x: Tensor, previous: Tensor | None) -> Tensor:
        """States of documents after a step from the previous state of their lists."""
        if not self.is_lstm:
            state: Tensor = self.cell(x, previous)
            return state
        pair = None if previous is None else previous.chunk(2, dim=1)
        return torch.cat(self.cell(x, pair), dim=1)

    def _score(self, x: Tensor, state: Tensor) -> Tensor:
        hidden = state[:, : self.width]
        scores: Tensor = self.last(torch.cat([hidden, x], dim=1) if self.both else hidden)
        return scores.reshape(-1)


def _hidden_layers(ranker: BaseNeuralRanker, n_inputs: int) -> tuple[nn.Sequential, int]:
    """The layers before the last one, and the width of their output."""
    parts: list[nn.Module] = []
    if ranker.batch_norm is not None:
        norm = nn.BatchNorm1d(n_inputs, ranker.batch_norm_epsilon, momentum=1.0 - ranker.batch_norm)
        norm.bias.requires_grad_(not ranker.layers)
        parts.append(norm)
    width = n_inputs
    for layer in ranker.layers:
        linear = nn.Linear(width, layer)
        parts.append(linear)
        if ranker.batch_norm is not None:
            linear.bias.requires_grad_(False)
            parts.append(nn.BatchNorm1d(layer, ranker.batch_norm_epsilon, momentum=1.0 - ranker.batch_norm))
        parts.append(_ACTIVATIONS[ranker.activation]())
        if ranker.dropout:
            parts.append(nn.Dropout(ranker.dropout))
        width = layer
    return nn.Sequential(*parts), width
