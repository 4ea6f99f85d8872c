"""Results of the linear and classical models on OHSUMED and MQ2007, as a page of the documentation.

Run ``python benchmarks/linear_results.py DATA --keep SCRATCH`` where DATA holds folders of folds.
Finished trials are kept in SCRATCH/runs.db, so a run that was stopped continues where it was.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

import numpy as np
from rich.console import Console

from plackett import metric, read_folds, recipe
from plackett.data.folds import Fold
from plackett.experiments.compare import compare
from plackett.experiments.figures import Line, LineChart, write_figure
from plackett.experiments.papers.conditional import (
    CellResults,
    clean_fold,
    count_claims,
    run_protocol,
)
from plackett.experiments.papers.sampler import accuracy_of_samplers, dynamics, smear
from plackett.experiments.results import leaderboard

DATA = ("OHSUMED", "MQ2007_partial")
PUBLISHED = {
    "ranksvm": (0.4140, 0.4334),
    "rankboost": (0.4302, 0.4411),
    "listnet-linear": (0.4410, 0.4457),
}
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
SAMPLES = (10, 20, 50, 100, 200, 500)
BEST = (0.1, 0.5, 0.9)
SKEWS = (-5.0, 0.0, 5.0)
WALKS = (1, 10, 100, 1000)
CONSOLE = Console(stderr=True)


def markdown_tables(results: CellResults, baselines: Sequence[str] = ("ranksvm", "svmmap")) -> str:
    """A table per data set with paired tests, and the paper's claims."""
    parts = [board_table(results, data, baselines) for data in results.columns]
    rows = [f"| {c.text} | {c.here} | {c.verdict} |" for c in count_claims(results)]
    heading = ["| claim | here | in most cells |", "| --- | --- | --- |"]
    parts.append("## What the paper says, in our cells\n\n" + "\n".join([*heading, *rows]))
    return "\n\n".join(parts) + "\n"


def board_table(results: CellResults, data: str, baselines: Sequence[str]) -> str:
    values = {system: results.values(system, data) for system in results.systems}
    boards = {base: leaderboard(values, baseline=base) for base in baselines}
    rows = []
    for system in results.systems:
        cells = []
        for m in results.metrics:
            marks = ""
            for mark, board in zip("†‡", boards.values(), strict=True):
                (entry,) = (entry for entry in board.entries if entry.name == system)
                verdict = board.verdict(entry, m)
                marks += mark + {"better": "+", "worse": "−"}[verdict] if verdict else ""
            cells.append(f"{results.mean(system, data, m):.4f} {marks}".strip())
        rows.append(f"| `{system}` | {' | '.join(cells)} |")
    count = len(next(iter(values[results.systems[0]].values())))
    heading = ["system", *results.metrics]
    lines = [f"| {' | '.join(heading)} |", "|" + " --- |" * len(heading), *rows]
    return f"## {data}: {count:,} lists\n\n" + "\n".join(lines)


