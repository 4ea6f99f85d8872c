"""The files of a comparison: report, tables, figures, and results for other programs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plackett.base.files import tsv_cell, write_json, write_text
from plackett.data import Description, describe
from plackett.experiments.compare import CompareResult
from plackett.experiments.figures import FORMATS, Chart, can_draw, write_figure
from plackett.experiments.protocols import Seeds, Splits
from plackett.experiments.report import comparison
from plackett.experiments.report.queries import Column, FeatureTable, browse_queries, segment_results
from plackett.experiments.results import TrialDetails
from plackett.experiments.tables import latex_table, markdown_table

CONVENTION = (
    "Metrics, unless their names say otherwise: gain 2^label - 1, discount 1/log2(1 + rank), lists "
    "without a relevant document left out, ERR with the top label of each list."
)

_UNWEIGHTED = "The weights of lists count in training only; means and tests weight all test lists equally."
_SELECTION = "Models were chosen by {} on validation lists; test lists were looked at once."


@dataclass(frozen=True)
class WrittenFiles:
    """Paths of the report, and of the results for other programs."""

    report: Path
    results: Path


@dataclass(frozen=True)
class ReportFiles(WrittenFiles):
    """Paths of what was written."""

    markdown: Path
    latex: Path
    per_list: Path  # values of single lists, for other programs
    figures: tuple[Path, ...]  # each figure in each format


def write_files(
    compared: CompareResult,
    folder: Path,
    *,
    command: str | None = None,
    formats: Sequence[str] | None = None,
    segments: Mapping[str, Column] | None = None,
) -> ReportFiles:
    """Write results, tables, figures and report of a comparison into a folder.

    Parameters
    ----------
    compared
        The comparison.
    folder
        Created if it does not exist; files in it are replaced.
    command
        The command that repeats it, for the reader.
    formats
        Formats of the figures: ``svg``, ``png``, ``pdf``. By default all of them if Matplotlib is
        installed (the extra ``figures``), else none.
    segments
        Columns to group test lists by, besides their length and their number of relevant documents:
        for each name, values by query id.
    """
    formats = (FORMATS if can_draw() else ()) if formats is None else formats
    description = describe(compared.plan.source.pooled)
    report = _report(compared, description, command, segments)
    charts: dict[str, Chart] = {}
    if len(report.board.entries) > 1:
        charts["differences"] = comparison.difference_chart(report.board, report.board.primary)
    if report.curves:
        charts["learning_curves"] = comparison.curve_chart(report.curves, report.curve_metric)
    files = ReportFiles(
        folder / "report.html",
        folder / "results.json",
        folder / "leaderboard.md",
        folder / "leaderboard.tex",
        folder / "per_list.tsv",
        tuple(path for name, chart in charts.items() for path in write_figure(chart, folder / name, formats)),
    )
    write_json(files.results, payload(compared, description))
    write_text(files.markdown, markdown_table(compared.board))
    write_text(files.latex, latex_table(compared.board))
    write_text(files.per_list, per_list_table(compared.results.details))
    comparison.write_report(report, files.report)
    return files


def per_list_table(trials: Sequence[TrialDetails]) -> str:
    """Values of each metric and list, a column per system; empty where the metric drops the list.

    If trials are repeated (splits, seeds), it contains only the first; the store has all.
    """
    systems = list(trials[0].values)
    lines = ["\t".join(["trial", "query_id", "metric", *map(tsv_cell, systems)])]
    for details in trials:
        for metric in details.values[systems[0]]:
            columns = [details.values[name][metric] for name in systems]
            for query, *values in zip(details.data.test.list_ids, *columns, strict=True):
                cells = ["" if math.isnan(v) else f"{v:.10g}" for v in values]
                lines.append("\t".join([tsv_cell(details.split.name), tsv_cell(query), metric, *cells]))
    return "\n".join([*lines, ""])


def payload(compared: CompareResult, description: Description | None = None) -> dict[str, Any]:
    """A comparison as plain data."""
    plan = compared.plan
    trials = [{"system": t.system.name, "trial": t.split.name, "digest": t.identity.digest} for t in plan.trials]
    means = {
        name: {metric: values.tolist() for metric, values in by_metric.items()}
        for name, by_metric in compared.results.trial_means.items()
    }
    return {
        "data": {"name": plan.source.name, **(description.to_dict() if description else {})},
        "protocol": str(plan.protocol),
        "selected_by": plan.select,
        "leaderboard": compared.board.to_dict(),
        "resampled_t_test": resampled(compared),
        "trial_means": means,
        "settings": plan.settings(),
        "environment": plan.environment(),
        "trials": trials,
    }


def resampled(compared: CompareResult) -> dict[str, float]:
    """p-values of the primary metric corrected for overlapping splits; empty without splits."""
    protocol, board = compared.plan.protocol, compared.board
    if not isinstance(protocol, Splits):
        return {}
    values = compared.results.values
    return {
        name: protocol.resampled_t_test(by_metric[board.primary] - values[board.baseline][board.primary])
        for name, by_metric in values.items()
        if name != board.baseline
    }


def _report(
    compared: CompareResult, description: Description, command: str | None, segments: Mapping[str, Column] | None
) -> comparison.Report:
    plan, board, results = compared.plan, compared.board, compared.results
    systems = [entry.name for entry in board.entries]
    shares = [of_system.mean(axis=0) for of_system in results.importances.values()]
    features = FeatureTable(plan.source, np.mean(shares, axis=0) if shares else None)
    return comparison.Report(
        title=f"Comparison on {plan.source.name}",
        lead=_lead(compared),
        board=board,
        description=description,
        curves=results.curves,
        curve_metric=plan.selection_metric,
        notes=_notes(compared),
        trials={n: by_metric[board.primary].tolist() for n, by_metric in results.trial_means.items()},
        resampled=resampled(compared),
        browser=browse_queries(
            results.details,
            systems=systems,
            metric=board.primary,
            baseline=board.baseline,
            note=f"The test queries of {results.details[0].split.name}."
            if isinstance(plan.protocol, (Splits, Seeds))
            else "All test queries.",
            features=features,
        ),
        settings=plan.settings(),
        environment=plan.environment(),
        command=command,
        segments=segment_results(
            results.details, metric=board.primary, baseline=board.baseline, systems=systems, columns=segments
        ),
        importances=results.importances,
        feature_names=features.dataset.feature_names or (),
    )


def _notes(compared: CompareResult) -> tuple[str, ...]:
    plan = compared.plan
    notes = (plan.protocol.description, _SELECTION.format(plan.select), CONVENTION)
    weighted = any(shown.data.test.weights is not None for shown in compared.results.details)
    return (*notes, _UNWEIGHTED) if weighted else notes


def _lead(compared: CompareResult) -> str:
    plan, first = compared.plan, compared.results.details[0].data
    count = len({trial.split.index for trial in plan.trials})
    sizes = " / ".join(f"{d.n_lists:,}" for d in (first.train, first.validation, first.test))
    return (
        f"{len(plan.systems)} systems, protocol {plan.protocol} ({count} "
        f"{'trial' if count == 1 else 'trials'}), {sizes} lists for training / validation / test."
    )
