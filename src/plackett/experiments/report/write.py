"""The files that a comparison leaves: results.json, tables, the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plackett.base.files import tsv_cell, write_json, write_text
from plackett.data.description import Description, describe
from plackett.experiments.compare import CompareResult
from plackett.experiments.figures import Line, can_draw_png, interval_figure, line_figure, write_png
from plackett.experiments.protocols import Seeds, Splits
from plackett.experiments.report.query_browser import look_at
from plackett.experiments.report.render import Report, difference_rows, write_report
from plackett.experiments.results import TrialDetails
from plackett.experiments.significance import resampled_t_test
from plackett.experiments.systems import environment
from plackett.experiments.tables import latex_table, markdown_table

_CONVENTION = (
    "Metrics, unless their names say otherwise: gain 2^label - 1, discount 1/log2(1 + rank), lists "
    "without a relevant document left out, ERR with the top label of each list."
)


_UNWEIGHTED = "The weights of lists count in training; means and tests take all test lists alike."
_SELECTION = "Models were chosen by {} on validation lists; test lists were looked at once."


@dataclass(frozen=True)
class ReportFiles:
    """What was written."""

    results: Path
    markdown: Path
    latex: Path
    report: Path
    per_list: Path
    """Values of single lists, for other programs."""
    figures: tuple[Path, ...]
    """SVG files, and after them the same as PNG."""


def write_files(
    compared: CompareResult, folder: Path, *, command: str | None = None, png: bool | None = None
) -> ReportFiles:
    """Write results, tables and report of a comparison into a folder.

    Parameters
    ----------
    compared
        The comparison.
    folder
        Made if it is not there; files in it are replaced.
    command
        What repeats it, for the reader.
    png
        Figures as PNG beside the SVG; by default where what it takes is installed (the extra
        ``figures``, and a font).
    """
    drawn = _figures(compared)
    forms = ("svg", "png") if png or (png is None and can_draw_png()) else ("svg",)
    files = ReportFiles(
        folder / "results.json",
        folder / "leaderboard.md",
        folder / "leaderboard.tex",
        folder / "report.html",
        folder / "per_list.tsv",
        tuple(folder / f"{name}.{form}" for form in forms for name in drawn),
    )
    description = describe(compared.plan.source.pooled)
    write_json(files.results, payload(compared, description))
    write_text(files.markdown, markdown_table(compared.board))
    write_text(files.latex, latex_table(compared.board))
    write_text(files.per_list, per_list_table(compared.gathered.shown))
    for path in files.figures:
        figure = drawn[path.stem]
        write_png(figure, path) if path.suffix == ".png" else write_text(path, figure)
    write_report(_report(compared, description, command), files.report)
    return files


def per_list_table(shown: Sequence[TrialDetails]) -> str:
    """Values of each metric and list, a column per system; empty where the metric drops the list.

    Of repeated trials (splits, seeds) it has the first; the store has all.
    """
    systems = list(shown[0].values)
    lines = ["\t".join(["trial", "query_id", "metric", *map(tsv_cell, systems)])]
    for each in shown:
        for metric in each.values[systems[0]]:
            columns = [each.values[name][metric] for name in systems]
            for query, *values in zip(each.trial.test.query_ids, *columns, strict=True):
                cells = ["" if math.isnan(v) else f"{v:.10g}" for v in values]
                named = (tsv_cell(each.part.name), tsv_cell(query), metric)
                lines.append("\t".join([*named, *cells]))
    return "\n".join([*lines, ""])


def _figures(compared: CompareResult) -> dict[str, str]:
    """SVG files by name."""
    board = compared.board
    curves = {n: next(iter(own.values())) for n, own in compared.gathered.curves.items()}
    result = {}
    if len(board.entries) > 1:
        result["differences"] = interval_figure(
            difference_rows(board),
            title=f"Difference in {board.primary} from {board.baseline}",
            unit=f"difference in {board.primary}, with 95 % interval",
        )
    if curves:
        result["learning_curves"] = line_figure(
            {name: Line(range(1, len(ys) + 1), ys) for name, ys in curves.items()},
            title=f"{compared.plan.select.split(',')[0]} on the validation lists",
            x_label="step of training",
        )
    return result


def payload(compared: CompareResult, description: Description | None = None) -> dict[str, Any]:
    """A comparison as plain data."""
    plan = compared.plan
    trials = [
        {"system": job.system.name, "trial": job.part.name, "digest": job.identity.digest}
        for job in plan.jobs
    ]
    means = {
        name: {metric: values.tolist() for metric, values in own.items()}
        for name, own in compared.gathered.trial_means.items()
    }
    return {
        "data": {"name": plan.source.name, **(description.to_dict() if description else {})},
        "protocol": str(plan.protocol),
        "selected_by": plan.select,
        "leaderboard": compared.board.to_dict(),
        "resampled_t_test": resampled(compared),
        "trial_means": means,
        "settings": _settings(compared),
        "environment": _environment(compared),
        "trials": trials,
    }


def resampled(compared: CompareResult) -> dict[str, float]:
    """p-values of the primary metric corrected for overlapping splits; empty without splits."""
    protocol, board = compared.plan.protocol, compared.board
    if not isinstance(protocol, Splits):
        return {}
    values = compared.gathered.values
    shares = {"test_share": protocol.test_share, "train_share": protocol.train_share}
    return {
        name: resampled_t_test(own[board.primary] - values[board.baseline][board.primary], **shares)
        for name, own in values.items()
        if name != board.baseline
    }


def _report(compared: CompareResult, description: Description, command: str | None) -> Report:
    plan, board, gathered = compared.plan, compared.board, compared.gathered
    select = plan.select.split(",")[0]
    look = look_at(
        gathered.shown,
        systems=[entry.name for entry in board.entries],
        metric=board.primary,
        baseline=board.baseline,
        note=_note(compared),
    )
    return Report(
        title=f"Comparison on {plan.source.name}",
        lead=_lead(compared),
        board=board,
        description=description,
        curves={name: next(iter(own.values())) for name, own in gathered.curves.items()},
        curve_metric=select,
        curve_label=f"step of training ({gathered.shown[0].trial.name})",
        notes=_notes(compared),
        trials={n: own[board.primary].tolist() for n, own in gathered.trial_means.items()},
        resampled=resampled(compared),
        look=look,
        settings=_settings(compared),
        environment=_environment(compared),
        command=command,
    )


def _notes(compared: CompareResult) -> tuple[str, ...]:
    plan = compared.plan
    notes = (plan.protocol.description, _SELECTION.format(plan.select), _CONVENTION)
    weighted = any(shown.trial.test.weights is not None for shown in compared.gathered.shown)
    return (*notes, _UNWEIGHTED) if weighted else notes


def _lead(compared: CompareResult) -> str:
    plan, first = compared.plan, compared.gathered.shown[0].trial
    parts = len({job.part.index for job in plan.jobs})
    sizes = " / ".join(f"{d.n_lists:,}" for d in (first.train, first.validation, first.test))
    return (
        f"{len(plan.systems)} systems, protocol {plan.protocol} ({parts} "
        f"{'trial' if parts == 1 else 'trials'}), {sizes} lists for training / validation / test."
    )


def _note(compared: CompareResult) -> str:
    if isinstance(compared.plan.protocol, (Splits, Seeds)):
        return f"The test queries of {compared.gathered.shown[0].part.name}."
    return "All test queries."


def _settings(compared: CompareResult) -> Mapping[str, Mapping[str, Any]]:
    seed = compared.plan.jobs[0].part.seed
    return {system.name: system.settings(seed) for system in compared.plan.systems}


def _environment(compared: CompareResult) -> dict[str, str]:
    return environment({name for s in compared.plan.systems for name in s.libraries()})
