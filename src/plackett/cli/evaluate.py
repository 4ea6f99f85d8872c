"""``plackett evaluate``: metrics of a ranking, and its difference from another."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.table import Table

from plackett.base.errors import DataError, DataWarning, UsageError
from plackett.base.files import atomic_file, tsv_cell
from plackett.base.ragged import Ids, Values
from plackett.cli.console import OUT, print_json
from plackett.cli.options import (
    Features,
    Json,
    Label,
    Missing,
    Query,
    Stream,
    Strict,
    load,
    read_options,
)
from plackett.experiments.significance import Comparison, compare_paired
from plackett.metrics import Metric

_DEFAULT = ("ndcg@1", "ndcg@5", "ndcg@10", "err@10", "map")


def evaluate(
    ranking: Annotated[
        Path,
        typer.Argument(help="A model, scores, one per row of DATA (.txt, .npy), or a TREC run."),
    ],
    data: Annotated[
        list[Path],
        typer.Argument(help="A data set (several Parquet files are one), or TREC qrels for a run."),
    ],
    metrics: Annotated[
        str | None,
        typer.Option(
            help=f"Metrics, separated by commas. [default: those of {','.join(_DEFAULT)} that the "
            "convention has]",
            show_default=False,
        ),
    ] = None,
    convention: Annotated[
        str | None, typer.Option(help="Whose rules: papers, lightgbm, trec_eval, letor4 ...")
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="Another model, other scores or a run, to compare with.")
    ] = None,
    per_list: Annotated[
        Path | None, typer.Option(help="Write the value of each list to this .tsv file.")
    ] = None,
    missing: Missing = None,
    features: Features = None,
    label: Label = "label",
    query: Query = "query_id",
    strict: Strict = False,
    stream: Stream = None,
    json: Json = False,
) -> None:
    """Print metrics of a model or ranking, with paired tests against a baseline if one is given."""
    from plackett.metrics import evaluate as means_of
    from plackett.metrics import per_list as values_of

    chosen = _metrics(metrics, convention)
    options = read_options(missing, features, label, query, strict)
    dataset, given = load(ranking, data, options, stream)
    means = means_of(given, dataset, chosen)
    values = values_of(given, dataset, chosen)
    _warn_of_nothing(values)
    comparisons: dict[str, Comparison] = {}
    if baseline is not None:
        other, other_scores = load(baseline, data, options, stream)
        theirs = values_of(other_scores, other, chosen)
        places = _align(dataset.query_ids, other.query_ids, ranking, baseline)
        comparisons = {m: compare_paired(values[m], theirs[m][places]) for m in values}
    if per_list is not None:
        _write_values(per_list, dataset.query_ids, values)
    if json:
        print_json(_payload(dataset.n_lists, dataset.n_docs, means, values, comparisons))
        return
    OUT.print(_table(means, values, comparisons))


def _metrics(spelling: str | None, convention: str | None) -> list[Metric]:
    from plackett.metrics import metric

    if spelling is not None:
        return [metric(name.strip(), convention=convention) for name in spelling.split(",")]
    metric(_DEFAULT[0], convention=convention)  # refuses a convention that does not exist
    found = []
    for name in _DEFAULT:
        try:
            found.append(metric(name, convention=convention))
        except UsageError:
            continue  # a metric that this tool lacks
    return found


def _warn_of_nothing(values: dict[str, Values]) -> None:
    """Say why a mean is not a number."""
    nothing = [name for name, each in values.items() if not np.isfinite(each).any()]
    if nothing:
        warnings.warn(
            f"no list counts in {', '.join(nothing)}: by this convention those without a relevant "
            "document (for auc, without an irrelevant one) do not. Look at the labels, or choose "
            "another convention.",
            DataWarning,
            stacklevel=2,
        )


def _align(ours: Ids, theirs: Ids, scores: Path, baseline: Path) -> np.ndarray[Any, Any]:
    """Where each of our queries stands among theirs; the order of lists depends on documents."""
    where = {query: place for place, query in enumerate(theirs.tolist())}
    lacking = [query for query in ours.tolist() if query not in where]
    if lacking or len(ours) != len(theirs):
        extra = sorted(set(where) - set(ours.tolist()))
        only, file = (lacking[0], scores) if lacking else (extra[0], baseline)
        raise DataError(
            f"{scores} and {baseline} do not rank the same queries: only {file} has {only!r}."
        )
    return np.array([where[query] for query in ours.tolist()])


def _write_values(path: Path, query_ids: Ids, values: dict[str, Values]) -> None:
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8") as out:
        out.write("\t".join(["query_id", *values]) + "\n")
        for q, name in enumerate(query_ids):
            row = (f"{v[q]:.10g}" if np.isfinite(v[q]) else "" for v in values.values())
            out.write("\t".join([tsv_cell(name), *row]) + "\n")


def _payload(
    n_lists: int,
    n_docs: int,
    means: dict[str, float],
    values: dict[str, Values],
    comparisons: dict[str, Comparison],
) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "lists": n_lists,
        "documents": n_docs,
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
        columns += ["difference", "95 % interval", "p (t)", "p (rand.)"]
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for m, mean in means.items():
        row = [m, _number(mean, ".4f"), f"{np.isfinite(values[m]).sum():,}"]
        if comparisons:
            c = comparisons[m]
            row += [
                _number(c.difference, "+.4f"),
                f"{_number(c.low, '+.4f')}, {_number(c.high, '+.4f')}",
                _number(c.t_test, ".2g"),
                _number(c.randomisation, ".2g"),
            ]
        table.add_row(*row)
    return table


def _number(value: float, form: str) -> str:
    return f"{value:{form}}" if np.isfinite(value) else "-"
