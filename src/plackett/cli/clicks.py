"""``plackett clicks``: turn a click log into training data."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from plackett.base.errors import UsageError
from plackett.cli.console import ERR, OUT, byte_progress, make_table, print_json, print_text
from plackett.cli.options import DataOptions, Json, Missing, QueryColumn, Strict
from plackett.data import Dataset, write
from plackett.data.clicks import (
    ClickLog,
    Propensities,
    estimate_by_em,
    estimate_by_swaps,
    read_clicks,
    read_propensities,
    write_propensities,
)
from plackett.data.files import require_format

_N_POSITIONS = 10  # in the table


def clicks(
    log: Annotated[
        Path,
        typer.Argument(
            help="Click log: .csv, .tsv (also .gz), .parquet or .arrow with columns impression, "
            "query, document, position and click."
        ),
    ],
    features: Annotated[list[Path], "Data set with query ids, document ids and features of the documents. Repeatable."],
    out: Annotated[Path, "Training data to write: .parquet, .arrow or .pkdata."],
    propensities: Annotated[
        str,
        "Probability that a user examines a position: em (estimated from the log), swap (from a log with random "
        "swaps), power:ETA, a .json or .csv file, or none.",
    ] = "em",
    by: Annotated[Literal["impression", "query"], "Make one list per impression, or one per query."] = "impression",
    clip: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Lower bound on propensities.  \\[default: 0.2 by impression, 0 by query]"),
    ] = None,
    deepest: Annotated[
        int | None, typer.Option(min=1, help="Estimate one propensity for all positions from this one on.")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of iterations of em.  \\[default: 2000]")
    ] = None,
    save: Annotated[Path | None, "Write the propensities to this .json or .csv file."] = None,
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
    if require_format(out) == "letor":
        raise UsageError(f"{out}: LETOR text cannot store weights; write .parquet, .arrow or .pkdata.")
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


def _parse_columns(pairs: list[str]) -> dict[str, str]:
    columns = {}
    for pair in pairs:
        role, sign, name = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"--column takes role=name, such as document=url, got {pair!r}.")
        columns[role.strip()] = name.strip()
    return columns


def _propensities(spelling: str, log: ClickLog, deepest: int | None, iterations: int | None) -> Propensities | None:
    if iterations is not None and spelling != "em":
        raise UsageError("--iterations only applies to --propensities em.")
    if spelling in ("em", "swap"):
        more = {} if iterations is None else {"iterations": iterations}
        estimate = estimate_by_em if spelling == "em" else estimate_by_swaps
        with ERR.status("estimating propensities"):
            return estimate(log, deepest=deepest, **more)
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
    table = make_table("position", f"propensity ({estimates.method})", left=0)
    values = list(estimates.to_dict()["propensities"].items())
    for position, value in values[:_N_POSITIONS]:
        table.add_row(position, f"{value:.4f}")
    if len(values) > _N_POSITIONS:
        table.add_row("...", f"{len(values) - _N_POSITIONS} more")
    return table
