r"""Tables in Markdown and LaTeX: leaderboards, and small tables of text.

LaTeX tables need ``\usepackage{booktabs,amssymb}``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from plackett.experiments.results import CORRECTIONS, TESTS, Entry, Leaderboard

_MARKS = {"better": "▲", "worse": "▼", "": ""}
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
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


def describe_test(board: Leaderboard) -> str:
    """The test behind the marks: its name, what it pairs, its level and the correction."""
    unit = board.unit.removesuffix("s") if board.n_counted == 1 else board.unit
    return (
        f"two-sided {TESTS[board.test]} over {board.n_counted:,} paired {unit}, level "
        f"{board.alpha:g}, {CORRECTIONS[board.correction]}'s correction"
    )


def best_means(board: Leaderboard) -> dict[str, float]:
    """The best mean of each metric."""
    return {m: max(entry.means[m] for entry in board.entries) for m in board.metrics}


def latex_table(board: Leaderboard) -> str:
    r"""A leaderboard with means and half-widths of their 95 % intervals, the best in bold."""
    best = best_means(board)
    rows = []
    for entry in board.entries:
        cells = [_latex_cell(entry, m, board, best[m]) for m in board.metrics]
        rows.append([escape_latex(entry.name), *cells])
    parted = (metric.partition("@") for metric in board.metrics)
    columns = ["System", *(escape_latex(f"{name.upper()}{sign}{rest}") for name, sign, rest in parted)]
    note = f"Marks: different from {board.baseline}, {describe_test(board)}."
    return _tabular(columns, rows, note)


def _tabular(columns: Sequence[str], rows: Sequence[Sequence[str]], note: str) -> str:
    lines = [
        r"% \usepackage{booktabs,amssymb}",
        rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}",
        r"\toprule",
        " & ".join(columns) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join([*lines, *(f"% {line}" for line in note.splitlines()), ""])


def _latex_cell(entry: Entry, metric: str, board: Leaderboard, best: float) -> str:
    mean = f"{entry.means[metric]:.4f}"
    text = rf"\textbf{{{mean}}}" if entry.means[metric] == best else mean
    low, high = entry.intervals[metric]
    mark = escape_latex(_MARKS[board.verdict(entry, metric)])
    return rf"{text}{mark} {{\scriptsize $\pm${(high - low) / 2:.4f}}}"


def escape_latex(text: str) -> str:
    """Escape the special characters of LaTeX."""
    return "".join(_LATEX.get(c, c) for c in text)


def markdown_table(board: Leaderboard) -> str:
    """A leaderboard with 95 % intervals of the means, the best in bold."""
    best = best_means(board)
    columns = ["system", *board.metrics, "p", "seconds"]
    rows = []
    for entry in board.entries:
        is_baseline = entry.name == board.baseline
        name = _escape_markdown(entry.name) + (" (baseline)" if is_baseline else "")
        cells = [_markdown_cell(entry, m, board, best[m]) for m in board.metrics]
        p = entry.adjusted.get(board.primary)
        text = "" if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"
        rows.append([name, *cells, text, f"{entry.seconds:.1f}"])
    note = (
        f"▲ better, ▼ worse than {_escape_markdown(board.baseline)}: {describe_test(board)}; p is that of "
        f"{board.primary}. In brackets: 95 % intervals of the means. Seconds: training, one trial."
    )
    return f"{_markdown_lines(columns, rows)}\n\n{note}\n"


def _markdown_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _markdown_cell(entry: Entry, metric: str, board: Leaderboard, best: float) -> str:
    mean = f"{entry.means[metric]:.4f}"
    text = f"**{mean}**" if entry.means[metric] == best else mean
    mark = _MARKS[board.verdict(entry, metric)]
    low, high = entry.intervals[metric]
    return f"{text}{' ' if mark else ''}{mark} [{low:.4f}, {high:.4f}]"


def _escape_markdown(text: str) -> str:
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>|#" else c for c in text)


@dataclass(frozen=True)
class Row:
    """A row of a table; the first cell names it."""

    cells: tuple[str, ...]
    kind: Literal["ours", "paper", "plain"] = "plain"  # a row of our numbers, the paper's row below it, or neither


@dataclass(frozen=True)
class TextTable:
    """A table of text with a caption above and a note below."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""

    def markdown(self) -> str:
        """The table in Markdown."""
        columns, *rows = (
            [cell.replace("|", "\\|").replace("*", "\\*") for cell in cells]
            for cells in (self.columns, *(_cells(row, "· ") for row in self.rows))
        )
        note = f"\n{self.note}\n" if self.note else ""
        return f"**{self.caption}**\n\n{_markdown_lines(columns, rows)}\n{note}"

    def latex(self) -> str:
        """The table in LaTeX."""
        columns, *rows = (
            [escape_latex(cell) for cell in cells]
            for cells in (self.columns, *(_cells(row, "  ") for row in self.rows))
        )
        return f"% {self.caption}\n{_tabular(columns, rows, self.note)}"


def _cells(row: Row, indent: str) -> tuple[str, ...]:
    return (f"{indent}paper", *row.cells[1:]) if row.kind == "paper" else row.cells
