"""ApproxNDCG and ApproxMRR from the definition."""

from __future__ import annotations

import torch

from references.autograd import as_tensor


def approximate_ranks(scores, eta):
    n = len(scores)
    return torch.stack(
        [
            1.0 + sum(torch.sigmoid(eta * (scores[j] - scores[i])) for j in range(n) if j != i)
            for i in range(n)
        ]
    )


def approxndcg(scores, labels, eta):
    y = as_tensor(labels)
    gains = 2**y - 1
    ideal = sum(
        g / torch.log2(torch.tensor(2.0 + i, dtype=torch.float64))
        for i, g in enumerate(gains.sort(descending=True).values)
    )
    return -(gains / torch.log2(1 + approximate_ranks(scores, eta))).sum() / ideal


def approxmrr(scores, labels, eta):
    relevant = as_tensor(labels) > 0
    first = torch.softmax(eta * scores[relevant], 0)
    return -(first / approximate_ranks(scores, eta)[relevant]).sum()
