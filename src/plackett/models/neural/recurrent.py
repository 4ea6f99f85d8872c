r"""urBoost's net: a recurrent cell that goes down the levels of labels (Zhu & Klabjan 2020).

With :math:`\tilde x(d)` the output of the last layer and :math:`h_0 = 0`, step t is over the
documents that are not above level t:

.. math:: \tilde h_t(d) = \tanh(h_{t-1} W + \tilde x(d) U + b), \qquad
    f_t(d) = [\tilde h_t(d), \tilde x(d)] \cdot w, \qquad
    h_t = \max_{d \in c_t} \tilde h_t(d)

with :math:`c_t` the documents of level t, known while training. The scores of step t are scored
by the objective in a list of their own, with the labels of level t against all below. When ranking,
labels are not known and the scores of the first step are used, which depend on one document
alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from plackett.base.ragged import Offsets
from plackett.models.neural.levels import Level
from plackett.models.neural.mlp import body, width_of
from plackett.models.neural.settings import NetSettings

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
