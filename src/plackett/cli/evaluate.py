"""``plackett evaluate``: metrics of a ranking, and its difference from another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich import box
from rich.table import Table

from plackett.base.errors import DataError
from plackett.base.files import atomic_file
from plackett.base.types import Scores, Values
from plackett.cli.console import OUT, byte_progress, print_json
from plackett.data.dataset import Dataset
from plackett.experiments.significance import Comparison, compare_paired

_DEFAULT = "ndcg@1,ndcg@5,ndcg@10,err@10,map"


def evaluate(
    scores: Annotated[
        Path, typer.Argument(help="Scores, one per row of DATA (.txt, .npy), or a TREC run.")
    ],
    data: Annotated[Path, typer.Argument(help="A data set, or TREC qrels for a run.")],
    metrics: Annotated[str, typer.Option(help="Metrics, separated by commas.")] = _DEFAULT,
    convention: Annotated[
        str | None, typer.Option(help="Whose rules: papers, lightgbm, trec_eval, letor4 ...")
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="Other scores for the same documents, to compare with.")
    ] = None,
    per_list: Annotated[
        Path | None, typer.Option(help="Write the value of each list to this .tsv file.")
    ] = None,
    missing: Annotated[
        Literal["nan"] | None, typer.Option(help='"nan": take NaN as a missing value.')
    ] = None,
    label: Annotated[str, typer.Option(help="Label column of a table.")] = "label",
    query: Annotated[str, typer.Option(help="Query column of a table.")] = "query_id",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Print metrics of a ranking, with a paired test against a baseline if one is given."""
    from plackett.metrics import evaluate as means_of
    from plackett.metrics import metric
    from plackett.metrics import per_list as values_of

    chosen = [metric(name.strip(), convention=convention) for name in metrics.split(",")]
    options: dict[str, Any] = {"missing": missing, "label": label, "query": query}
    dataset, given = _load(scores, data, options)
    means = means_of(given, dataset, chosen)
    values = values_of(given, dataset, chosen)
    comparisons: dict[str, Comparison] = {}
    if baseline is not None:
        other_data, other = _load(baseline, data, options)
        if not np.array_equal(other_data.query_ids, dataset.query_ids):
            raise DataError(f"{baseline} does not rank the same queries as {scores}.")
        theirs = values_of(other, other_data, chosen)
        comparisons = {m: compare_paired(values[m], theirs[m]) for m in values}
    if per_list is not None:
        _write_values(per_list, dataset, values)
    if json:
        print_json(_payload(dataset, means, values, comparisons))
        return
    OUT.print(_table(means, values, comparisons))


def _load(scores: Path, data: Path, options: dict[str, Any]) -> tuple[Dataset, Scores]:
    """The data set and its scores, aligned."""
    from plackett.data.reading import read
    from plackett.data.trec import is_run, judged, read_qrels, read_run

    if is_run(scores):
        return judged(read_run(scores), read_qrels(data))
    with byte_progress(f"reading {data.name}") as progress:
        dataset = read(data, progress=progress, **options)
    by_row = _read_scores(scores)
    if len(by_row) != dataset.n_docs:
        raise DataError(
            f"{len(by_row):,} scores for the {dataset.n_docs:,} documents of {data}; there must be "
            "one per row, in the order of the rows.",
            path=str(scores),
        )
    return dataset, by_row[dataset.rows]


def _read_scores(path: Path) -> Scores:
    if path.suffix == ".npy":
        values = np.load(path, allow_pickle=False)
        if values.ndim != 1 or values.dtype.kind not in "fiu":
            raise DataError(
                f"an array of {values.dtype} and shape {values.shape}; scores are one "
                "number per document.",
                path=str(path),
            )
        return values.astype(np.float64)
    result = []
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                result.append(float(line))
            except ValueError:
                raise DataError(
                    f"{line.strip()[:40]!r} is not a number; scores are one number per line",
                    path=str(path),
                    line=number,
                ) from None
    return np.array(result)


def _write_values(path: Path, dataset: Dataset, values: dict[str, Values]) -> None:
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8") as out:
        out.write("\t".join(["query_id", *values]) + "\n")
        for q, name in enumerate(dataset.query_ids):
            row = (f"{v[q]:.10g}" if np.isfinite(v[q]) else "" for v in values.values())
            out.write("\t".join([str(name), *row]) + "\n")


def _payload(
    dataset: Dataset,
    means: dict[str, float],
    values: dict[str, Values],
    comparisons: dict[str, Comparison],
) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "lists": dataset.n_lists,
        "documents": dataset.n_docs,
        "metrics": means,
        "counted": {m: int(np.isfinite(v).sum()) for m, v in values.items()},
    }
    if comparisons:
        payload["comparisons"] = {m: vars(c) for m, c in comparisons.items()}
    return payload


def _table(
    means: dict[str, float], values: dict[str, Values], comparisons: dict[str, Comparison]
) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    columns = ["metric", "mean", "lists"]
    if comparisons:
        columns += ["difference", "95 % interval", "p (t-test)", "p (randomisation)"]
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 else "right")
    for m, mean in means.items():
        row = [m, f"{mean:.4f}", f"{np.isfinite(values[m]).sum():,}"]
        if comparisons:
            c = comparisons[m]
            row += [
                f"{c.difference:+.4f}",
                f"{c.low:+.4f} … {c.high:+.4f}",
                f"{c.t_test:.2g}",
                f"{c.randomisation:.2g}",
            ]
        table.add_row(*row)
    return table
