"""LambdaRank with weights found by swapping documents and measuring again."""

from __future__ import annotations

import numpy as np
import torch


def ranking(scores):
    return np.argsort(-np.asarray(scores), kind="stable")


def ndcg(labels_by_rank):
    gains = 2.0**labels_by_rank - 1
    discounts = 1 / np.log2(2 + np.arange(len(gains)))
    return np.sum(gains * discounts) / np.sum(np.sort(gains)[::-1] * discounts)


def average_precision(labels_by_rank):
    relevant = labels_by_rank > 0
    precision = np.cumsum(relevant) / (1 + np.arange(len(relevant)))
    return np.mean(precision[relevant])


def expected_reciprocal_rank(labels_by_rank):
    total, reach = 0.0, 1.0
    for rank, label in enumerate(labels_by_rank, start=1):
        stop = (2.0**label - 1) / 2.0 ** np.max(labels_by_rank)
        total += reach * stop / rank
        reach *= 1 - stop
    return total


def reciprocal_rank(labels_by_rank):
    return 1 / (1 + np.argmax(labels_by_rank > 0))


METRICS = {"ndcg": ndcg, "map": average_precision, "err": expected_reciprocal_rank, "mrr": reciprocal_rank}


def swap_change(metric, labels_by_rank, a, b):
    swapped = np.array(labels_by_rank, dtype=np.float64)
    swapped[[a, b]] = swapped[[b, a]]
    return abs(METRICS[metric](swapped) - METRICS[metric](np.asarray(labels_by_rank)))


def lambdarank(scores, labels, sigma=1.0, truncation=None, score_norm=False, query_norm=False, weight="ndcg"):
    s = scores.detach().numpy()
    y = np.asarray(labels, dtype=np.float64)
    order = ranking(s)
    value = 0.0 * scores.sum()  # no pair may count, and the value still depends on the scores
    total = 0.0
    for a in range(len(y)):
        for b in range(a + 1, len(y)):
            i, j = sorted((order[a], order[b]), key=lambda d: -y[d])
            if y[i] == y[j] or (truncation is not None and a >= truncation):
                continue
            delta = swap_change(weight, y[order], a, b)
            if score_norm and np.ptp(s) > 0:
                delta /= 0.01 + abs(s[i] - s[j])
            value = value + delta * torch.nn.functional.softplus(-sigma * (scores[i] - scores[j]))
            total += 2 * sigma * delta / (1 + np.exp(sigma * (s[i] - s[j])))
    return value * (np.log2(1 + total) / total if query_norm and total > 0 else 1.0)
