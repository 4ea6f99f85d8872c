"""Leaderboards as tables for papers and pages.

What every table says of its numbers.

A leaderboard in LaTeX, for the package booktabs.

A leaderboard in Markdown.

A small table of text that can be shown anywhere: Markdown, LaTeX, HTML, terminals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from plackett.experiments.results import CORRECTIONS, TESTS, Entry, Leaderboard


def describe_test(board: Leaderboard) -> str:
    """The test behind the marks: over what, which, at what level, corrected how."""
    unit = board.unit.removesuffix("s") if board.n_counted == 1 else board.unit
    return (
        f"two-sided {TESTS[board.test]} over {board.n_counted:,} paired {unit}, level "
        f"{board.alpha:g}, {CORRECTIONS[board.correction]}'s correction"
    )


def best_means(board: Leaderboard) -> dict[str, float]:
    """The best mean of each metric."""
    return {m: max(entry.means[m] for entry in board.entries) for m in board.metrics}


_LATEX_MARKS = {"better": r"$^{\blacktriangle}$", "worse": r"$^{\blacktriangledown}$", "": ""}
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "^": r"\textasciicircum{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}


def latex_table(board: Leaderboard) -> str:
    r"""A tabular with means and half-widths of their 95 % intervals, the best in bold.

    The marks need ``\usepackage{amssymb}``, the rules ``\usepackage{booktabs}``.
    """
    best = best_means(board)
    lines = [
        r"% \usepackage{booktabs,amssymb}",
        rf"\begin{{tabular}}{{l{'r' * len(board.metrics)}}}",
        r"\toprule",
        " & ".join(["System", *(_latex_escaped(_shown(m)) for m in board.metrics)]) + r" \\",
        r"\midrule",
    ]
    for entry in board.entries:
        name = _latex_escaped(entry.name)
        cells = [_latex_cell(entry, m, board, best[m]) for m in board.metrics]
        lines.append(" & ".join([name, *cells]) + r" \\")
    note = f"Marks: different from {board.baseline}, {describe_test(board)}."
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", f"% {note}", ""])


def _latex_cell(entry: Entry, metric: str, board: Leaderboard, best: float) -> str:
    mean = f"{entry.means[metric]:.4f}"
    text = rf"\textbf{{{mean}}}" if entry.means[metric] == best else mean
    low, high = entry.intervals[metric]
    half = f"{(high - low) / 2:.4f}"
    return rf"{text}{_LATEX_MARKS[board.verdict(entry, metric)]} {{\scriptsize $\pm${half}}}"


def _shown(metric: str) -> str:
    name, sign, rest = metric.partition("@")
    return f"{name.upper()}{sign}{rest}"


def _latex_escaped(text: str) -> str:
    return "".join(_ESCAPES.get(c, c) for c in text)


_MARKDOWN_MARKS = {"better": " ▲", "worse": " ▼", "": ""}


def markdown_table(board: Leaderboard) -> str:
    """Means with 95 % intervals; the best in bold, marks where the baseline is beaten or beats."""
    best = best_means(board)
    head = ["system", *board.metrics, "p", "seconds"]
    lines = [_line(head), _line(["---", *["---:"] * (len(head) - 1)])]
    for entry in board.entries:
        base = entry.name == board.baseline
        name = _markdown_escaped(entry.name) + (" (baseline)" if base else "")
        cells = [_markdown_cell(entry, m, board, best[m]) for m in board.metrics]
        p = "" if base else _p_value(entry.adjusted[board.primary])
        lines.append(_line([name, *cells, p, f"{entry.seconds:.1f}"]))
    note = (
        f"▲ better, ▼ worse than {_markdown_escaped(board.baseline)}: {describe_test(board)}; "
        f"p is that of {board.primary}. In brackets: 95 % intervals of the means. "
        "Seconds: training, one trial."
    )
    return "\n".join([*lines, "", note, ""])


def _markdown_cell(entry: Entry, metric: str, board: Leaderboard, best: float) -> str:
    mean = f"{entry.means[metric]:.4f}"
    text = f"**{mean}**" if entry.means[metric] == best else mean
    low, high = entry.intervals[metric]
    return f"{text}{_MARKDOWN_MARKS[board.verdict(entry, metric)]} [{low:.4f}, {high:.4f}]"


def _p_value(p: float) -> str:
    return "<0.0001" if p < 1e-4 else f"{p:.4f}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>|#" else c for c in text)


Kind = Literal["ours", "paper", "plain"]
"""A row of our numbers, the paper's row under it, or neither."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "▲": r"$^{\blacktriangle}$",
    "▼": r"$^{\blacktriangledown}$",
    "△": r"$^{\vartriangle}$",
    "▽": r"$^{\triangledown}$",
    "±": r"$\pm$",
    "−": "$-$",
    "λ": r"$\lambda$",
    "δ": r"$\delta$",
    "φ": r"$\phi$",
    "†": r"$\dagger$",
    "…": r"\ldots{}",
    "·": r"$\cdot$",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}


@dataclass(frozen=True)
class Row:
    """A line of a table: the first cell names it."""

    cells: tuple[str, ...]
    kind: Kind = "plain"


@dataclass(frozen=True)
class TextTable:
    """A table with a caption above and a note below."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""

    def markdown(self) -> str:
        """For pages."""
        lines = [self.columns, ["---", *["---:"] * (len(self.columns) - 1)]]
        lines += [(_first(row, "· "), *row.cells[1:]) for row in self.rows]
        table = "\n".join("| " + " | ".join(map(_bare, line)) + " |" for line in lines)
        return f"**{self.caption}**\n\n{table}\n" + (f"\n{self.note}\n" if self.note else "")

    def latex(self) -> str:
        r"""For papers: needs ``\usepackage{booktabs,amssymb}``."""
        lines = [
            f"% {self.caption}",
            r"% \usepackage{booktabs,amssymb}",
            rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
            r"\toprule",
            _latex_line(self.columns),
            r"\midrule",
            *(_latex_line((_first(row, "  "), *row.cells[1:])) for row in self.rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        return "\n".join([*lines, *(f"% {line}" for line in self.note.splitlines()), ""])


def _first(row: Row, indent: str) -> str:
    return f"{indent}paper" if row.kind == "paper" else row.cells[0]


def _bare(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def _latex_line(cells: tuple[str, ...]) -> str:
    return " & ".join("".join(_LATEX.get(c, c) for c in cell) for cell in cells) + r" \\"


__all__ = [
    "latex_table",
    "markdown_table",
]
