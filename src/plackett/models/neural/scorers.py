r"""Fully connected nets.

.. math:: x \to \text{BN} \to [W \to \text{BN} \to \phi \to \text{dropout}]^L \to w \to \text{score}

Normalisation over the batch, where asked for, is on the input and between the layers, as in Bruch
et al. (2020). Its momentum m follows TensorFlow,
:math:`\text{running} \leftarrow m \cdot \text{running} + (1 - m) \cdot \text{batch}`; PyTorch calls
:math:`1 - m` momentum. A constant that is added before a normalisation is taken out again by it:
its gradient is a rounding error, from which Adam would make steps of full length, so it stays as
it began. That is each W's bias, and that of the normalisation of the input.

A scorer whose documents look at each other: self-attention within each list.

The blocks are those of the context-aware ranker of Pobrotyn et al. (2020, allRank), which
normalise before each part:

.. math:: x \leftarrow x + \text{attention}(\text{norm}(x)), \qquad
    x \leftarrow x + W_2\,\mathrm{relu}(W_1\,\text{norm}(x)).

There is no encoding of positions, so permuting the documents of a list permutes their scores.
Lists stay ragged: those of equal length go through attention together, and none is padded.

Groupwise scoring: a net that sees several documents of a list at once and scores each of them.

Each document of a list of n leads one group: itself and the m - 1 that follow it in a circle. The
net maps the features of a group to m scores; a document's score is the mean over the m groups it is
in. While training the circle is shuffled at each step (Ai et al. 2019, as TF-Ranking does it); at
prediction it is the data's own order, which does not depend on how rows came.

urBoost's net: a recurrent cell that goes down the levels of labels (Zhu & Klabjan 2020).

With :math:`\tilde x(d)` the output of the last layer and :math:`h_0 = 0`, step t is over the
documents that are not above level t:

.. math:: \tilde h_t(d) = \tanh(h_{t-1} W + \tilde x(d) U + b), \qquad
    f_t(d) = [\tilde h_t(d), \tilde x(d)] \cdot w, \qquad
    h_t = \max_{d \in c_t} \tilde h_t(d)

with :math:`c_t` the documents of level t, known while training. The scores of step t are scored
by the objective in a list of their own, with the labels of level t against all below. When ranking,
labels are not known and the scores of the first step are used, which depend on one document
alone.

Nets out of settings: the same seed, the same weights, whatever else draws random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from plackett.base.ragged import Offsets
from plackett.base.random import combine
from plackett.models.neural.batches import Level
from plackett.models.neural.ranker import NetSettings
from plackett.models.neural.user_module import make_module_scorer

_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
}


def body(given: NetSettings, n_inputs: int) -> nn.Sequential:
    """The layers before the last one."""
    parts: list[nn.Module] = []
    if given.batch_norm is not None:
        norm = nn.BatchNorm1d(n_inputs, momentum=1.0 - given.batch_norm)
        norm.bias.requires_grad_(not given.layers)
        parts.append(norm)
    width = n_inputs
    for layer in given.layers:
        linear = nn.Linear(width, layer)
        parts.append(linear)
        if given.batch_norm is not None:
            linear.bias.requires_grad_(False)
            parts.append(nn.BatchNorm1d(layer, momentum=1.0 - given.batch_norm))
        parts.append(_ACTIVATIONS[given.activation]())
        if given.dropout:
            parts.append(nn.Dropout(given.dropout))
        width = layer
    return nn.Sequential(*parts)


def width_of(given: NetSettings, n_inputs: int) -> int:
    """What :func:`body` gives for each document."""
    return given.layers[-1] if given.layers else n_inputs


class DocumentScorer(nn.Module):
    """A net that looks at one document at a time."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, features: Tensor, offsets: Offsets) -> Tensor:  # noqa: ARG002 - for scorers of lists
        scores: Tensor = self.net(features)
        return scores.reshape(-1)


def mlp(given: NetSettings, n_features: int) -> DocumentScorer:
    """Features of a document to its score."""
    return DocumentScorer(
        nn.Sequential(body(given, n_features), nn.Linear(width_of(given, n_features), 1))
    )


_WIDER = 2  # the layer inside a block against the block


