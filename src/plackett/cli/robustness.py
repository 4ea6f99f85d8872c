"""``plackett robustness``: measure how noise in the training lists affects systems."""

from pathlib import Path
from typing import Annotated

import typer

from plackett.base.errors import UsageError
from plackett.cli import console, options
from plackett.experiments.compare import run_trials
from plackett.experiments.noise import NoiseProtocol, noise_kind
from plackett.experiments.plan import plan_comparison
from plackett.experiments.protocols import Splits
from plackett.experiments.robustness import curve_table, read_curves, robustness_payload, write_robustness
from plackett.metrics import split


def robustness(
    data: options.DataPaths,
    systems: options.SystemOptions,
    running: options.TrialOptions,
    reading: options.DataOptions,
    perturb: Annotated[
        str,
        "Kinds of noise, separated by commas: negatives (sampled negatives), labels (perturbed labels), clicks "
        "(simulated clicks).",
    ] = "negatives,labels",
    levels: Annotated[
        str | None, "Noise levels, separated by commas.  [default: those of each kind: 0 to 1, for clicks 0.05 to 0.25]"
    ] = None,
    trials: Annotated[
        int, typer.Option(min=2, help="Number of trials at each level, each on a random 60/20/20 split.")
    ] = 10,
    metrics: Annotated[
        str,
        typer.Option(
            "--metric",
            help="Metrics to report on the test lists, separated by commas; the first is also the one for early "
            "stopping and model selection.",
        ),
    ] = "ndcg@5",
    baseline: options.Baseline = None,
    out: Annotated[Path, "Folder for the report, tables, figures and finished trials."] = Path("robustness"),
    store: options.Store = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the splits, the models and the noise.")] = 0,
    json: options.Json = False,
) -> None:
    """Train models on increasingly noisy data, and show how much quality they lose.

    The lists of all folds are pooled and split at random. The same command resumes an interrupted experiment.
    """
    noises = {name: noise_kind(name) for name in options.split_names(perturb)}
    chosen_levels = _parse_levels(levels)
    options.check_report_folder(out)
    rankers = systems.build()
    source = reading.open_source(data)
    plans = {
        name: plan_comparison(
            source,
            rankers,
            protocol=NoiseProtocol(Splits(trials, seed), noise, chosen_levels or noise.levels),
            metrics=metrics,
            baseline=baseline,
            metric=split(metrics)[0],
            seed=seed,
        )
        for name, noise in noises.items()
    }
    cluster, parallelism = running.find_parallelism()
    all_plans = list(plans.values())
    text = f": {len(rankers)} systems under {'; '.join(str(plan.protocol) for plan in all_plans)}"
    with console.trial_progress(all_plans, store or str(out / "runs.db"), parallelism, text) as (runs, progress):
        for plan in all_plans:
            report = console.with_time_left(progress)
            run_trials(plan, store=runs, scratch=out, progress=report, cluster=cluster, **parallelism)
        results = [(name, plan, read_curves(plan, store=runs)) for name, plan in plans.items()]
    files = write_robustness(results, out, command=console.this_command())
    if json:
        console.print_json(robustness_payload(results) | {"report": str(files.report)})
        return
    console.print_tables([curve_table(curves) for _, _, curves in results])
    console.print_text(f"report: {files.report}")


def _parse_levels(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(level) for level in text.split(","))
    except ValueError:
        raise UsageError(f"--levels takes numbers separated by commas, such as 0,0.5,1, got {text!r}.") from None
