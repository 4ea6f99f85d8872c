"""``plackett robustness``: what growing noise in the training lists does to systems."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plackett.base.errors import UsageError
from plackett.cli.console import (
    ERR,
    OUT,
    ahead_in_words,
    byte_progress,
    print_json,
    solvers_counted,
    step_progress,
    with_rest,
)
from plackett.cli.options import (
    Baseline,
    ClusterOption,
    Features,
    Jobs,
    Json,
    Label,
    Missing,
    Preset,
    Query,
    Set,
    Store,
    Strict,
    Threads,
    cluster_of,
    cores_of,
    parse_settings,
    read_data,
    read_options,
)
from plackett.cli.tables import print_grids

if TYPE_CHECKING:
    from plackett.distributed import Cluster as Place
    from plackett.experiments.plan import Plan
    from plackett.experiments.protocols import DataSource
    from plackett.experiments.robustness import RobustnessCurves
    from plackett.experiments.store import RunStore


def robustness(
    data: Annotated[
        Path, typer.Argument(help="A data set, or a folder with folds; its lists are pooled.")
    ],
    models: Annotated[
        str, typer.Option(help="Recipes, with commas between; a wrong name lists them.")
    ],
    perturb: Annotated[
        str,
        typer.Option(help="Kinds of noise, with commas between: negatives, labels, clicks."),
    ] = "negatives,labels",
    levels: Annotated[
        str | None,
        typer.Option(help="How much of it, with commas between.  [default: those of Bruch 2021]"),
    ] = None,
    trials: Annotated[int, typer.Option(min=2, help="Random splits 60/20/20 at each level.")] = 10,
    metrics: Annotated[
        str, typer.Option("--metric", help="What to measure on the test lists, and to choose by.")
    ] = "ndcg@5",
    baseline: Baseline = None,
    out: Annotated[
        Path, typer.Option(help="Folder for report, tables, figures and finished trials.")
    ] = Path("robustness"),
    store: Store = None,
    jobs: Jobs = 1,
    threads: Threads = None,
    cluster: ClusterOption = None,
    preset: Preset = None,
    settings: Set = None,
    seed: Annotated[int, typer.Option(min=0, help="Of splits, models and noise.")] = 0,
    missing: Missing = None,
    features: Features = None,
    label: Label = "label",
    query: Query = "query_id",
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Train models under growing noise and draw how they lose, with intervals and differences."""
    from plackett.experiments.plan import plan_comparison
    from plackett.experiments.protocols import Splits
    from plackett.experiments.robustness import NoiseProtocol
    from plackett.experiments.robustness.curves import noise_kind
    from plackett.experiments.systems import as_systems

    names = [name.strip() for name in models.split(",") if name.strip()]
    kinds = {name.strip(): noise_kind(name.strip()) for name in perturb.split(",")}
    chosen = _levels(levels)
    changed = parse_settings(settings or [])
    systems = {s.name: s.ranker for s in as_systems(names, preset=preset, settings=changed)}
    source = _source(data, read_options(missing, features, label, query, strict))
    plans = {
        name: plan_comparison(
            source,
            systems,
            protocol=NoiseProtocol(Splits(trials, seed), kind.corruption, chosen or kind.levels),
            metrics=metrics,
            baseline=baseline,
            select=metrics.split(",")[0],
            seed=seed,
        )
        for name, kind in kinds.items()
    }
    where = cluster_of(cluster)
    cores = {"jobs": jobs, "threads": threads} if where is None else cores_of(where)
    found = _run(plans, store or str(out / "runs.db"), out, cores, where)
    _show(plans, found, out, json)


def _source(data: Path, options: dict[str, Any]) -> DataSource:
    from plackett.data.folds import is_folds, read_folds
    from plackett.experiments.protocols import as_source

    name = data.resolve().name
    if not is_folds(data):
        return as_source(read_data(data, options), name=name)
    with byte_progress(f"reading {name}") as progress:
        return as_source(read_folds(data, progress=progress, **options), name=name)


def _levels(given: str | None) -> tuple[float, ...] | None:
    if given is None:
        return None
    try:
        return tuple(float(each) for each in given.split(","))
    except ValueError:
        raise UsageError(
            f"--levels takes numbers with commas between, such as 0,0.5,1, got {given!r}."
        ) from None


def _run(
    plans: dict[str, Plan],
    store: str,
    scratch: Path,
    cores: dict[str, Any],
    cluster: Place | None,
) -> dict[str, RobustnessCurves]:
    from plackett.experiments.compare import run_trials
    from plackett.experiments.robustness import read_curves
    from plackett.experiments.store import RunStore

    with RunStore(store) as kept:
        _announce(list(plans.values()), kept, cores)
        for plan in plans.values():
            with solvers_counted(), step_progress() as progress:
                tell = with_rest(progress)
                run_trials(
                    plan, store=kept, scratch=scratch, progress=tell, cluster=cluster, **cores
                )
        return {name: read_curves(plan, store=kept) for name, plan in plans.items()}


def _announce(plans: Sequence[Plan], store: RunStore, cores: dict[str, Any]) -> None:
    """Say how much there is to do, and how long it will take; trials without noise are shared."""
    from plackett.experiments.forecast import forecast

    ahead = forecast(*plans, store=store, **cores)
    text = f"{ahead.trials} trials: {len(plans[0].systems)} systems under " + "; ".join(
        str(plan.protocol) for plan in plans
    )
    ERR.print(text + ahead_in_words(ahead), highlight=False, soft_wrap=True)


def _show(
    plans: dict[str, Plan], found: dict[str, RobustnessCurves], out: Path, json: bool
) -> None:
    from plackett.experiments.robustness import curve_table
    from plackett.experiments.robustness.curves import robustness_payload, write_robustness

    together = [(name, plans[name], curves) for name, curves in found.items()]
    command = shlex.join(["plackett", *sys.argv[1:]])
    files = write_robustness(together, out, command=command)
    if json:
        print_json(robustness_payload(together) | {"report": str(files.report)})
        return
    print_grids([curve_table(curves) for curves in found.values()])
    OUT.print(f"report: {files.report}", highlight=False, soft_wrap=True)