class AttentionScorer(nn.Module):
    """Layers for each document, blocks of attention within lists, one score each."""

    def __init__(self, given: NetSettings, n_features: int) -> None:
        super().__init__()
        width = width_of(given, n_features)
        self.body = body(given, n_features)
        self.blocks = nn.ModuleList(
            [_Block(width, given.heads, given.dropout) for _ in range(given.attention)]
        )
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, features: Tensor, offsets: Offsets) -> Tensor:
        x = self.body(features)
        groups = [each.to(features.device) for each in _same_length(offsets)]
        for block in self.blocks if groups else ():  # a worker may have no list of a batch
            x = block(x, groups)
        scores: Tensor = self.last(x)
        return scores.reshape(-1)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm, self.inside_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inside = nn.Sequential(
            nn.Linear(width, _WIDER * width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(_WIDER * width, width),
        )

    def forward(self, x: Tensor, groups: list[Tensor]) -> Tensor:
        mixed = self.mixed(self.norm(x))
        seen = torch.cat([self._attend(mixed[rows]).flatten(0, 1) for rows in groups])
        back = torch.empty(len(x), dtype=torch.int64, device=x.device)
        places = torch.cat([rows.reshape(-1) for rows in groups])
        back[places] = torch.arange(len(x), device=x.device)
        x = x + self.out(seen[back])
        inside: Tensor = self.inside(self.inside_norm(x))
        return x + inside

    def _attend(self, mixed: Tensor) -> Tensor:
        """Lists x documents x 3 width -> lists x documents x width."""
        lists, documents, wide = mixed.shape
        heads = mixed.reshape(lists, documents, 3, self.heads, wide // 3 // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        dropped = self.dropout if self.training else 0.0
        seen = scaled_dot_product_attention(query, key, value, dropout_p=dropped)
        return seen.transpose(1, 2).reshape(lists, documents, wide // 3)


def _same_length(offsets: Offsets) -> list[Tensor]:
    """Documents of lists of equal length, lists x documents, for each length there is."""
    sizes = np.diff(offsets)
    return [
        torch.from_numpy(offsets[:-1][sizes == size][:, None] + np.arange(size))
        for size in np.unique(sizes)
        if size
    ]


class GroupScorer(nn.Module):
    """Scores of documents from the groups they are in."""

    def __init__(self, given: NetSettings, n_features: int) -> None:
        super().__init__()
        self.size = given.group_size
        inputs = n_features * self.size
        self.net = nn.Sequential(body(given, inputs), nn.Linear(width_of(given, inputs), self.size))

    def forward(self, features: Tensor, offsets: Offsets) -> Tensor:
        members = self._members(offsets).to(features.device)
        scores: Tensor = self.net(features[members].flatten(1))
        total = scores.new_zeros(len(features))
        return total.index_add(0, members.reshape(-1), scores.reshape(-1)) / self.size

    def _members(self, offsets: Offsets) -> Tensor:
        """The documents of each group, one row per group."""
        sizes, starts = np.diff(offsets), offsets[:-1]
        of_document = np.repeat(np.arange(len(sizes)), sizes)
        place = np.arange(offsets[-1]) - starts[of_document]
        ahead = (place[:, None] + np.arange(self.size)) % sizes[of_document][:, None]
        members = torch.from_numpy(ahead + starts[of_document][:, None])
        return self._shuffled(of_document)[members] if self.training else members

    @staticmethod
    def _shuffled(of_document: Offsets) -> Tensor:
        """A random order of the documents within their lists."""
        drawn = torch.rand(len(of_document), dtype=torch.float64, device="cpu")
        return (torch.from_numpy(of_document) + drawn).argsort()


_CELLS: dict[str, type[nn.RNNCell] | type[nn.LSTMCell] | type[nn.GRUCell]] = {
    "rnn": nn.RNNCell,
    "lstm": nn.LSTMCell,
    "gru": nn.GRUCell,
}


class LevelScorer(nn.Module):
    """Layers for each document and a cell for the levels of labels."""

    def __init__(self, given: NetSettings, n_features: int) -> None:
        super().__init__()
        assert given.recurrent is not None
        width = width_of(given, n_features)
        self.width, self.pooling = width, given.pooling
        self.both, self.two_states = given.score_from == "both", given.recurrent == "lstm"
        self.body = body(given, n_features)
        self.cell = _CELLS[given.recurrent](width, width)
        self.last = nn.Linear(2 * width if self.both else width, 1)

    def forward(self, features: Tensor, offsets: Offsets) -> Tensor:  # noqa: ARG002 - for scorers of lists
        """Scores of the first step."""
        x = self.body(features)
        return self.scored(x, self.stepped(x, None))

    def descend(self, features: Tensor, levels: Sequence[Level]) -> list[Tensor]:
        """Scores of each step, given the documents of each level."""
        x = self.body(features)
        carried: Tensor | None = None
        scores = []
        for level in levels:
            if carried is not None:
                carried = carried[level.below]
            own = x[level.documents]
            state = self.stepped(own, carried)
            scores.append(self.scored(own, state))
            carried = self._pooled(state[level.chosen], level.sizes)
        return scores

    def stepped(self, x: Tensor, carried: Tensor | None) -> Tensor:
        """States of documents, after the state that was carried to each of them."""
        if not self.two_states:
            state: Tensor = self.cell(x, carried)
            return state
        pair = None if carried is None else carried.chunk(2, dim=1)
        return torch.cat(self.cell(x, pair), dim=1)

    def scored(self, x: Tensor, state: Tensor) -> Tensor:
        """Scores of documents from their states."""
        own = state[:, : self.width]
        scores: Tensor = self.last(torch.cat([own, x], dim=1) if self.both else own)
        return scores.reshape(-1)

    def _pooled(self, states: Tensor, sizes: Tensor) -> Tensor:
        pooled: Tensor = torch.segment_reduce(states, self.pooling, lengths=sizes, axis=0)
        return pooled


_WEIGHTS = 0x77656967687473  # keeps first weights apart from the noise of steps
_STEPS = 0x7374657073


def build(given: NetSettings, n_features: int, *, learner: int = 0) -> nn.Module:
    """A net with its first weights, which depend on the seed and the number of the learner."""
    with seeded(_seed(given.seed, _WEIGHTS, learner)):
        return partition(given, n_features, learner=learner)


def partition(given: NetSettings, n_features: int, *, learner: int = 0) -> nn.Module:
    """The net itself; its weights are as PyTorch leaves them.

    Nets that correct a recurrent one are plain.
    """
    if given.module is not None:
        return make_module_scorer(given.module, n_features)
    with _single_precision():
        return _layered(given, n_features, learner)


def _layered(given: NetSettings, n_features: int, learner: int) -> nn.Module:
    if given.recurrent is not None and learner == 0:
        return LevelScorer(given, n_features)
    if given.attention:
        return AttentionScorer(given, n_features)
    if given.group_size > 1:
        return GroupScorer(given, n_features)
    return mlp(given, n_features)


@contextmanager
def seeded(number: int) -> Iterator[None]:
    """Draw first weights in the block by this number, on the processor."""
    cpu = torch.device("cpu")
    with restored_randomness(cpu), cpu:
        torch.default_generator.manual_seed(number)
        yield


@contextmanager
def restored_randomness(device: torch.device) -> Iterator[None]:
    """Let the block seed PyTorch as it likes; afterwards the user's state is back."""
    devices = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices=devices, device_type=device.type):
        yield


@contextmanager
def gradients() -> Iterator[None]:
    """Let the block take gradients, though the caller may have turned them off."""
    inference = torch.is_inference_mode_enabled()
    with torch.inference_mode(False) if inference else torch.enable_grad():
        yield


@contextmanager
def _single_precision() -> Iterator[None]:
    """Make weights of the type of features, whatever the user has set for tensors of their own."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def seed_step(seed: int, step: int, device: torch.device) -> None:
    """Make whatever a net draws in this step depend on seed and step alone."""
    number = _seed(seed, _STEPS, step)
    if device.type == "cpu":
        torch.default_generator.manual_seed(number)  # leaves the generators of GPUs alone
    else:
        torch.manual_seed(number)


def draws(given: NetSettings) -> bool:
    """Whether a net may draw random numbers while it is trained."""
    if given.module is not None or given.group_size > 1:
        return True
    return given.dropout > 0


def _seed(seed: int, purpose: int, number: int) -> int:
    base = combine(np.uint64(seed % 2**64) ^ np.uint64(purpose), np.uint64(number))
    return int(base) % 2**63
