"""NDCG of relaxed permutation matrices and of soft ranks, from their definitions."""

from __future__ import annotations

import numpy as np
import torch

from references.autograd import as_tensor


def _gains(labels, cutoff):
    """Gains, discounts of the ranks that count, and the ideal DCG."""
    gains = 2 ** as_tensor(labels) - 1
    ranks = torch.arange(1, len(labels) + 1, dtype=torch.float64)
    discounts = torch.where(ranks <= (cutoff or len(labels)), 1 / torch.log2(1 + ranks), 0.0)
    return gains, discounts, (gains.sort(descending=True).values * discounts).sum()


def neuralsort(scores, tau):
    n = len(scores)
    distances = torch.abs(scores[:, None] - scores[None, :]).sum(1)
    factors = n + 1 - 2 * torch.arange(1, n + 1, dtype=torch.float64)
    return torch.softmax((factors[:, None] * scores[None, :] - distances[None, :]) / tau, dim=1)


def softsort_matrix(scores, tau):
    ranked = scores.sort(descending=True, stable=True).values
    return torch.softmax(-torch.abs(ranked[:, None] - scores[None, :]) / tau, dim=1)


def pirank(scores, labels, tau=1.0, cutoff=None):
    gains, discounts, ideal = _gains(labels, cutoff)
    return -(discounts * (neuralsort(scores, tau) @ gains)).sum() / ideal


def softsort(scores, labels, tau=1.0, cutoff=None):
    gains, discounts, ideal = _gains(labels, cutoff)
    return -(discounts * (softsort_matrix(scores, tau) @ gains)).sum() / ideal


def neuralndcg(scores, labels, tau=1.0, cutoff=None, rounds=20):
    gains, discounts, ideal = _gains(labels, cutoff)
    matrix = neuralsort(scores, tau)
    for _ in range(rounds):
        matrix = matrix / matrix.sum(dim=1, keepdim=True)
        matrix = matrix / matrix.sum(dim=0, keepdim=True)
    return -(discounts * (matrix @ gains)).sum() / ideal


def soft_ranks(scores, epsilon):
    """The point of the permutahedron nearest to -s / epsilon, by Frank and Wolfe's method.

    Its corners are the rankings; away steps make it converge to rounding error.
    """
    target = -np.asarray(scores) / epsilon
    n = len(target)

    def corner(direction):
        ranks = np.empty(n)
        ranks[np.argsort(direction, kind="stable")] = np.arange(n, 0, -1)
        return ranks

    first = corner(target)
    corners, shares = [first], np.array([1.0])
    for _ in range(20_000):
        point = shares @ np.array(corners)
        slope = point - target
        best, worst = corner(slope), int(np.argmax(np.array(corners) @ slope))
        if slope @ (point - best) < 1e-14:
            break
        if slope @ (point - best) >= slope @ (corners[worst] - point):
            direction, longest = best - point, 1.0
            step = min(-(slope @ direction) / (direction @ direction), longest)
            shares = (1 - step) * shares
            known = [k for k, item in enumerate(corners) if np.array_equal(item, best)]
            if known:
                shares[known[0]] += step
            else:
                corners.append(best)
                shares = np.append(shares, step)
        else:
            direction = point - corners[worst]
            longest = shares[worst] / (1 - shares[worst])
            step = min(-(slope @ direction) / (direction @ direction), longest)
            shares = (1 + step) * shares
            shares[worst] -= step
            if step == longest:
                corners.pop(worst)
                shares = np.delete(shares, worst)
    return shares @ np.array(corners)
