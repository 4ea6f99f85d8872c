"""``plackett evaluate``: metrics of a ranking, and tests of its difference from another."""

import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from plackett.base.errors import DataError, DataWarning, UsageError
from plackett.base.files import tsv_cell, write_text
from plackett.base.ragged import Ids, Scores, Values
from plackett.cli.console import OUT, make_table, print_json
from plackett.cli.options import DataOptions, Json, find_test_set, name_model_features
from plackett.data import Dataset, collect_lists, find_files
from plackett.data.trec import as_qrels, is_qrels, is_run, judge_run, read_qrels, read_run
from plackett.experiments import Comparison, compare_paired
from plackett.experiments.external import ScoreFile
from plackett.metrics import Metric, evaluate as compute_means, metric, per_list as compute_values, split
from plackett.models import load

_DEFAULT_METRICS = ("ndcg@1", "ndcg@5", "ndcg@10", "err@10", "map")


def evaluate(
    ranking: Annotated[
        Path,
        typer.Argument(
            help="What to evaluate: a model, a file with one score per row of DATA (.txt, .npy), or a TREC run."
        ),
    ],
    data: Annotated[
        list[Path],
        typer.Argument(
            help="Data set (several Parquet or Arrow files form one; for a fold, its test set), or TREC "
            "qrels for a run. A run identifies documents by their ids, or by their row numbers from 0."
        ),
    ],
    reading: DataOptions,
    metrics: Annotated[
        str | None,
        f"Metrics, separated by commas.  [default: those of {','.join(_DEFAULT_METRICS)} that the convention defines]",
    ] = None,
    convention: Annotated[
        str | None, "Tool or paper whose definition of the metrics to use: papers, lightgbm, trec_eval, letor4 ..."
    ] = None,
    baseline: Annotated[Path | None, "Model, scores or run to compare with."] = None,
    per_list: Annotated[Path | None, "Write the value of each list to this .tsv file."] = None,
    json: Json = False,
) -> None:
    """Print metrics of a model or ranking, with paired tests against a baseline if one is given."""
    chosen = _parse_metrics(metrics, convention)
    dataset, scores = load_scores(ranking, data, reading)
    means = compute_means(scores, dataset, chosen)
    values = compute_values(scores, dataset, chosen)
    _warn_of_empty_metrics(values)
    comparisons: dict[str, Comparison] = {}
    if baseline is not None:
        other, other_scores = load_scores(baseline, data, reading)
        other_values = compute_values(other_scores, other, chosen)
        indices = _align(dataset.list_ids, other.list_ids, ranking, baseline)
        comparisons = {m: compare_paired(values[m], other_values[m][indices]) for m in values}
    if per_list is not None:
        _write_values(per_list, dataset.list_ids, values)
    if not json:
        OUT.print(_table(means, values, comparisons))
        return
    compared = {"comparisons": {m: c.to_dict() for m, c in comparisons.items()}} if comparisons else {}
    counted = {m: int(np.isfinite(v).sum()) for m, v in values.items()}
    sizes = {"lists": dataset.n_lists, "documents": dataset.n_docs}
    print_json(sizes | {"metrics": means, "counted": counted} | compared)


def load_scores(ranking: Path, data: Sequence[Path], reading: DataOptions) -> tuple[Dataset, Scores]:
    """Load a data set and the scores of its documents, from a model, a TREC run or a file.

    If the data does not fit in memory, it is scored in blocks and returned without features.
    """
    data = find_test_set(data)
    if ranking.is_dir():
        return _score_with_model(ranking, data, reading)
    if not ranking.is_file():
        raise DataError(
            "does not exist; expected a model, a file with one score per row, or a TREC run", path=str(ranking)
        )
    if is_run(ranking):
        run = read_run(ranking)
        if len(data) == 1 and is_qrels(data[0]):
            return judge_run(run, read_qrels(data[0]))
        labels = as_qrels(reading.open(data), source=str(data[0]))
        if not any(labels[query].keys() & run[query].keys() for query in labels if query in run):
            raise DataError(
                f"no document of {data[0]} is in this run; a run must identify documents by their ids, or "
                "by their row numbers from 0 if the data have no ids.",
                path=str(ranking),
            )
        return judge_run(run, labels)
    file = ScoreFile(str(ranking))
    by_row = file.scores  # read before the data, which may be large
    files = find_files(data)
    in_blocks = reading.reads_in_blocks(files)
    dataset = collect_lists(reading.iter_blocks(files))[0] if in_blocks else reading.open(data)
    file.check_rows(dataset.n_docs, files.name)
    return dataset, by_row