def _with_binary_training(fold: Fold) -> Fold:
    train, validation = (
        part._replace(labels=(part.labels > 0).astype(np.float32))
        for part in (fold.train, fold.validation)
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


def samplers(folds: list[Fold], keep: Path) -> dict[str, dict[str, dict[str, float]]]:
    file = keep / "samplers.json"
    if file.exists():
        return json.loads(file.read_text())
    CONSOLE.print("samplers")
    cleaned = [clean_fold(fold) for fold in folds]
    ways = {
        "samples": {str(m): {"samples": m} for m in SAMPLES},
        "best": {str(p): {"best": p} for p in BEST},
        "skew": {str(k): {"restarts": "many", "skew": k} for k in SKEWS},
        "walk": {str(w): {"walk": w} for w in WALKS},
    }
    found = {name: accuracy_of_samplers(cleaned, way) for name, way in ways.items()}
    file.write_text(json.dumps(found))
    return found


def sampler_table(found: dict[str, dict[str, dict[str, float]]]) -> str:
    rows = [
        f"| {name} | {setting} | {' | '.join(f'{v:.4f}' for v in means.values())} |"
        for name, way in found.items()
        for setting, means in way.items()
    ]
    return "\n".join(["| option | value | NDCG@10 | MAP |", "| --- | --- | --- | --- |", *rows])


def figures(found: dict[str, dict[str, dict[str, float]]], folds: list[Fold], folder: Path) -> None:
    def write(number: int, chart: LineChart) -> None:
        write_figure(chart, folder / f"linear-figure-{number}", ("svg",))

    for number, option in ((4, "samples"), (5, "best"), (6, "skew")):
        xs = [float(value) for value in found[option]]
        lines = [
            Line(m, xs, [means[m] for means in found[option].values()], style="both")
            for m in next(iter(found[option].values()))
        ]
        title = f"OHSUMED, ConvexLoss-NDCG: accuracy by {option}"
        write(number, LineChart(title, option, lines, y_label="mean over test lists"))
    lines = []
    for name, above in (("loss 0", 0), ("in between", 2), ("worst", 60)):
        shares, edges = np.histogram(smear(3, 60, above=above), bins=25, range=(0.0, 1.0))
        middles = 0.5 * (edges[1:] + edges[:-1])
        lines.append(Line(name, middles, shares / shares.sum(), style="both"))
    write(7, LineChart("Smear of the loss, 3 of 63 relevant", "loss", lines, y_label="share"))
    path = dynamics(clean_fold(folds[0]).train)
    mean = np.abs(path.compatibilities[1:]).mean(axis=0)
    lines = [Line("rankings", path.losses, mean, style="dots")]
    write(8, LineChart("w·φ against the loss", "loss", lines, y_label="|w·δφ|"))


def dynamics_table(folds: list[Fold]) -> str:
    way = dynamics(clean_fold(folds[0]).train, name="convexloss-auc")
    assert way.exact is not None
    rows = [
        f"| {k} | {a:.2f} | {b:.1f} | {np.abs(c).mean():.2f} |"
        for k, (a, b, c) in enumerate(zip(way.sampled, way.exact, way.compatibilities, strict=True))
    ]
    heading = "| iteration | sampled | closed form | mean of abs(w.δφ) |"
    return "\n".join([heading, "| --- | --- | --- | --- |", *rows])


PAGE = """# Linear and classical models

Made by `python benchmarks/linear_results.py DATA --keep SCRATCH`. Systems are the recipes with
their defaults.

{intro}

† and ‡: different from `ranksvm` and from `svmmap` (+ better, − worse) with p < .05 in a paired
randomisation test over lists, corrected by Holm's method for the number of systems. NDCG has binary
gain and the discount of Järvelin & Kekäläinen.

Reading the counts of wins: "its best" takes the best of a family's three systems on the test lists,
which favours the family; the cells of `all` are nine tenths MQ2007, so cells are not independent;
and a win by any margin counts. By the paired tests no system is better than `ranksvm` or `svmmap`
anywhere; those marked − are worse. Two sets say nothing of the six .gov sets of LETOR 3, where
lists have few relevant documents: the paper's claims are not tested there.

{tables}

## Reference points of LETOR 3

OHSUMED as it is, three label levels, the metrics of the LETOR 3 script (`convention="letor3"`),
means of the five folds' means, MAP on validation for the choice of C or rounds.

{letor}

RankBoost is within .003 of the published figures; RankSVM and ListNet with C chosen on validation
are above them. We looked for the reason with C fixed at six to nine values, reading the test lists,
so the rows that name a C were picked after the fact. ListNet as published had no penalty: without
one (C = 10000) ours is within .006 in both figures, and the penalty is what we gain. RankSVM with a
weak penalty (C of 0.1 and above) has the published MAP, but an NDCG@10 .02 above; learning from
relevant or not, without the pairs of definitely over possibly relevant documents, and with a weak
penalty, it comes within .01 in both. That the authors did the same is a guess that fits.

## The sampler

OHSUMED, `convexloss-ndcg`, cleaned; mean of the folds' test means (metrics of the papers'
convention, binary labels), one option changed at a time. The defaults are 200 samples, two restarts
with probability .9 for the best, walks of 10 mutations. These are single runs (one seed) read on
105 test lists, without tests of significance: differences of .01 mean little, and nothing was
chosen by them. Accuracy does not rise steadily with the number of samples here as the paper's
Figure 4 has it; restarts skewed to good rankings are better, as in its Figures 5 (for .9) and 6.

{samplers}

![Figure 4](linear-figure-4.svg) ![Figure 5](linear-figure-5.svg)
![Figure 6](linear-figure-6.svg) ![Figure 7](linear-figure-7.svg)
![Figure 8](linear-figure-8.svg)

The sampled objective and the closed form over all sign vectors (`convexloss-auc`, first training
fold of OHSUMED, C = 0.001) as the weights evolve. The two sum over different sets, so their values
differ; both fall over the ten iterations, not at each one (the penalty is left out).

{dynamics}
"""

INTRO = (
    "Protocol of Dubey et al. (2009): documents with conflicting labels and lists without a "
    "relevant document removed, labels binary, five folds, C from 10^-7 to 10^5 by MAP on the "
    "validation lists, test lists of the five folds pooled. MQ2007_partial is MQ2007 with 15 % of "
    "the documents missing, so its figures are comparable among themselves only."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder that holds the sets")
    parser.add_argument("--sets", nargs="+", default=DATA, help="OHSUMED among them")
    parser.add_argument("--keep", type=Path, required=True, help="folder for what is done")
    parser.add_argument("--page", type=Path, default=Path("docs/results/linear.md"))
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    folds = {name: read_folds(options.data / name) for name in options.sets}
    results = run_protocol(folds, store=options.keep / "runs.db")
    found = samplers(folds["OHSUMED"], options.keep)
    page = PAGE.format(
        intro="\n".join(wrap(INTRO, 99)),
        tables=markdown_tables(results),
        letor=letor_table(folds["OHSUMED"], options.keep),
        samplers=sampler_table(found),
        dynamics=dynamics_table(folds["OHSUMED"]),
    )
    options.page.parent.mkdir(parents=True, exist_ok=True)
    options.page.write_text(page, encoding="utf-8")
    figures(found, folds["OHSUMED"], options.page.parent)


if __name__ == "__main__":
    main()
