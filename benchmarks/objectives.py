"""Speed of objectives: gradients for trees beside LightGBM's C++, losses beside padded torch.

Run ``python benchmarks/objectives.py``; ``--help`` lists the options. Both sides see the same
lists, scores, truncation, normalisation and number of threads, take turns, and keep their fastest
turn. How LightGBM's gradients are timed alone is told in ``lightgbm_gradients.py``; the padded
losses are in ``padded_torch.py`` and must agree with ours before they are timed.
"""

from __future__ import annotations

import os

# Idle threads of one tool would otherwise keep spinning through the first part of another's turn.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numba
import numpy as np
from rich.console import Console
from rich.table import Table

from plackett.objectives import XENDCG, ApproxNDCG, LambdaLoss, LambdaRank, ListMLE, Objective, Stochastic
from turns import fastest
from web_lists import WebLists, web_lists

BATCH = 128  # lists
TRUNCATION = 30
AGREEMENT = 1e-9  # of float64 values and gradients, before the clock runs


@dataclass(frozen=True)
class Row:
    """One comparison, in milliseconds."""

    what: str
    peer: float
    ours: float
    also: float
    """Another way to call ours; the table's heading says which."""
    ratio: float
    target: float


def gradients(lists: WebLists, threads: int, rounds: int) -> list[Row]:
    """Ours, as a trainer of trees calls them, over LightGBM's; at most the target is wanted."""
    import lightgbm_gradients as peer

    single_pass = f"lambdarank @{TRUNCATION}"
    cases: dict[str, tuple[Objective, Callable[[], object], float]] = {}
    for truncation in (TRUNCATION, None):
        for normalised in (False, True):
            ours = LambdaRank(truncation=truncation, score_norm=normalised, query_norm=normalised)
            theirs = peer.lambdarank(lists, threads, truncation=truncation, normalised=normalised)
            name = f"lambdarank @{truncation or 'all'}{', norm' * normalised}"
            cases[name] = (ours, theirs, 0.40)
    cases["xendcg"] = (XENDCG(), peer.xendcg(lists, threads), 1.0)
    for name in (single_pass, f"{single_pass}, norm"):
        noisy = Stochastic(cases[name][0], samples=8, beta=0.25)
        cases[f"8 x {name}"] = (noisy, cases[name][1], 3.5)
    works: dict[str, Callable[[], object]] = {"nothing": peer.nothing(lists, threads)}
    for name, (objective, theirs, _) in cases.items():
        works[f"peer {name}"] = theirs
        works[f"ours {name}"] = boosting(objective, lists)
        works[f"evaluate {name}"] = evaluation(objective, lists)
    seconds = fastest(works, rounds)
    return [
        _row(
            name,
            seconds[f"peer {name}"] - seconds["nothing"],
            seconds[f"ours {name}"],
            seconds[f"evaluate {name}"],
            ours_over_peer=True,
            target=target,
        )
        for name, (_, _, target) in cases.items()
    ]


def boosting(objective: Objective, lists: WebLists) -> Callable[[], object]:
    """What TreeRanker calls at each step, in single precision where there is such a form."""
    derivatives = objective.bind(lists.labels, lists.offsets).float32_gradient
    return lambda: derivatives(lists.scores, 0)


def evaluation(objective: Objective, lists: WebLists) -> Callable[[], object]:
    """Values, gradient and curvature in double precision, for labels known before."""
    bound = objective.bind(lists.labels, lists.offsets)
    return lambda: bound.evaluate(lists.scores)


def losses(lists: WebLists, n_batches: int, rounds: int) -> list[Row]:
    """Padded torch over ours; at least the target is wanted."""
    import padded_torch as peer

    cases: dict[str, tuple[Objective, Any, float]] = {
        "approxndcg": (ApproxNDCG(), peer.approxndcg, 3.0),
        "listmle": (ListMLE(), peer.listmle, 8.0),
        "lambdaloss": (LambdaLoss(), peer.lambdaloss, 10.0),
    }
    batches = list(lists.batches(BATCH))[:n_batches]
    total = {name: np.zeros(3) for name in cases}
    for batch in batches:
        padded = peer.pad(batch)
        for name, (objective, loss, _) in cases.items():
            check(objective, loss, batch)
            works: dict[str, Callable[[], object]] = {
                "peer": partial(peer.forward_and_gradient, loss, padded),
                "ours": partial(objective.evaluate, batch.scores, batch.labels, batch.offsets),
                "bound": evaluation(objective, batch),
            }
            total[name] += list(fastest(works, rounds).values())
    return [
        _row(name, *(total[name] / len(batches)), ours_over_peer=False, target=target)
        for name, (_, _, target) in cases.items()
    ]


