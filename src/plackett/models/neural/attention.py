r"""A scorer whose documents look at each other: self-attention within each list.

The blocks are those of the context-aware ranker of Pobrotyn et al. (2020, allRank), which
normalise before each part:

.. math:: x \leftarrow x + \text{attention}(\text{norm}(x)), \qquad
    x \leftarrow x + W_2\,\mathrm{relu}(W_1\,\text{norm}(x)).

There is no encoding of positions, so permuting the documents of a list permutes their scores.
Lists stay ragged: those of equal length go through attention together, and none is padded.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from plackett.base.ragged import Offsets
from plackett.models.neural.mlp import body, width_of
from plackett.models.neural.settings import NetSettings

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
