"""``plackett convert``: from one form of a data set to another.

``plackett describe``: what is in a data set.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich import box
from rich.table import Table

from plackett.cli.console import OUT, byte_progress, print_json
from plackett.cli.tables import count_table
from plackett.data.dataset import Dataset
from plackett.data.description import Description
from plackett.data.description import describe as describe_dataset
from plackett.data.folds import Fold, concat, is_folds, read_folds
from plackett.data.reader import read


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
    from plackett.data.writer import convert as run

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


def describe(
    data: Annotated[Path, typer.Argument(help="A data set, or a folder with folds.")],
    missing: Annotated[
        Literal["nan"] | None, typer.Option(help='"nan": take NaN as a missing value.')
    ] = None,
    features: Annotated[
        int | None, typer.Option(min=1, help="Number of features of text files.")
    ] = None,
    label: Annotated[str, typer.Option(help="Label column of a table.")] = "label",
    query: Annotated[str, typer.Option(help="Query column of a table.")] = "query_id",
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse queries whose rows are scattered.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Print the statistics of a data set, with histograms of list lengths and labels.

    A folder with several folds is described by the test lists of all folds together, which are
    all its lists; a folder with one fold by all its parts.
    """
    with byte_progress(f"reading {data.name}") as progress:
        if is_folds(data):
            folds = read_folds(
                data,
                missing=missing,
                n_features=features,
                label=label,
                query=query,
                strict=strict,
                progress=progress,
            )
            parts = {
                f"{fold.name} {role}": part
                for fold in folds
                for role, part in _parts(fold.train, fold.validation, fold.test)
            }
            dataset = _whole(folds)
        else:
            parts = {}
            dataset = read(
                data,
                missing=missing,
                n_features=features,
                label=label,
                query=query,
                strict=strict,
                progress=progress,
            )
    found = describe_dataset(dataset)
    if json:
        sizes = {name: {"lists": p.n_lists, "documents": p.n_docs} for name, p in parts.items()}
        print_json(found.to_dict() | ({"parts": sizes} if sizes else {}))
        return
    OUT.print(_facts(data.name, found))
    if parts:
        OUT.print(_part_table(parts))
    OUT.print(count_table("lists by number of documents", found.lengths))
    OUT.print()
    OUT.print(count_table("documents by label", found.labels))


def _parts(train: Dataset, validation: Dataset | None, test: Dataset) -> list[tuple[str, Dataset]]:
    middle = [] if validation is None else [("validation", validation)]
    return [("train", train), *middle, ("test", test)]


def _whole(folds: list[Fold]) -> Dataset:
    """All lists once: the tests of several folds, or all parts of a single one."""
    if len(folds) > 1:
        return concat([fold.test for fold in folds])
    parts = _parts(folds[0].train, folds[0].validation, folds[0].test)
    return concat([part for _, part in parts])


def _facts(name: str, d: Description) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    rows = [
        ("data set", name, ""),
        ("queries (lists)", f"{d.n_lists:,}", ""),
        ("documents", f"{d.n_docs:,}", ""),
        ("features", f"{d.n_features:,}", f"{d.constant_features:,} constant"),
        ("label levels", f"{d.n_levels}", ""),
        ("lowest label", f"{d.lowest_share:.2%}", "share of documents (LR)"),
        ("lowest label per query", f"{d.mean_lowest_share:.2%}", "mean over the lists (ALRPQ)"),
        ("longest list", f"{d.longest:,}", "documents (MPQ)"),
        (
            "list length",
            f"{d.mean_length:.1f}",
            f"mean; median {d.median_length:g}, shortest {d.shortest}",
        ),
        ("blank lists", f"{d.blank_lists:,}", "no relevant document"),
        ("single-label lists", f"{d.single_label_lists:,}", "nothing to rank"),
        ("zeros", f"{d.zero_share:.1%}", "of feature values"),
        ("missing", f"{d.missing_share:.1%}", "of feature values"),
    ]
    for row in rows:
        table.add_row(*row)
    return table


def _part_table(parts: dict[str, Dataset]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("part")
    table.add_column("lists", justify="right")
    table.add_column("documents", justify="right")
    for name, part in parts.items():
        table.add_row(name, f"{part.n_lists:,}", f"{part.n_docs:,}")
    return table
