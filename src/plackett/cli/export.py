"""``plackett export`` and ``plackett import``: models to and from other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from plackett.base.errors import UsageError
from plackett.cli.console import OUT, print_json
from plackett.cli.options import Json

_FORMS = (
    "lightgbm-text, lightgbm-json, xgboost-json, xgboost-ubj, xgboost-dump, opensearch-xgboost, "
    "ranklib, solr, elasticsearch-linear, onnx"
)


def export(
    model: Annotated[Path, typer.Argument(help="A model made by plackett.")],
    to: Annotated[str, typer.Option(help=f"The form: {_FORMS}.")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    name: Annotated[str, typer.Option(help="What the target calls the model.")] = "plackett",
    names: Annotated[
        Path | None,
        typer.Option(help="Names of the features, one per line. [default: the model's]"),
    ] = None,
    missing: Annotated[
        Literal["keep", "zero", "never"],
        typer.Option(
            help='"zero": the target reads missing features as 0; "never": none is missing.'
        ),
    ] = "keep",
    verify: Annotated[
        bool, typer.Option(help="Read the file back and compare scores, where plackett can.")
    ] = True,
    json: Json = False,
) -> None:
    """Write a model as a file that a search engine or another library loads.

    What the target cannot express is refused, with the reason.
    """
    from plackett.models import load
    from plackett.serving.export import export as run

    ranker = load(model)
    verified = run(
        ranker,
        out,
        to,
        feature_names=_lines(names),
        name=name,
        missing=missing,
        verify=verify,
    )
    facts = {"out": str(out), "form": to, "bytes": out.stat().st_size, "verified": verified}
    if json:
        print_json(facts)
        return
    OUT.print(
        f"{out}: {ranker.summary()} as {to}, {out.stat().st_size:,} bytes, "
        + ("read back and compared" if verified else "not read back: nothing here reads this form"),
        highlight=False,
        soft_wrap=True,
    )


def import_(
    file: Annotated[
        Path, typer.Argument(help="A model of LightGBM (text), XGBoost (JSON, UBJ) or RankLib.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model, for example model.plackett.")],
    form: Annotated[
        str | None,
        typer.Option(help="lightgbm, xgboost or ranklib. [default: as the file begins]"),
    ] = None,
    features: Annotated[
        int | None,
        typer.Option(min=1, help="Number of features, which RankLib's files do not say."),
    ] = None,
    names: Annotated[Path | None, typer.Option(help="Names of the features, one per line.")] = None,
    json: Json = False,
) -> None:
    """Take over a model that was trained elsewhere: to rank, evaluate, compare and serve."""
    from plackett.models.ensembles import import_model

    ranker = import_model(file, form=form, n_features=features, feature_names=_lines(names))
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


def _lines(path: Path | None) -> tuple[str, ...] | None:
    if path is None:
        return None
    found = tuple(path.read_text(encoding="utf-8").splitlines())
    if not found:
        raise UsageError(f"{path} is empty; it must hold one name per line.")
    return found
