"""A small table of text that can be shown anywhere: Markdown, LaTeX, HTML, terminals."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Literal

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
class Grid:
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

    def html(self) -> str:
        """For reports."""
        head = "".join(f"<th>{escape(each)}</th>" for each in self.columns)
        rows = "".join(_html_row(row) for row in self.rows)
        note = f"<p class='small'>{escape(self.note)}</p>" if self.note else ""
        return (
            f"<h3>{escape(self.caption)}</h3><div class='scroll'><table><thead><tr>{head}</tr>"
            f"</thead><tbody>{rows}</tbody></table></div>{note}"
        )


def _first(row: Row, indent: str) -> str:
    return f"{indent}paper" if row.kind == "paper" else row.cells[0]


def _bare(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def _latex_line(cells: tuple[str, ...]) -> str:
    return " & ".join("".join(_LATEX.get(c, c) for c in cell) for cell in cells) + r" \\"


def _html_row(row: Row) -> str:
    kind = " class='baseline'" if row.kind == "paper" else ""
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in (_first(row, "· "), *row.cells[1:]))
    return f"<tr{kind}>{cells}</tr>"
