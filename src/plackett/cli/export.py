"""``plackett export`` and ``import`` exchange models with other programs; ``verify`` checks what was written."""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from plackett.base.errors import DataError, UsageError
from plackett.base.files import read_key
from plackett.cli.console import byte_progress, print_facts
from plackett.cli.options import DataOptions, Json, find_test_set
from plackett.data import find_files
from plackett.data.mapped import verify_mapped
from plackett.models import load
from plackett.models.artifact import is_model, is_signed, read_manifest
from plackett.models.ensembles import import_model
from plackett.serving.export import export_and_compare, find_target
from plackett.serving.export.parts import find_kind, find_parts

_TARGETS = (
    "vespa, elasticsearch, opensearch, solr, onnx, ranklib, lightgbm, xgboost, or a specific format: lightgbm-text, "
    "lightgbm-json, xgboost-json, xgboost-ubj, xgboost-dump, opensearch-xgboost, elasticsearch-linear"
)


def export(
    model: Annotated[Path, typer.Argument(help="Folder of a model.")],
    to: Annotated[str, f"Target: {_TARGETS}."],
    out: Annotated[Path, "File to write."],
    name: Annotated[str, "Name of the model in the target."] = "plackett",
    names: Annotated[Path | None, "File with one feature name per line.  [default: the model's names]"] = None,
    missing: Annotated[
        Literal["keep", "zero", "never"],
        'What the target does with missing features: "zero" reads them as 0; "never" promises that none is '
        'missing; "keep" passes them on.',
    ] = "keep",
    verify: Annotated[bool, "Read the file back as the target reads it, and compare the scores."] = True,
    data: Annotated[
        list[Path] | None, "Data set to compare scores on, in addition to random documents. Repeatable."
    ] = None,
    json: Json = False,
) -> None:
    """Write a model to a file that a search engine or another library loads.

    If the target cannot express the model, the command fails and states the reason.
    """
    ranker = load(model)
    documents = None
    if data:
        files = find_files(find_test_set(data))
        reading = DataOptions(missing=None if files.format == "letor" else "nan").for_model(ranker, files)
        features = reading.open(files.paths).features
        documents = features.toarray() if hasattr(features, "toarray") else np.asarray(features)
    difference = export_and_compare(
        ranker,
        out,
        to,
        feature_names=_read_names(names),
        name=name,
        missing=missing,
        verify=verify,
        documents=documents,
    )
    target = find_target(to, find_kind(find_parts(ranker))).name
    facts = {
        "out": str(out),
        "form": target,
        "bytes": out.stat().st_size,
        "verified": difference is not None,
        "largest_difference": difference,
    }
    compared = _describe_difference(difference, 0 if documents is None else len(documents))
    text = f"{out}: {ranker.summary()} as {target}, {facts['bytes']:,} bytes, {compared}"
    print_facts(facts, text, as_json=json)


def import_(
    file: Annotated[
        Path,
        typer.Argument(help="Model file of LightGBM (text), XGBoost (JSON, UBJ), CatBoost (JSON, CBM) or RankLib."),
    ],
    out: Annotated[Path, "Folder for the model, for example model.plackett."],
    form: Annotated[
        str | None, "Library that wrote the file: lightgbm, xgboost, catboost or ranklib.  [default: detected]"
    ] = None,
    features: Annotated[
        int | None, typer.Option(min=1, help="Number of features; RankLib files do not contain it.")
    ] = None,
    names: Annotated[Path | None, "File with one feature name per line."] = None,
    json: Json = False,
) -> None:
    """Import a model trained elsewhere, to rank, evaluate, compare and serve it."""
    if is_model(file):
        raise UsageError(f"{file} is a plackett model already; use it as it is.")
    ranker = import_model(file, form=form, n_features=features, feature_names=_read_names(names))
    ranker.save(out)
    trees, width = ranker.ensemble_.n_trees, ranker.n_features_
    facts = {"out": str(out), "form": ranker.form_, "trees": trees, "features": width}
    print_facts(facts, f"{out}: {trees:,} trees of {ranker.form_} on {width:,} features", as_json=json)


def _describe_difference(difference: float | None, documents: int) -> str:
    if difference is None:
        return "not read back"
    on = f" on {documents:,} documents and random ones" if documents else ""
    same = "all scores equal" if difference == 0 else f"largest difference of scores {difference:.2g}"
    return f"read back and compared{on}: {same}"


def _read_names(path: Path | None) -> tuple[str, ...] | None:
    if path is None:
        return None
    names = tuple(path.read_text(encoding="utf-8").splitlines())
    if not names:
        raise UsageError(f"{path} is empty; it must contain one name per line.")
    return names


def verify(
    path: Annotated[Path, typer.Argument(help="Folder of a model, or a .pkdata directory.")],
    sign_key: Annotated[Path | None, "File of the key that a model must be signed with (train --sign-key)."] = None,
    json: Json = False,
) -> None:
    """Check the checksums of a model or a memory-mapped data set, and the signature of a model.

    The exit code is 1 if something differs from what was written.
    """
    if is_model(path):
        key = None if sign_key is None else read_key(sign_key)
        manifest = read_manifest(path, key)
        if manifest.get("module") is None:  # otherwise, loading would need the user's module
            load(path)
        covered = "all" if manifest["version"] > 1 else "files"
        signature = "valid" if key else "not checked" if is_signed(manifest) else "none"
        facts = {"model": str(path), "covered": covered, "signature": signature}
        note = (
            ""
            if covered == "all"
            else "; models of format 1 have no checksum of the manifest: load and save the model to add one"
        )
        text = f"the checksums of all its files are right{note}; signature: {signature}"
    else:
        if sign_key is not None:
            raise UsageError(f"{path} is not a model; only models are signed.")
        if not path.exists():
            raise DataError("there is no such file or directory", path=str(path))
        if not path.is_dir():
            raise DataError("is neither a model nor a .pkdata directory; only these have checksums", path=str(path))
        with byte_progress(f"reading {path.name}") as progress:
            checked = verify_mapped(path, progress)
        facts = {"data": str(path), "covered": "all" if checked else "none", "signature": "none"}
        without = "has no checksums; no value is infinite. Convert it again to add checksums"
        text = "the checksums of all its blocks are right" if checked else without
    print_facts(facts, f"{path}: {text}", as_json=json)
