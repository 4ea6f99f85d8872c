"""``plackett rank``: scores and rankings of a model, in the form another program wants."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plackett.base.ragged import Scores
from plackett.cli.clusters import Cluster, cluster_of
from plackett.cli.console import OUT, print_json
from plackett.cli.opening import Stream, blocks_of, open_data, should_stream
from plackett.cli.options import Features, Json, Missing, Query, Strict, read_options
from plackett.cli.rankings import FORMS, check_form, print_rankings, ranking_file
from plackett.data.dataset import Dataset
from plackett.data.read import Sources, find_sources

if TYPE_CHECKING:
    from plackett.models import Ranker


def rank(
    model: Annotated[Path, typer.Argument(help="A model made by plackett train.")],
    data: Annotated[
        list[Path], typer.Argument(help="Documents to rank; several Parquet files are one set.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help=f"File to write; its suffix says what: {FORMS}. [default: a table]"),
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Only so many documents of each list.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Label column of a table, so that it is no feature.")
    ] = None,
    missing: Missing = None,
    features: Features = None,
    query: Query = "query_id",
    strict: Strict = False,
    stream: Stream = None,
    cluster: Cluster = None,
    json: Json = False,
) -> None:
    """Score documents with a model: best first in each list, or scores row by row."""
    from plackett.models import load

    where = cluster_of(cluster)
    if out is not None and where is None:
        check_form(out, top)
    ranker = load(model)
    sources = find_sources(data)
    table = sources.form == "columns"
    n_features = features or (None if table else ranker.n_features_)
    given = read_options(missing, n_features, label if table else "label", query, strict)
    if where is not None:
        from plackett.cli.rank_shards import rank_shards

        facts = rank_shards(model, sources, out, top=top, options=given, cluster=where)
        _tell(facts, json)
        return
    parts = _scored(ranker, sources, given, stream)
    if out is None:
        print_rankings(parts, top, as_json=json)
        return
    lists = documents = 0
    with ranking_file(out, top, tag=ranker.recipe_name or model.stem) as add:
        for dataset, scores in parts:
            add(dataset, scores)
            lists, documents = lists + dataset.n_lists, documents + dataset.n_docs
    _tell({"out": str(out), "lists": lists, "documents": documents}, json)


def _tell(facts: dict[str, Any], json: bool) -> None:
    if json:
        print_json(facts)
        return
    told = f"{facts['out']}: {facts['documents']:,} documents of {facts['lists']:,} lists"
    OUT.print(told, highlight=False, soft_wrap=True)


def _scored(
    ranker: Ranker, sources: Sources, options: dict[str, Any], stream: bool | None
) -> Iterator[tuple[Dataset, Scores]]:
    """Lists and their scores: all at once, or block by block where tables do not fit in memory."""
    if sources.form == "columns" and should_stream(sources, options, stream):
        yield from ((part, ranker.predict(part)) for part in blocks_of(sources, options))
    else:
        dataset = open_data(sources, options, stream)
        yield dataset, ranker.predict(dataset)
