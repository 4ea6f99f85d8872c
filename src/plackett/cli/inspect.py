"""``plackett inspect MODEL``, and lists of the available recipes, objectives and metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from plackett import models
from plackett.base.errors import DataError, UsageError
from plackett.cli.console import OUT, bar_table, print_json, print_text
from plackett.cli.options import DataOptions, Json
from plackett.metrics import CONVENTIONS, METRICS
from plackett.models.artifact import encode, read_manifest
from plackett.models.recipes import recommend
from plackett.objectives import OBJECTIVES

_TOP_FEATURES = 20
_CURVE_WIDTH = 40
_BARS = "▁▂▃▄▅▆▇█"
_KIND_NAMES = {
    "TreeRanker": "trees",
    "NeuralRanker": "net",
    "BoostedNeuralRanker": "nets",
    "LinearRanker": "linear",
    "CoordinateAscentRanker": "linear",
    "AdaRanker": "linear",
    "StumpRanker": "stumps",
    "CatBoostRanker": "trees",
    "XGBoostRanker": "trees",
}


def inspect(model: Annotated[Path, typer.Argument(help="Folder of a model.")], json: Json = False) -> None:
    """Describe a saved model: objective, settings, learning curve, importances, training data."""
    if model.is_file():
        raise DataError(
            "is a file, and a model is a folder; plackett describe prints statistics of data, "
            "plackett import reads models of other libraries",
            path=str(model),
        )
    facts = describe_model(read_manifest(model), model)
    if json:
        print_json(facts)
        return
    OUT.print(_facts_table(facts))
    for part, by_metric in facts["curves"].items():
        for name, values in by_metric.items():
            _print_curve(f"{part} {name}", values)
    if facts["importance"]:
        OUT.print(bar_table("importance", facts["importance"]))
    if facts["note"]:
        print_text(facts["note"], style="dim")


def describe_model(manifest: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return all facts about a model as plain data."""
    ranker: models.Ranker | None = None
    note = ""
    try:
        ranker = models.load(folder)
    except (UsageError, ImportError) as error:  # the model needs the user's module or a missing extra
        note = f"Curves and importances need the model itself: {error}"
    settings = {name: _plain(value) for name, value in manifest.get("settings", {}).items()}
    training = manifest.get("training") or {}
    return {
        "model": str(folder),
        "kind": manifest.get("kind"),
        "recipe": manifest.get("recipe"),
        "objective": training.get("objective") or _objective_setting(manifest, settings),
        "settings": settings,
        "size": {} if ranker is None else _size(ranker),
        "features": manifest.get("features"),
        "training": training,
        "curves": {} if ranker is None else dict(vars(ranker).get("curves_", {})),
        "importance": {} if ranker is None else _importance(ranker),
        "libraries": manifest.get("libraries"),
        "files": {name: entry["bytes"] for name, entry in manifest.get("files", {}).items()},
        "note": note,
    }


