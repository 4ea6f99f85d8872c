"""``plackett convert`` and ``plackett describe``: other formats, and statistics of a data set."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from plackett.base.errors import UsageError
from plackett.cli.console import OUT, byte_progress, count_table, print_json, print_text
from plackett.cli.options import DataOptions, DataPaths, Json
from plackett.data import open_data_or_folds
from plackett.data.dataset import Dataset
from plackett.data.description import Description, describe as describe_dataset
from plackett.data.folds import Fold, is_folds, join_folds
from plackett.data.writer import ConvertReport, convert as convert_file, write
from plackett.models.artifact import is_model


def convert(
    source: DataPaths,
    target: Annotated[Path, typer.Argument(help="File to write; its suffix selects the format.")],
    reading: DataOptions,
    json: Json = False,
) -> None:
    """Convert a data set to LETOR text, Parquet, Arrow or the memory-mapped form (.pkdata).

    Data larger than memory is streamed. The memory-mapped form opens in milliseconds. All lists of a
    folder of folds are written.
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
    if json:
        print_json(
            {
                "target": str(target),
                "lists": report.n_lists,
                "documents": report.n_docs,
                "features": report.n_features,
                "seconds": seconds,
            }
        )
        return
    print_text(
        f"{target}: {report.n_lists:,} lists, {report.n_docs:,} documents, "
        f"{report.n_features:,} features in {seconds:.1f} s"
    )


def describe(data: DataPaths, reading: DataOptions, json: Json = False) -> None:
    """Print statistics of a data set, with histograms of list lengths and labels.

    A folder with several folds is described by the test lists of all folds, which together are all
    its lists; a folder with one fold by all its parts.
    """
    if is_model(data[0]):
        raise UsageError(f"{data[0]} is a model; describe it with: plackett inspect {data[0]}")
    name = data[0].name
    with byte_progress(f"reading {name}") as progress:
        opened = open_data_or_folds(
            data, stream=reading.stream, cache=reading.cache, progress=progress, **reading.read_options()
        )
    folds = [] if isinstance(opened, Dataset) else opened
    dataset = opened if isinstance(opened, Dataset) else join_folds(opened)
    parts = {f"{fold.name} {role}": part for fold in folds for role, part in _list_parts(fold)}
    description = describe_dataset(dataset)
    if json:
        sizes = {role: {"lists": part.n_lists, "documents": part.n_docs} for role, part in parts.items()}
        print_json(description.to_dict() | ({"parts": sizes} if sizes else {}))
        return
    OUT.print(_statistics_table(name, description))
    if parts:
        OUT.print(_parts_table(parts))
    OUT.print(count_table("lists by number of documents", description.lengths))
    OUT.print()
    OUT.print(count_table("documents by label", description.labels))


def _list_parts(fold: Fold) -> list[tuple[str, Dataset]]:
    validation = [] if fold.validation is None else [("validation", fold.validation)]
    return [("train", fold.train), *validation, ("test", fold.test)]


def _statistics_table(name: str, d: Description) -> Table:
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
        ("list length", f"{d.mean_length:.1f}", f"mean; median {d.median_length:g}, shortest {d.shortest}"),
        ("blank lists", f"{d.blank_lists:,}", "no relevant document"),
        ("single-label lists", f"{d.single_label_lists:,}", "nothing to rank"),
        ("zeros", f"{d.zero_share:.1%}", "of feature values"),
        ("missing", f"{d.missing_share:.1%}", "of feature values"),
    ]
    for row in rows:
        table.add_row(*row)
    return table


def _parts_table(parts: dict[str, Dataset]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("part")
    table.add_column("lists", justify="right")
    table.add_column("documents", justify="right")
    for name, part in parts.items():
        table.add_row(name, f"{part.n_lists:,}", f"{part.n_docs:,}")
    return table
