"""LambdaLoss from the definition; ranks are constants."""

from __future__ import annotations

import numpy as np
import torch


def lambdaloss(scores, labels, scheme, sigma=1.0, mu=10.0):
    y = np.asarray(labels, dtype=np.float64)
    n = len(y)
    rank = np.empty(n)
    rank[np.argsort(-scores.detach().numpy(), kind="stable")] = 1 + np.arange(n)
    gain = (2**y - 1) / np.sum((2 ** np.sort(y)[::-1] - 1) / np.log2(2 + np.arange(n)))
    value = torch.zeros((), dtype=torch.float64)
    for i in range(n):
        for j in range(n):
            if i == j or (scheme not in ("ndcg1", "arp1") and y[i] <= y[j]):
                continue
            k = abs(rank[i] - rank[j])
            rho = abs(1 / np.log2(1 + rank[i]) - 1 / np.log2(1 + rank[j]))
            delta = abs(1 / np.log2(1 + k) - 1 / np.log2(2 + k))
            weight = {
                "ndcg1": gain[i] / np.log2(1 + rank[i]),
                "ndcg2": delta * abs(gain[i] - gain[j]),
                "ndcg2++": (rho + mu * delta) * abs(gain[i] - gain[j]),
                "lambdarank": rho * abs(gain[i] - gain[j]),
                "arp1": y[i] / y.sum(),
                "arp2": abs(y[i] - y[j]) / y.sum(),
            }[scheme]
            value = value + weight * torch.nn.functional.softplus(-sigma * (scores[i] - scores[j]))
    return value
