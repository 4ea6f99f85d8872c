"""Linear models beside the figures that LETOR 3 publishes for OHSUMED, as a page of the documentation.

Run ``python benchmarks/linear_results.py DATA --keep SCRATCH`` where DATA holds OHSUMED.
Finished trials are kept in SCRATCH/runs.db, so a run that was stopped continues where it was.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from plackett import metric, read_folds, recipe
from plackett.data.folds import Fold
from plackett.experiments.compare import compare

PUBLISHED = {"ranksvm": (0.4140, 0.4334), "rankboost": (0.4302, 0.4411), "listnet-linear": (0.4410, 0.4457)}
"""System to the NDCG@10 and MAP that the makers of LETOR 3 published for OHSUMED."""
VARIANTS = (
    ("ranksvm", None, False),
    ("ranksvm", 0.1, False),
    ("ranksvm", 10.0, True),
    ("rankboost", None, False),
    ("listnet-linear", None, False),
    ("listnet-linear", 1e4, False),
)
"""System, C if fixed, and whether it learns from relevant or not instead of three levels."""
LETOR = (metric("ndcg@10", convention="letor3"), metric("map", convention="letor3"))


def _with_binary_training(fold: Fold) -> Fold:
    train, validation = (
        part._replace(labels=(part.labels > 0).astype(np.float32)) for part in (fold.train, fold.validation)
    )
    return fold._replace(train=train, validation=validation)


def letor_table(folds: list[Fold], keep: Path) -> str:
    rows = []
    for system, C, binary in VARIANTS:
        ranker = recipe(system) if C is None else recipe(system, C=C)
        data = [_with_binary_training(fold) for fold in folds] if binary else folds
        compared = compare(
            data,
            {system: ranker},
            protocol="folds",
            metrics=[str(m) for m in LETOR],
            metric=str(LETOR[1]),
            store=keep / "runs.db",
        )
        # The makers average over folds, which hold 21 or 22 lists each.
        ours = [means.mean() for means in compared.results.trial_means[system].values()]
        pairs = zip(ours, PUBLISHED[system], strict=True)
        cells = [f"{a:.4f} | {b:.4f} | {a - b:+.4f}" for a, b in pairs]
        note = (", binary labels" if binary else "") + ("" if C is None else f", C = {C:g}")
        rows.append(f"| `{system}`{note} | {' | '.join(cells)} |")
    heading = "| system | NDCG@10 | published | difference | MAP | published | difference |"
    return "\n".join([heading, "|" + " --- |" * 7, *rows])


PAGE = """# Linear models: reference points of LETOR 3

Made by `python benchmarks/linear_results.py DATA --keep SCRATCH`. Systems are the recipes with
their defaults. All linear and classical systems under the protocol of Dubey et al. (2009), with
tests, are in {doc}`paper-b/index`.

OHSUMED as it is, three label levels, the metrics of the LETOR 3 script (`convention="letor3"`),
means of the five folds' means, MAP on validation for the choice of C or rounds, one seed.

TABLE

RankBoost is within .003 of the published figures; RankSVM and ListNet with C chosen on validation
are above them. We looked for the reason with C fixed at six to nine values, reading the test lists,
so the rows that name a C were picked after the fact. ListNet as published had no penalty: without
one (C = 10000) ours is within .006 in both figures, and the penalty is what we gain. RankSVM with a
weak penalty (C of 0.1 and above) has the published MAP, but an NDCG@10 .02 above; learning from
relevant or not, without the pairs of definitely over possibly relevant documents, and with a weak
penalty, it comes within .01 in both. That the authors did the same is a guess that fits.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder that holds OHSUMED")
    parser.add_argument("--keep", type=Path, required=True, help="folder for what is done")
    parser.add_argument("--page", type=Path, default=Path("docs/results/linear.md"))
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    table = letor_table(read_folds(options.data / "OHSUMED"), options.keep)
    options.page.write_text(PAGE.replace("TABLE", table), encoding="utf-8")


if __name__ == "__main__":
    main()
