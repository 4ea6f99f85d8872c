"""``plackett convert`` and ``plackett describe``: convert a data set, and print its statistics."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from plackett.base.errors import UsageError
from plackett.cli.console import OUT, bar_table, byte_progress, make_table, print_facts, print_json
from plackett.cli.options import DataOptions, DataPaths, Json
from plackett.data import Dataset, Description, describe as describe_dataset, is_folds, join_folds
from plackett.data.writer import ConvertReport, convert as convert_file, write
from plackett.models.artifact import is_model


def convert(
    source: DataPaths,
    target: Annotated[
        Path,
        typer.Argument(
            help="File to write; its suffix selects the format: .txt .dat .letor .svmlight .libsvm (LETOR text, also "
            "with .gz or .xz), .csv .tsv (also with .gz), .parquet, .arrow .feather, .pkdata (memory-mapped)."
        ),
    ],
    reading: DataOptions,
    json: Json = False,
) -> None:
    """Convert a data set to LETOR text, Parquet, Arrow or the memory-mapped form (.pkdata).

    Data larger than memory is streamed. The memory-mapped form opens in milliseconds. For a folder of
    folds, all lists are written.
    """
    start = time.perf_counter()
    report: ConvertReport | Dataset
    if is_folds(source[0]):
        report = reading.open(source)
        write(report, target)
    else:
        with byte_progress(f"converting {source[0].name}") as progress:
            report = convert_file(source, target, progress=progress, **reading.read_options())
    seconds = time.perf_counter() - start
    sizes = {"lists": report.n_lists, "documents": report.n_docs, "features": report.n_features}
    text = ", ".join(f"{count:,} {name}" for name, count in sizes.items())
    facts = {"target": str(target), **sizes, "seconds": seconds}
    print_facts(facts, f"{target}: {text} in {seconds:.1f} s", as_json=json)


def describe(data: DataPaths, reading: DataOptions, json: Json = False) -> None:
    """Print statistics of a data set, with histograms of list lengths and labels.

    For a folder with several folds, the statistics cover the test lists of all folds, which together
    are all lists; for a folder with one fold, all of its parts.
    """
    if is_model(data[0]):
        raise UsageError(f"{data[0]} is a model; describe it with: plackett inspect {data[0]}")
    opened = reading.open_data_or_folds(data)
    folds, dataset = ([], opened) if isinstance(opened, Dataset) else (opened, join_folds(opened))
    parts = {f"{fold.name} {role}": part for fold in folds for role, part in fold.parts.items()}
    description = describe_dataset(dataset)
    if json:
        sizes = {role: {"lists": part.n_lists, "documents": part.n_docs} for role, part in parts.items()}
        print_json(description.to_dict() | ({"parts": sizes} if sizes else {}))
        return
    OUT.print(_statistics_table(data[0].name, description))
    if parts:
        table = make_table("part", "lists", "documents")
        for role, part in parts.items():
            table.add_row(role, f"{part.n_lists:,}", f"{part.n_docs:,}")
        OUT.print(table)
    OUT.print(bar_table("lists by number of documents", description.lengths, as_counts=True))
    OUT.print()
    OUT.print(bar_table("documents by label", description.labels, as_counts=True))


def _statistics_table(name: str, d: Description) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim")
    for row in (
        ("data set", name, ""),
        ("queries (lists)", f"{d.n_lists:,}", ""),
        ("documents", f"{d.n_docs:,}", ""),
        ("features", f"{d.n_features:,}", f"{d.constant_features:,} constant"),
        ("label levels", f"{d.n_levels}", ""),
        ("lowest label", f"{d.lowest_share:.2%}", "share of documents"),
        ("lowest label per list", f"{d.mean_lowest_share:.2%}", "share of documents, mean over the lists"),
        ("longest list", f"{d.longest:,}", "documents"),
        ("list length", f"{d.mean_length:.1f}", f"mean; median {d.median_length:g}, shortest {d.shortest}"),
        ("lists without a relevant document", f"{d.blank_lists:,}", "all labels are 0"),
        ("lists with one label", f"{d.single_label_lists:,}", "nothing to rank"),
        ("zeros", f"{d.zero_share:.1%}", "of feature values"),
        ("missing", f"{d.missing_share:.1%}", "of feature values"),
    ):
        table.add_row(*row)
    return table