def _score_with_model(model: Path, data: Sequence[Path], reading: DataOptions) -> tuple[Dataset, Scores]:
    ranker = load(model)
    files = find_files(data)
    limit = name_model_features(None if reading.n_features else ranker)
    reading = reading.for_model(ranker, files)
    if reading.reads_in_blocks(files):
        dataset, scores = collect_lists(reading.iter_blocks(files), ranker.predict)
        assert scores is not None
        return dataset, scores
    with limit:
        dataset = reading.open(data)
    return dataset, ranker.predict(dataset)


def _parse_metrics(text: str | None, convention: str | None) -> list[Metric]:
    if text is not None:
        return [metric(name, convention=convention) for name in split(text)]
    metric(_DEFAULT_METRICS[0], convention=convention)  # refuses an unknown convention
    metrics = []
    for name in _DEFAULT_METRICS:
        with suppress(UsageError):  # the convention's tool may not have this metric
            metrics.append(metric(name, convention=convention))
    return metrics


def _warn_of_empty_metrics(values: dict[str, Values]) -> None:
    """Explain why a mean is not a number."""
    empty = [name for name, per_list in values.items() if not np.isfinite(per_list).any()]
    if empty:
        warnings.warn(
            f"no list counts in {', '.join(empty)}: this convention drops lists without a relevant document (for auc, "
            "also lists without an irrelevant one). Check the labels, or choose another convention.",
            DataWarning,
            stacklevel=2,
        )


def _align(ours: Ids, theirs: Ids, scores: Path, baseline: Path) -> np.ndarray[Any, Any]:
    """Return the position of each query of ``ours`` in ``theirs``."""
    where = {query: index for index, query in enumerate(theirs.tolist())}
    missing = [query for query in ours.tolist() if query not in where]
    if missing or len(ours) != len(theirs):
        extra = sorted(set(where) - set(ours.tolist()))
        only, file = (missing[0], scores) if missing else (extra[0], baseline)
        raise DataError(f"{scores} and {baseline} do not rank the same queries: only {file} has {only!r}.")
    return np.array([where[query] for query in ours.tolist()])


def _write_values(path: Path, query_ids: Ids, values: dict[str, Values]) -> None:
    lines = ["\t".join(["query_id", *values])]
    for name, *row in zip(query_ids, *values.values(), strict=True):
        lines.append("\t".join([tsv_cell(name), *(f"{v:.10g}" if np.isfinite(v) else "" for v in row)]))
    write_text(path, "\n".join(lines) + "\n")


def _table(means: dict[str, float], values: dict[str, Values], comparisons: dict[str, Comparison]) -> Table:
    more = ("difference", "95 % interval", "p (t)", "p (rand.)") if comparisons else ()
    table = make_table("metric", "mean", "lists", *more)
    for m, mean in means.items():
        row = [m, _format(mean, ".4f"), f"{np.isfinite(values[m]).sum():,}"]
        if comparisons:
            c = comparisons[m]
            row += [
                _format(c.difference, "+.4f"),
                f"{_format(c.low, '+.4f')}, {_format(c.high, '+.4f')}",
                _format(c.t_test, ".2g"),
                _format(c.randomization, ".2g"),
            ]
        table.add_row(*row)
    return table


def _format(value: float, spec: str) -> str:
    return f"{value:{spec}}" if np.isfinite(value) else "-"
