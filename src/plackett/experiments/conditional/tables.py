"""Results of the protocol as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plackett.experiments.conditional.claims import claims
from plackett.experiments.conditional.protocol import Results

_SURE = 0.05


def as_markdown(results: Results, *, baselines: Sequence[str] = ("ranksvm", "svmmap")) -> str:
    """A table per data set with paired tests, the penalties, and the paper's claims."""
    parts = [_board(results, data, baselines) for data in results.columns]
    parts.append(_claims(results))
    return "\n\n".join(parts) + "\n"


def _board(results: Results, data: str, baselines: Sequence[str]) -> str:
    present = [each for each in baselines if each in results.systems]
    boards = {each: results.board(data, each) for each in present}
    adjusted = {
        (base, entry.name, m): p
        for base, board in boards.items()
        for entry in board.entries
        for m, p in entry.adjusted.items()
    }
    rows = []
    for system in results.systems:
        cells = []
        for m in results.metrics:
            mean = results.mean(system, data, m)
            marks = ""
            for mark, base in zip("†‡", present, strict=False):
                sure = adjusted.get((base, system, m), 1.0) < _SURE
                sign = "+" if mean > results.mean(base, data, m) else "−"
                marks += f"{mark}{sign}" if sure else ""
            cells.append(f"{mean:.4f} {marks}".strip())
        rows.append([f"`{system}`", *cells, *_notes(results, system, data)])
    count = len(next(iter(results.values(results.systems[0], data).values())))
    heading = [*results.metrics, "C, fold by fold", "seconds"]
    return f"## {data}: {count:,} lists\n\n{_table(['system', *heading], rows)}"


def _notes(results: Results, system: str, data: str) -> list[str]:
    chosen = [o for o in results.outcomes if o.system == system and data == o.data]
    if not chosen:
        return ["", ""]
    outcome = chosen[0]
    powers = " ".join(f"{round(np.log10(c)):d}" for c in outcome.penalties)
    note = f"10^ {powers}" if powers else ""
    if outcome.unconverged:
        note += f" ({outcome.unconverged} not converged)"
    return [note, f"{outcome.seconds:.1f}"]


def _claims(results: Results) -> str:
    rows = [
        [c.text, c.paper, f"{c.wins} of {c.cells}", "yes" if c.holds else "no"]
        for c in claims(results)
    ]
    table = _table(["claim", "paper", "here", "in most cells"], rows)
    return f"## What the paper says, in our cells\n\n{table}"


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