def _plain(value: Any) -> Any:
    """A setting of a manifest without the marks that distinguish types."""
    if isinstance(value, dict):
        for mark in ("$tuple", "$objective", "$ranker", "$module"):
            if set(value) == {mark}:
                return _plain(value[mark])
        if set(value) == {"$pairs"}:
            return {str(key): _plain(item) for key, item in value["$pairs"]}
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _objective_setting(manifest: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    """The objective according to the settings, for models whose training record has none."""
    inner = settings.get("ranker")
    if isinstance(inner, dict):  # a cross-fit
        return inner.get("settings", {}).get("objective")
    return "rankboost" if manifest.get("kind") == "StumpRanker" else settings.get("objective")


def _size(ranker: models.Ranker) -> dict[str, Any]:
    size: dict[str, Any] = {}
    if isinstance(ranker, (models.TreeRanker, models.EnsembleRanker)):
        size["trees"] = (ranker._ensemble if isinstance(ranker, models.TreeRanker) else ranker.ensemble_).n_trees
    elif isinstance(ranker, models.StumpRanker):
        size["stumps"] = len(ranker.stump_features_)
    elif isinstance(ranker, models.BaseLinearRanker):
        size["coefficients"] = len(ranker.coefficients_)
        size |= {"C": ranker.C_} if isinstance(ranker, models.LinearRanker) else {}
    elif isinstance(ranker, models.CrossFit):
        size["members"] = [member.summary() for member in ranker.members_]
    elif hasattr(ranker, "networks_"):
        size["nets"] = len(ranker.networks_)
        size["weights"] = sum(p.numel() for net in ranker.networks_ for p in net.parameters())
    best = getattr(ranker, "best_step_", None)
    return size if best is None else size | {"best_step": best}


def _importance(ranker: models.Ranker) -> dict[str, float]:
    """The most important features and their shares; empty for models that have none."""
    try:
        values: dict[str, float] = getattr(ranker, "importance", dict)()
    except (UsageError, DataError, NotImplementedError):
        return {}
    total = sum(abs(value) for value in values.values()) or 1.0
    falling = sorted(values.items(), key=lambda item: -abs(item[1]))
    return {name: abs(value) / total for name, value in falling[:_TOP_FEATURES] if value}


def format_objective(objective: Any) -> str:
    """Write an objective on one line, with the parameters that differ from the defaults.

    >>> format_objective({"name": "lambdarank", "sigma": 2.0, "hess_factor": 1.0})
    'lambdarank(sigma=2.0)'
    """
    if not isinstance(objective, dict):
        return "-" if objective is None else str(objective)
    if "custom" in objective:
        return f"custom:{objective['custom']}"
    defaults = _objective_defaults(objective.get("name", ""))
    inner = [format_objective(objective["objective"])] if "objective" in objective else []
    changed = [
        f"{name}={value}"
        for name, value in objective.items()
        if name not in ("name", "objective") and (name not in defaults or defaults[name] != value)
    ]
    arguments = ", ".join(inner + changed)
    return f"{objective.get('name')}({arguments})" if arguments else str(objective.get("name"))


def _objective_defaults(name: str) -> dict[str, Any]:
    kind = next((kind for kind in OBJECTIVES if kind.name == name), None)
    if kind is None:
        return {"seed": 0}  # of the stochastic treatment, shown with samples and beta
    return {f.name: f.default for f in fields(kind) if f.default is not MISSING}  # type: ignore[arg-type]


def _facts_table(facts: Mapping[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    settings = facts["settings"] | {k: format_objective(v) for k, v in facts["settings"].items() if k == "objective"}
    training = facts["training"]
    rows = {
        "model": facts["model"],
        "kind": facts["kind"],
        "recipe": facts["recipe"],
        "objective": format_objective(facts["objective"]),
        "settings": ", ".join(f"{name}={value}" for name, value in settings.items()),
        "size": ", ".join(f"{name}: {_value(value)}" for name, value in facts["size"].items()),
        "features": f"{facts['features']['count']:,}" if facts["features"] else None,
        "trained on": _describe_part(training.get("train")),
        "validated on": _describe_part(training.get("validation")),
        "selected by": ", ".join(training.get("metric") or ()),
        "libraries": ", ".join(f"{k} {v}" for k, v in (facts["libraries"] or {}).items()),
        "files": ", ".join(f"{name} ({size:,} bytes)" for name, size in facts["files"].items()),
    }
    for name, value in rows.items():
        if value:
            table.add_row(name, escape(str(value)))
    return table


def _value(value: Any) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else f"{value:,}"


def _describe_part(part: Any) -> str:
    if not isinstance(part, dict) or "lists" not in part:
        return ""
    return f"{part['lists']:,} lists, {part['documents']:,} documents"


def _print_curve(title: str, values: Sequence[float]) -> None:
    if not values:
        return
    best = max(range(len(values)), key=lambda i: values[i])
    step = max(len(values) / _CURVE_WIDTH, 1.0)
    sampled = [values[int(i * step)] for i in range(int(len(values) / step))]
    low, high = min(sampled), max(sampled)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    bars = "".join(_BARS[round((value - low) * scale)] for value in sampled)
    text = f"first {values[0]:.4f}, best {values[best]:.4f} at step {best + 1} of {len(values)}"
    print_text(f"{title:<20} {bars}  {text}")


def recipes(
    reading: DataOptions,
    data: Annotated[
        list[Path] | None,
        typer.Option("--for", help="Data set: recommend a recipe to start with, and explain why. Repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """List the recipes: models with their objectives and settings, to train and compare by name.

    With --for, recommend one for a data set of this size and kind.
    """
    if data:
        _recommend(data, reading, json)
        return
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "kind": entry.kind.__name__,
            "objective": format_objective(
                _plain(encode(entry.settings.get("objective"))) or _objective_setting({"kind": entry.kind.__name__}, {})
            ),
            "presets": list(entry.presets),
        }
        for name, entry in models.RECIPES.items()
    ]
    lines = [
        (row["name"], _KIND_NAMES.get(row["kind"], row["kind"]), row["objective"], " ".join(row["presets"]))
        for row in rows
    ]
    hint = "plackett train DATA --model RECIPE --out MODEL"
    _print_list(rows, ("recipe", "model", "objective", "presets"), lines, hint, json)


def _recommend(data: list[Path], reading: DataOptions, json: bool) -> None:
    advice = recommend(reading.open(data))
    command = advice.command(" ".join(map(str, data)))
    if json:
        print_json(advice.to_dict() | {"command": command})
        return
    parts = f", cross-fitted in {advice.crossfit} parts" if advice.crossfit else ""
    OUT.print(f"Begin with [bold]{advice.recipe}[/]{parts}.")
    for text in advice.reasons:
        print_text(f"  because {text}")
    for text in advice.cautions:
        print_text(f"  note: {text}")
    print_text(f"Compare it with {', '.join(advice.compare_with)}.")
    print_text(command, style="dim")


def objectives(json: Json = False) -> None:
    """List the objectives and their parameters, which --set objective.PARAMETER=VALUE changes."""
    rows: list[dict[str, Any]] = [
        {
            "name": kind.name,
            "title": (kind.__doc__ or "").strip().splitlines()[0],
            "parameters": _objective_defaults(kind.name),
        }
        for kind in OBJECTIVES
    ]
    hint = "plackett train DATA --set objective=NAME --set objective.PARAMETER=VALUE --out MODEL"
    lines = [
        (row["name"], row["title"], " ".join(f"{name}={value}" for name, value in row["parameters"].items()))
        for row in rows
    ]
    _print_list(rows, ("objective", "what it is", "parameters"), lines, hint, json)


def metrics(json: Json = False) -> None:
    """List the metrics, their options and the conventions that define them."""
    rows: list[dict[str, Any]] = [
        {
            "name": definition.name,
            "title": definition.title,
            "cutoff": definition.has_cutoff,
            "options": list(definition.options),
            "conventions": [c.name for c in CONVENTIONS if definition.name in c.metrics],
        }
        for definition in METRICS
    ]
    lines = [
        (
            row["name"] + ("[@k]" if row["cutoff"] else ""),
            row["title"],
            " ".join(row["options"]),
            " ".join(row["conventions"]),
        )
        for row in rows
    ]
    hint = "name[@cutoff][:convention][:option=value], such as ndcg@10:lightgbm"
    _print_list(rows, ("metric", "what it is", "options", "conventions"), lines, hint, json)


def _print_list(payload: Any, columns: Sequence[str], rows: Sequence[Sequence[str]], hint: str, as_json: bool) -> None:
    """Print JSON, or one unwrapped line per row and a hint."""
    if as_json:
        print_json(payload)
        return
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for i, row in enumerate((columns, *rows)):
        text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print_text(text.rstrip(), style=None if i else "bold")
    print_text(hint, style="dim")
