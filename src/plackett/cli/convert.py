"""``plackett convert``: from one form of a data set to another."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from plackett.cli.console import OUT, byte_progress, print_json


def convert(
    source: Annotated[Path, typer.Argument(help="What to read: text, Parquet, Arrow, .pkdata.")],
    target: Annotated[Path, typer.Argument(help="What to write; the suffix says the form.")],
    missing: Annotated[
        Literal["nan"] | None, typer.Option(help='"nan": take NaN as a missing value.')
    ] = None,
    features: Annotated[
        int | None, typer.Option(min=1, help="Number of features of a text file.")
    ] = None,
    label: Annotated[str, typer.Option(help="Label column of a table.")] = "label",
    query: Annotated[str, typer.Option(help="Query column of a table.")] = "query_id",
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse queries whose rows are scattered.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Convert a data set: text, Parquet, Arrow or the memory-mapped form (.pkdata).

    Text larger than memory is streamed. The memory-mapped form opens in milliseconds.
    """
    from plackett.data.write import convert as run

    start = time.perf_counter()
    with byte_progress(f"converting {source.name}") as progress:
        report = run(
            source,
            target,
            missing=missing,
            n_features=features,
            label=label,
            query=query,
            strict=strict,
            progress=progress,
        )
    seconds = time.perf_counter() - start
    facts = {
        "target": str(target),
        "lists": report.n_lists,
        "documents": report.n_docs,
        "features": report.n_features,
        "seconds": seconds,
    }
    if json:
        print_json(facts)
        return
    OUT.print(
        f"{target}: {report.n_lists:,} lists, {report.n_docs:,} documents, "
        f"{report.n_features:,} features in {seconds:.1f} s",
        highlight=False,
        soft_wrap=True,
    )
