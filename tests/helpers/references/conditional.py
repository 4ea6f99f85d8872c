"""The conditional models as plain sums over given sign vectors, and rankings by brute force."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import torch

from references.autograd import as_tensor


def cube(n_goods, n_bads):
    """All sign vectors, valid or not."""
    return [np.array(signs).reshape(n_goods, n_bads) for signs in product((1, -1), repeat=n_goods * n_bads)]


def valid_rankings(n_goods, n_bads):
    """The sign vectors of all total orders."""
    result = {}
    for order in permutations(range(n_goods + n_bads)):
        rank = np.argsort(order)
        signs = np.where(rank[:n_goods, None] < rank[None, n_goods:], 1, -1)
        result[signs.tobytes()] = signs
    return list(result.values())


def gain_of_ranking(signs, gain, cutoff=10, discount="jk"):
    """Gain of a valid ranking, from the ranks of an order that has these signs."""
    n_goods, n_bads = signs.shape
    if gain == "auc":
        return np.mean(signs == 1)
    # A good stands below the bads that beat it, and below the goods that beat more bads.
    wins = (signs == 1).sum(axis=1)
    ranks = np.array([k + n_bads - w for k, w in enumerate(sorted(wins, reverse=True))])
    if gain == "map":
        return np.mean([(i + 1) / (r + 1) for i, r in enumerate(ranks)])
    if discount == "jk":
        table = [1.0, 1.0] + [1 / np.log2(1 + i) for i in range(2, n_goods + n_bads)]
    else:
        table = [1 / np.log2(2 + i) for i in range(n_goods + n_bads)]
    table = [d if i < cutoff else 0.0 for i, d in enumerate(table)]
    return sum(table[r] for r in ranks) / sum(table[:n_goods])


def conditional(scores, labels, kind, rankings, gains):
    """Any of the losses over these rankings, with their gains."""
    relevant = torch.tensor(np.asarray(labels) > 0)
    gaps = scores[relevant][:, None] - scores[~relevant][None, :]
    # Compatibility with the ideal ranking's taken off: each wrong pair costs twice its gap.
    a = ((as_tensor(np.stack(rankings)) - 1) * gaps).sum((1, 2))
    delta = 1 - as_tensor(gains)
    share = torch.softmax(a, 0)
    if kind == "mle":
        return torch.logsumexp(a, 0)
    if kind == "l2":
        return share @ delta
    if kind == "l3":
        return torch.logsumexp(a, 0) + share @ delta
    if kind == "convexloss":
        return torch.logsumexp(delta + a, 0)
    return -torch.log((share * as_tensor(gains)).sum())
