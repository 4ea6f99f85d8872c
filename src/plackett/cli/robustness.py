"""``plackett robustness``: measure how noise in the training lists affects systems."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plackett.base.errors import UsageError
from plackett.cli import console
from plackett.cli.options import (
    Baseline,
    DataOptions,
    DataPaths,
    Json,
    Store,
    SystemOptions,
    TrialOptions,
    check_report_folder,
    split_names,
)

if TYPE_CHECKING:
    from plackett.distributed import Cluster
    from plackett.experiments.plan import Plan
    from plackett.experiments.robustness import RobustnessCurves


def robustness(
    data: DataPaths,
    systems: SystemOptions,
    running: TrialOptions,
    reading: DataOptions,
    perturb: Annotated[
        str, typer.Option(help="Kinds of noise, separated by commas: negatives, labels, clicks.")
    ] = "negatives,labels",
    levels: Annotated[
        str | None, typer.Option(help="Noise levels, separated by commas.  \\[default: those of Bruch 2021]")
    ] = None,
    trials: Annotated[int, typer.Option(min=2, help="Number of random 60/20/20 splits at each level.")] = 10,
    metrics: Annotated[
        str, typer.Option("--metric", help="Metrics to report, separated by commas; the first also selects the models.")
    ] = "ndcg@5",
    baseline: Baseline = None,
    out: Annotated[Path, typer.Option(help="Folder for the report, tables, figures and finished trials.")] = Path(
        "robustness"
    ),
    store: Store = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the splits, the models and the noise.")] = 0,
    json: Json = False,
) -> None:
    """Train models under growing noise and show how much they lose.

    The lists of all folds are pooled and split at random. The same command resumes an interrupted
    experiment.
    """
    from plackett.experiments.plan import plan_comparison
    from plackett.experiments.protocols import Splits
    from plackett.experiments.robustness import NoiseProtocol, noise_kind
    from plackett.metrics import split

    kinds = {name: noise_kind(name) for name in split_names(perturb)}
    chosen_levels = _parse_levels(levels)
    check_report_folder(out)
    rankers = systems.build()
    source = reading.open_source(data)
    plans = {
        name: plan_comparison(
            source,
            rankers,
            protocol=NoiseProtocol(Splits(trials, seed), kind.noise, chosen_levels or kind.levels),
            metrics=metrics,
            baseline=baseline,
            metric=split(metrics)[0],
            seed=seed,
        )
        for name, kind in kinds.items()
    }
    cluster = running.find_cluster()
    cores = running.cores(cluster)
    curves = _run(plans, store or str(out / "runs.db"), out, cores, cluster)
    _print_result(plans, curves, out, json)


def _parse_levels(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(level) for level in text.split(","))
    except ValueError:
        raise UsageError(f"--levels takes numbers separated by commas, such as 0,0.5,1, got {text!r}.") from None


def _run(
    plans: dict[str, Plan], store: str, scratch: Path, cores: dict[str, Any], cluster: Cluster | None
) -> dict[str, RobustnessCurves]:
    from plackett.experiments.compare import run_trials
    from plackett.experiments.plan import forecast
    from plackett.experiments.robustness import read_curves
    from plackett.experiments.store import RunStore

    with RunStore(store) as runs:
        all_plans = list(plans.values())
        ahead = forecast(*all_plans, store=runs, **cores)
        noise = "; ".join(str(plan.protocol) for plan in all_plans)
        text = f"{ahead.trials} trials: {len(all_plans[0].systems)} systems under {noise}"
        console.ERR.print(text + console.describe_forecast(ahead), soft_wrap=True)
        for plan in all_plans:
            kept = console.explain_interrupt(lambda: console.describe_kept(runs, store, all_plans))
            with kept, console.count_convergence_warnings(), console.step_progress() as progress:
                run_trials(
                    plan,
                    store=runs,
                    scratch=scratch,
                    progress=console.with_time_left(progress),
                    cluster=cluster,
                    **cores,
                )
        return {name: read_curves(plan, store=runs) for name, plan in plans.items()}


def _print_result(plans: dict[str, Plan], curves: dict[str, RobustnessCurves], out: Path, json: bool) -> None:
    from plackett.experiments.robustness import curve_table, robustness_payload, write_robustness

    results = [(name, plans[name], curve) for name, curve in curves.items()]
    files = write_robustness(results, out, command=shlex.join(["plackett", *sys.argv[1:]]))
    if json:
        console.print_json(robustness_payload(results) | {"report": str(files.report)})
        return
    console.print_tables([curve_table(curve) for curve in curves.values()])
    console.print_text(f"report: {files.report}")
