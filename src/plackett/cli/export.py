"""``plackett export`` and ``plackett import``: exchange models with other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from plackett.base.errors import UsageError
from plackett.cli.console import OUT, print_json
from plackett.cli.options import Json

_TARGETS = (
    "vespa, elasticsearch, opensearch, solr, onnx, ranklib, lightgbm, xgboost, or a certain file: "
    "lightgbm-text, lightgbm-json, xgboost-json, xgboost-ubj, xgboost-dump, opensearch-xgboost, "
    "elasticsearch-linear"
)


def export(
    model: Annotated[Path, typer.Argument(help="Folder of a model.")],
    to: Annotated[str, typer.Option(help=f"Target: {_TARGETS}.")],
    out: Annotated[Path, typer.Option(help="File to write.")],
    name: Annotated[str, typer.Option(help="Name of the model in the target.")] = "plackett",
    names: Annotated[
        Path | None,
        typer.Option(help="File with one feature name per line.  \\[default: the model's names]"),
    ] = None,
    missing: Annotated[
        Literal["keep", "zero", "never"],
        typer.Option(
            help='What the target does with missing features: "zero" reads them as 0; "never" '
            'promises that none is missing; "keep" passes them on.'
        ),
    ] = "keep",
    verify: Annotated[
        bool,
        typer.Option(
            help="Read the file back and compare scores, if plackett can read this target."
        ),
    ] = True,
    json: Json = False,
) -> None:
    """Write a model to a file that a search engine or another library loads.

    A model that the target cannot express is refused with the reason.
    """
    from plackett.models import load
    from plackett.serving.export import export as run
    from plackett.serving.export import find_target
    from plackett.serving.export.parts import find_kind, find_parts

    ranker = load(model)
    verified = run(
        ranker, out, to, feature_names=_read_names(names), name=name, missing=missing, verify=verify
    )
    target = find_target(to, find_kind(find_parts(ranker))).name
    facts = {"out": str(out), "form": target, "bytes": out.stat().st_size, "verified": verified}
    if json:
        print_json(facts)
        return
    OUT.print(
        f"{out}: {ranker.summary()} as {target}, {out.stat().st_size:,} bytes, "
        + (
            "read back and compared"
            if verified
            else "not read back: plackett cannot read this target"
        ),
        highlight=False,
        soft_wrap=True,
    )


def import_(
    file: Annotated[
        Path,
        typer.Argument(
            help="Model file of LightGBM (text), XGBoost (JSON, UBJ), CatBoost (JSON, CBM) or "
            "RankLib."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model, for example model.plackett.")],
    form: Annotated[
        str | None,
        typer.Option(help="Format: lightgbm, xgboost, catboost or ranklib.  \\[default: detected]"),
    ] = None,
    features: Annotated[
        int | None, typer.Option(min=1, help="Number of features; RankLib files do not contain it.")
    ] = None,
    names: Annotated[Path | None, typer.Option(help="File with one feature name per line.")] = None,
    json: Json = False,
) -> None:
    """Import a model trained elsewhere, to rank, evaluate, compare and serve it."""
    from plackett.models.artifact.manifest import is_model
    from plackett.models.ensembles import import_model

    if is_model(file):
        raise UsageError(f"{file} is a plackett model already; use it as it is.")
    ranker = import_model(file, form=form, n_features=features, feature_names=_read_names(names))
    ranker.save(out)
    facts = {
        "out": str(out),
        "form": ranker.form_,
        "trees": ranker.ensemble_.n_trees,
        "features": ranker.n_features_,
    }
    if json:
        print_json(facts)
        return
    OUT.print(
        f"{out}: {ranker.ensemble_.n_trees:,} trees of {ranker.form_} on "
        f"{ranker.n_features_:,} features",
        highlight=False,
        soft_wrap=True,
    )


def _read_names(path: Path | None) -> tuple[str, ...] | None:
    if path is None:
        return None
    names = tuple(path.read_text(encoding="utf-8").splitlines())
    if not names:
        raise UsageError(f"{path} is empty; it must contain one name per line.")
    return names
