"""BoltzRank from the definition of its energy."""

from __future__ import annotations

import numpy as np
import torch

from references.autograd import as_tensor


def minus_energy(values, permutation):
    n = len(permutation)
    total = sum(
        values[permutation[above]] - values[permutation[below]] for above in range(n) for below in range(above + 1, n)
    )
    return 2 / (n * (n - 1)) * total


def ndcg(labels, permutation):
    gains = 2.0 ** np.asarray(labels) - 1
    discounts = 1 / np.log2(2 + np.arange(len(gains)))
    return gains[list(permutation)] @ discounts / (np.sort(gains)[::-1] @ discounts)


def boltzrank(scores, labels, permutations, mix):
    log_p = torch.log_softmax(torch.stack([minus_energy(scores, r) for r in permutations]), 0)
    targets = torch.softmax(torch.stack([minus_energy(as_tensor(labels), r) for r in permutations]), 0)
    quality = as_tensor([ndcg(labels, r) for r in permutations])
    return -mix * (log_p.exp() @ quality) - (1 - mix) * (targets @ log_p)
