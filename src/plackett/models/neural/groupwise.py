"""Groupwise scoring: a net that sees several documents of a list at once and scores each of them.

Each document of a list of n leads one group: itself and the m - 1 that follow it in a circle. The
net maps the features of a group to m scores; a document's score is the mean over the m groups it is
in. While training the circle is shuffled at each step (Ai et al. 2019, as TF-Ranking does it); at
prediction it is the data's own order, which does not depend on how rows came.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from plackett.base.ragged import Offsets
from plackett.models.neural.mlp import body, width_of
from plackett.models.neural.settings import NetSettings


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
