"""``plackett clicks``: turn a click log into training data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich import box
from rich.table import Table

from plackett.base.errors import UsageError
from plackett.cli.console import ERR, OUT, byte_progress, print_json, print_text
from plackett.cli.options import DataOptions, Json, Missing, QueryColumn, Strict

if TYPE_CHECKING:
    from plackett.data.clicks import ClickLog, Propensities
    from plackett.data.dataset import Dataset


_N_POSITIONS = 10  # in the table


def clicks(
    log: Annotated[
        Path,
        typer.Argument(
            help="Click log: .csv, .tsv (also .gz), .parquet or .arrow with columns impression, "
            "query, document, position and click."
        ),
    ],
    features: Annotated[
        list[Path],
        typer.Option(help="Data set with query ids, document ids and features of the documents. Repeatable."),
    ],
    out: Annotated[Path, typer.Option(help="Training data to write: .parquet, .arrow or .pkdata.")],
    propensities: Annotated[
        str,
        typer.Option(
            help="Probability that a user examines a position: em (estimated from the log), swap "
            "(from a log with random swaps), power:ETA, a .json or .csv file, or none."
        ),
    ] = "em",
    by: Annotated[
        Literal["impression", "query"], typer.Option(help="Make one list per impression, or one per query.")
    ] = "impression",
    clip: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Raise propensities below this value to it.  \\[default: 0.2 by impression, 0 by query]",
            show_default=False,
        ),
    ] = None,
    deepest: Annotated[
        int | None, typer.Option(min=1, help="Estimate one propensity for all positions from this one on.")
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of iterations of em.  \\[default: 2000]", show_default=False),
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the propensities to this .json or .csv file.")] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", help="Name of a column of the log: --column document=url. May be repeated."),
    ] = None,
    missing: Missing = None,
    query: QueryColumn = "query_id",
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Turn a click log into training data, with weights that correct for position bias.

    train and compare pass the weights of lists and documents to every objective. LETOR text cannot
    store weights, so the result is Parquet, Arrow or the memory-mapped form.
    """
    from plackett.data.clicks import read_clicks, write_propensities
    from plackett.data.dataset import Dataset
    from plackett.data.writer import write

    _refuse_text(out)
    if save is not None and propensities == "none":
        raise UsageError("--save needs propensities; --propensities none has none.")
    with byte_progress(f"reading {log.name}") as progress:
        click_log = read_clicks(log, progress=progress, **_parse_columns(columns or []))
    estimates = _propensities(propensities, click_log, deepest, iterations)
    reading = DataOptions(missing=missing, label=None, query=query, strict=strict)
    documents = reading.open(features)
    data = Dataset.from_clicks(click_log, documents, by=by, propensities=estimates, clip=clip)
    write(data, out)
    if save is not None and estimates is not None:
        write_propensities(estimates, save)
    _print_result(click_log, estimates, data, out, json)


def _refuse_text(out: Path) -> None:
    from plackett.data.files import require_format

    if require_format(out) == "letor":
        raise UsageError(f"{out}: LETOR text cannot store weights; write .parquet, .arrow or .pkdata.")


def _parse_columns(pairs: list[str]) -> dict[str, str]:
    columns = {}
    for pair in pairs:
        role, sign, name = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"--column takes role=name, such as document=url, got {pair!r}.")
        columns[role.strip()] = name.strip()
    return columns


def _propensities(spelling: str, log: ClickLog, deepest: int | None, iterations: int | None) -> Propensities | None:
    from plackett.data.clicks import Propensities, estimate_by_em, estimate_by_swaps, read_propensities

    if iterations is not None and spelling != "em":
        raise UsageError("--iterations only applies to --propensities em.")
    if spelling == "em":
        with ERR.status("estimating propensities"):
            more = {} if iterations is None else {"iterations": iterations}
            return estimate_by_em(log, deepest=deepest, **more)
    if spelling == "swap":
        with ERR.status("estimating propensities"):
            return estimate_by_swaps(log, deepest=deepest)
    if deepest is not None:
        raise UsageError("--deepest only applies to estimated propensities: em or swap.")
    if spelling == "none":
        return None
    if spelling.startswith("power:"):
        try:
            eta = float(spelling.removeprefix("power:"))
        except ValueError:
            raise UsageError(f"power takes a number, such as power:1, got {spelling!r}.") from None
        return Propensities.power(eta, int(log.positions.max()))
    if Path(spelling).suffix.lower() not in (".json", ".csv"):
        raise UsageError(f"--propensities takes none, em, swap, power:ETA or a .json or .csv file, got {spelling!r}.")
    return read_propensities(spelling)


def _print_result(log: ClickLog, estimates: Propensities | None, data: Dataset, out: Path, json: bool) -> None:
    facts: dict[str, Any] = {
        "target": str(out),
        "rows": len(log),
        "clicks": int(log.clicks.sum()),
        "lists": data.n_lists,
        "documents": data.n_docs,
        "features": data.n_features,
        **({"method": "none"} if estimates is None else estimates.to_dict()),
    }
    if json:
        print_json(facts)
        return
    print_text(f"{log}")
    if estimates is not None:
        OUT.print(_propensity_table(estimates))
    print_text(f"{out}: {data.n_lists:,} lists, {data.n_docs:,} documents, {data.n_features:,} features")


def _propensity_table(estimates: Propensities) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("position", justify="right")
    table.add_column(f"propensity ({estimates.method})", justify="right")
    values = list(estimates.to_dict()["propensities"].items())
    for position, value in values[:_N_POSITIONS]:
        table.add_row(position, f"{value:.4f}")
    if len(values) > _N_POSITIONS:
        table.add_row("...", f"{len(values) - _N_POSITIONS} more")
    return table