def check(objective: Objective, loss: Any, batch: WebLists) -> None:
    """Refuse to compare the speed of different numbers."""
    import torch

    import padded_torch as peer

    padded = peer.pad(batch, torch.float64)
    draws = {}
    if objective.draw == "order":
        order = peer.shuffled_label_order(padded)
        draws["order"] = order[padded.present].numpy()  # padding comes last
        values, gradient = peer.forward_and_gradient(lambda s, b: loss(s, b, order), padded)
    else:
        values, gradient = peer.forward_and_gradient(loss, padded)
    ours = objective.evaluate(batch.scores, batch.labels, batch.offsets, draws=draws)
    starts = batch.offsets[:-1]
    differs = np.maximum.reduceat(batch.labels, starts) > np.minimum.reduceat(batch.labels, starts)
    # Lists of one label level have nothing to learn from: ours gives zeros.
    each = np.repeat(differs, batch.sizes)
    theirs = gradient[padded.present].numpy()
    for a, b in ((ours.values[differs], values.numpy()[differs]), (ours.gradient[each], theirs[each])):
        if not np.allclose(a, b, rtol=AGREEMENT, atol=AGREEMENT):
            raise SystemExit(f"padded torch gives another {objective.name} than {objective!r}")


def _row(what: str, peer: float, ours: float, also: float, *, ours_over_peer: bool, target: float) -> Row:
    ratio = ours / peer if ours_over_peer else peer / ours
    return Row(what, 1e3 * peer, 1e3 * ours, 1e3 * also, ratio, target)


def show(title: str, headings: list[str], rows: list[Row], wanted: str) -> None:
    table = Table(*headings, f"wanted {wanted}", title=title, title_justify="left")
    for row in rows:
        times = (f"{t:.2f}" for t in (row.peer, row.ours, row.also))
        table.add_row(row.what, *times, f"{row.ratio:.2f}", f"{row.target:.2f}")
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lists", type=int, default=2000)
    parser.add_argument("--batches", type=int, default=6, help="of 128 lists, beside torch")
    parser.add_argument("--threads", type=int, default=min(2, numba.config.NUMBA_NUM_THREADS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=["lightgbm", "torch"], help="one of the two tables")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    numba.set_num_threads(options.threads)
    lists = web_lists(options.lists, options.seed)
    found: dict[str, list[Row]] = {}
    if options.only != "torch":
        found["lightgbm"] = gradients(lists, options.threads, options.rounds)
    if options.only != "lightgbm":
        import torch

        torch.set_num_threads(options.threads)
        found["torch"] = losses(lists, options.batches, options.rounds)
    report(found, lists, options)


def report(found: dict[str, list[Row]], lists: WebLists, options: argparse.Namespace) -> None:
    if options.json:
        shape = {"n_lists": len(lists.sizes), "n_docs": len(lists.labels)}
        rows = {peer: [asdict(row) for row in rows] for peer, rows in found.items()}
        Console().print_json(json.dumps({**shape, **rows}))
        return
    size = f"{len(lists.sizes):,} lists, {len(lists.labels):,} documents, {options.threads} threads"
    if "lightgbm" in found:
        headings = ["gradients", "LightGBM ms", "boosting ms", "evaluate ms", "ours / LightGBM"]
        show(f"{size}; evaluate is float64", headings, found["lightgbm"], "at most")
    if "torch" in found:
        headings = ["loss + gradient", "torch ms", "evaluate ms", "bound ms", "torch / ours"]
        title = f"{options.batches} batches of {BATCH} lists, mean; torch float32, ours float64"
        show(title, headings, found["torch"], "at least")


if __name__ == "__main__":
    main()
