"""``plackett rank``: scores and rankings of a model, in the form another program wants."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plackett.cli.console import OUT, print_json
from plackett.cli.options import (
    Features,
    Json,
    Missing,
    Query,
    Strict,
    read_data,
    read_options,
)
from plackett.cli.rankings import FORMS, check_form, print_ranking, write_ranking
from plackett.data.formats import known_format
from plackett.data.manifest import is_mapped


def rank(
    model: Annotated[Path, typer.Argument(help="A model made by plackett train.")],
    data: Annotated[Path, typer.Argument(help="Documents to rank.")],
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
    json: Json = False,
) -> None:
    """Score documents with a model: best first in each list, or scores row by row."""
    from plackett.models import load

    if out is not None:
        check_form(out, top)
    ranker = load(model)
    table = _is_table(data)
    n_features = features or (None if table else ranker.n_features_)
    given = read_options(missing, n_features, label if table else "label", query, strict)
    dataset = read_data(data, given)
    scores = ranker.predict(dataset)
    if out is None:
        print_ranking(dataset, scores, top, as_json=json)
        return
    write_ranking(out, dataset, scores, top, tag=ranker.recipe_name or model.stem)
    facts = {"out": str(out), "lists": dataset.n_lists, "documents": dataset.n_docs}
    if json:
        print_json(facts)
        return
    OUT.print(
        f"{out}: {dataset.n_docs:,} documents of {dataset.n_lists:,} lists",
        highlight=False,
        soft_wrap=True,
    )


def _is_table(data: Path) -> bool:
    """Whether the data have named columns, so that labels may be absent."""
    return known_format(data) == "columns" or (data.is_dir() and not is_mapped(data))
