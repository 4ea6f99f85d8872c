"""``plackett auto``: the best model within a time limit, with its leaderboard."""

import shutil
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from plackett.base.errors import UsageError
from plackett.cli.console import print_json, print_text, step_progress
from plackett.cli.options import ClusterOption, DataOptions, DataPaths, Json, find_cluster, split_names
from plackett.data import Dataset
from plackett.experiments import compare_paired
from plackett.experiments.report.page import write_page
from plackett.metrics import evaluate, per_list
from plackett.models import AutoRanker
from plackett.models.artifact import check_save_path


def auto(
    data: DataPaths,
    out: Annotated[Path, "Folder of the model, for example model.plackett."],
    reading: DataOptions,
    minutes: Annotated[float, typer.Option(min=0.01, help="Time for the search, in minutes.")] = 10.0,
    metric: Annotated[str, "Metric for early stopping, and for selecting the ensemble."] = "ndcg@10",
    preset: Annotated[
        Literal["fast", "good", "best"],
        "What to try. fast: one small tree model; good: tree models; best: trees, nets and linear models.",
    ] = "best",
    members: Annotated[
        str, "Candidates, separated by commas: recipes, or families (trees, nets, linear). auto: all."
    ] = "auto",
    validation: Annotated[
        list[Path] | None, "Additional lists; cross-fitting rotates over them and the training lists. Repeatable."
    ] = None,
    test: Annotated[list[Path] | None, "Test data to evaluate the finished model on. Repeatable."] = None,
    distill: Annotated[bool, "Replace members that are not trees with one tree model trained on their scores."] = False,
    work: Annotated[
        Path | None,
        "Folder for intermediate results; the same command resumes a killed run.  [default: OUT.work, removed at "
        "the end]",
    ] = None,
    report: Annotated[Path | None, "Write the leaderboard as an HTML file."] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of threads.  \\[default: all]")] = None,
    cluster: ClusterOption = None,
    json: Json = False,
) -> None:
    """Find the best model within a time limit, and write it to disk."""
    check_save_path(out)
    folder = work or out.with_name(out.name + ".work")
    if folder.resolve() == out.resolve():
        raise UsageError("--out and --work name the same folder; choose two folders.")
    ray_cluster = find_cluster(cluster)
    training, extra, test_data = reading.open_parts(data, validation, test)
    ranker = AutoRanker(
        minutes=minutes,
        metric=metric,
        members=tuple(split_names(members)),
        presets=preset,
        distill="trees" if distill else None,
        seed=seed,
        threads=threads,
    )
    begin = time.perf_counter()
    with step_progress() as progress:
        ranker.fit(training, extra, checkpoint=folder, progress=progress, cluster=ray_cluster)
    seconds = time.perf_counter() - begin
    ranker.save(out)
    if work is None:
        shutil.rmtree(folder, ignore_errors=True)
    result = _describe(ranker, out, test_data, seconds)
    if report is not None:
        unit = "minute" if minutes == 1 else "minutes"
        lead = f"{minutes:g} {unit}, {training.n_lists:,} lists. {ranker.summary()}."
        write_page(report, "auto.html", title=f"The best ranking: {out.name}", lead=lead, result=result)
    if json:
        print_json(result)
    else:
        _print_result(ranker, result)


def _describe(ranker: AutoRanker, out: Path, test: Dataset | None, seconds: float) -> dict[str, Any]:
    distilled = ranker.distillation_
    return {
        "model": str(out),
        "kind": "AutoRanker",
        "metric": ranker.metric,
        "minutes": ranker.minutes,
        "seconds": seconds,
        "training": ranker.training_,
        "members": dict(zip(ranker.member_names_, ranker.weights_.tolist(), strict=True)),
        "leaderboard": [row.to_dict() for row in ranker.leaderboard_],
        "distillation": None if distilled is None else distilled.to_dict() | {"loss": distilled.loss},
        "test": None if test is None else _measure_test(ranker, test),
    }


def _measure_test(ranker: AutoRanker, test: Dataset) -> dict[str, Any]:
    """Metrics of the model and its members on the test lists, with paired tests."""
    metrics = list(dict.fromkeys([ranker.metric, "ndcg@1", "ndcg@5", "ndcg@10"]))
    scores = {"model": ranker.predict(test)} | ranker.member_scores(test)
    values = {name: per_list(s, test, ranker.metric)[ranker.metric] for name, s in scores.items()}
    return {
        "lists": test.n_lists,
        "means": {name: evaluate(s, test, metrics) for name, s in scores.items()},
        "p_values": {m: compare_paired(values["model"], values[m]).randomization for m in values if m != "model"},
    }


def _print_result(ranker: AutoRanker, result: dict[str, Any]) -> None:
    if ranker.leaderboard_:
        print_text("out-of-fold lists")
        print_text(ranker.leaderboard())
    distilled = ranker.distillation_
    if distilled is not None and distilled.ranker is None:
        print_text("all members are tree models: the model is already a sum of trees, so nothing was distilled")
    elif distilled is not None:
        loss = "not measured" if distilled.loss is None else f"{distilled.loss:.4f}"
        print_text(
            f"distilled: {distilled.trees} trees, loses {loss} {ranker.metric}; scoring a list takes "
            f"{distilled.milliseconds:.2f} ms, with the ensemble {distilled.ensemble_milliseconds:.2f} ms"
        )
    if result["test"] is not None:
        print_text("test lists")
        for name, means in result["test"]["means"].items():
            text = ", ".join(f"{metric} {mean:.4f}" for metric, mean in means.items())
            p = result["test"]["p_values"].get(name)
            suffix = "" if p is None else f"  (difference from the ensemble: p {p:.3f})"
            print_text(f"{name:<26} {text}{suffix}")
    print_text(f"{result['model']}: {ranker.summary()}, {result['seconds']:.1f} s")
