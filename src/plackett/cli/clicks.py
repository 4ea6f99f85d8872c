"""``plackett clicks``: a training set out of a click log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich import box
from rich.table import Table

from plackett.base.errors import UsageError
from plackett.cli.console import ERR, OUT, byte_progress, print_json
from plackett.cli.options import Json, Missing, Query, Strict, read_data, read_options

if TYPE_CHECKING:
    from plackett.data.clicks import ClickLog, Propensities
    from plackett.data.dataset import Dataset


_SHOWN = 10  # positions in the table


def clicks(
    log: Annotated[
        Path,
        typer.Argument(
            help="Click log: .csv, .tsv (also .gz), .parquet or .arrow with columns impression, "
            "query, document, position and click."
        ),
    ],
    features: Annotated[
        Path, typer.Option(help="Data set with the features, by query and document id.")
    ],
    out: Annotated[Path, typer.Option(help="Training set to write: .parquet, .arrow or .pkdata.")],
    propensities: Annotated[
        str,
        typer.Option(
            help="How likely positions are to be examined: none, em (estimated from the log), swap "
            "(from a log with random swaps), power:ETA, or a .json or .csv file."
        ),
    ] = "em",
    by: Annotated[
        Literal["impression", "query"],
        typer.Option(help="What a list is: one impression, or all that was shown for a query."),
    ] = "impression",
    clip: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Propensities below it count as it.  [default: 0.2 by impression, 0 by query]",
            show_default=False,
        ),
    ] = None,
    deepest: Annotated[
        int | None,
        typer.Option(min=1, help="Positions from it on are estimated together."),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(min=1, help="Of em, at most.  [default: 2000]", show_default=False),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the propensities to this .json or .csv file.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", help="Name a column of the log: --column document=url."),
    ] = None,
    missing: Missing = None,
    query: Query = "query_id",
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Make a training set of a click log, with the bias of positions weighted out.

    Lists and documents get weights, which train and compare pass to every objective. Text has no
    place for weights, so the result is Parquet, Arrow or the memory-mapped form.
    """
    from plackett.data.clicks import read_clicks, write_propensities
    from plackett.data.dataset import Dataset
    from plackett.data.writer import write

    _refuse_text(out)
    if save is not None and propensities == "none":
        raise UsageError("--save needs propensities, and --propensities none has none.")
    with byte_progress(f"reading {log.name}") as progress:
        clicked = read_clicks(log, progress=progress, **_named(columns or []))
    found = _propensities(propensities, clicked, deepest, iterations)
    documents = read_data(features, read_options(missing, None, None, query, strict))
    data = Dataset.from_clicks(clicked, documents, by=by, propensities=found, clip=clip)
    write(data, out)
    if save is not None and found is not None:
        write_propensities(found, save)
    _show(clicked, found, data, out, json)


def _refuse_text(out: Path) -> None:
    from plackett.data.files import require_format

    if require_format(out) == "letor":
        raise UsageError(
            f"{out}: text has no place for weights; write .parquet, .arrow or .pkdata."
        )


def _named(given: list[str]) -> dict[str, str]:
    named = {}
    for pair in given:
        role, sign, name = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"--column takes role=name, such as document=url, got {pair!r}.")
        named[role.strip()] = name.strip()
    return named


def _propensities(
    given: str, log: ClickLog, deepest: int | None, iterations: int | None
) -> Propensities | None:
    from plackett.data.clicks import (
        Propensities,
        estimate_by_em,
        estimate_by_swaps,
        read_propensities,
    )

    if iterations is not None and given != "em":
        raise UsageError("--iterations are those of --propensities em.")
    if given == "em":
        with ERR.status("estimating propensities"):
            more = {} if iterations is None else {"iterations": iterations}
            return estimate_by_em(log, deepest=deepest, **more)
    if given == "swap":
        with ERR.status("estimating propensities"):
            return estimate_by_swaps(log, deepest=deepest)
    if deepest is not None:
        raise UsageError("--deepest is for propensities that are estimated: em or swap.")
    if given == "none":
        return None
    if given.startswith("power:"):
        try:
            eta = float(given.removeprefix("power:"))
        except ValueError:
            raise UsageError(f"power takes a number, such as power:1, got {given!r}.") from None
        return Propensities.power(eta, int(log.positions.max()))
    if Path(given).suffix.lower() not in (".json", ".csv"):
        raise UsageError(
            "--propensities takes none, em, swap, power:ETA or a .json or .csv file, got "
            f"{given!r}."
        )
    return read_propensities(given)


def _show(log: ClickLog, found: Propensities | None, data: Dataset, out: Path, json: bool) -> None:
    facts: dict[str, Any] = {
        "target": str(out),
        "rows": len(log),
        "clicks": int(log.clicks.sum()),
        "lists": data.n_lists,
        "documents": data.n_docs,
        "features": data.n_features,
        **({"method": "none"} if found is None else found.to_dict()),
    }
    if json:
        print_json(facts)
        return
    OUT.print(f"{log}", highlight=False, soft_wrap=True)
    if found is not None:
        OUT.print(_table(found))
    OUT.print(
        f"{out}: {data.n_lists:,} lists, {data.n_docs:,} documents, {data.n_features:,} features",
        highlight=False,
        soft_wrap=True,
    )


def _table(found: Propensities) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("position", justify="right")
    table.add_column(f"propensity ({found.method})", justify="right")
    known = list(found.to_dict()["propensities"].items())
    for position, value in known[:_SHOWN]:
        table.add_row(position, f"{value:.4f}")
    if len(known) > _SHOWN:
        table.add_row("...", f"{len(known) - _SHOWN} more")
    return table
