"""Export: write a fitted ranker as a file that a search engine or another library loads.

``TARGETS`` lists the kinds of file. The help of the command line has a copy of their names, which a test checks.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from plackett.base.errors import UsageError, unknown_name, warn_renamed
from plackett.base.files import atomic_file
from plackett.base.ragged import Features
from plackett.models import Ranker, load
from plackett.serving.export.boosters import (
    lightgbm_json,
    lightgbm_text,
    to_json,
    to_ubjson,
    xgboost_dump,
    xgboost_model,
)
from plackett.serving.export.formulas import elasticsearch_linear
from plackett.serving.export.onnx import onnx_model
from plackett.serving.export.parts import (
    ExportRequest,
    Missing,
    ModelKind,
    check_absent_is_zero,
    check_feature_names,
    find_kind,
    find_parts,
)
from plackett.serving.export.search_engines import ranklib_xml, solr_model
from plackett.serving.export.verify import verify_scores


@dataclass(frozen=True)
class Target:
    """A kind of file and the function that writes it."""

    name: str
    reader: str
    """The programs that read it."""
    kinds: tuple[ModelKind, ...]
    """The kinds of model that it supports."""
    takes_missing: bool
    """Whether missing features are scored as the ranker does; otherwise they are read as 0."""
    write: Callable[[ExportRequest], bytes | str]


_PLUGINS = "the learning-to-rank plugins of Elasticsearch and OpenSearch"
KIND_NAMES = {"trees": "trees", "linear": "a linear model", "net": "a neural net"}
_ALL: tuple[ModelKind, ...] = ("trees", "linear", "net")

TARGETS: tuple[Target, ...] = (
    Target("lightgbm-text", "LightGBM", ("trees",), True, lightgbm_text),
    Target("lightgbm-json", "Vespa", ("trees",), True, lightgbm_json),
    Target("xgboost-json", "XGBoost", ("trees",), True, lambda r: to_json(xgboost_model(r.trees, r.names))),
    Target("xgboost-ubj", "XGBoost, Vespa", ("trees",), True, lambda r: to_ubjson(xgboost_model(r.trees, r.names))),
    Target("xgboost-dump", f"{_PLUGINS}, model/xgboost+json", ("trees",), True, xgboost_dump),
    Target(
        "opensearch-xgboost",
        "OpenSearch's plugin, model/xgboost+json+raw",
        ("trees",),
        True,
        # OpenSearch ignores the base score of the file.
        lambda r: to_json(xgboost_model(r.trees.with_base_as_tree(), r.names)),
    ),
    Target("ranklib", f"RankLib; {_PLUGINS}, model/ranklib", ("trees",), False, ranklib_xml),
    Target("solr", "Solr's learning-to-rank module", _ALL, True, solr_model),
    Target("elasticsearch-linear", f"{_PLUGINS}, model/linear", ("linear",), False, elasticsearch_linear),
    Target("onnx", "ONNX Runtime, Vespa", _ALL, True, onnx_model),
)


ENGINES: dict[str, dict[ModelKind, str]] = {
    "vespa": {"trees": "lightgbm-json", "linear": "onnx", "net": "onnx"},
    "elasticsearch": {"trees": "xgboost-dump", "linear": "elasticsearch-linear"},
    "opensearch": {"trees": "opensearch-xgboost", "linear": "elasticsearch-linear"},
    "lightgbm": {"trees": "lightgbm-text"},
    "xgboost": {"trees": "xgboost-json"},
}
"""Programs by name, and the target that serves each kind of model best."""


def find_target(name: str | None, kind: ModelKind = "trees") -> Target:
    """Return the target with this name, or the one that a program needs for a kind of model."""
    by_name = {target.name: target for target in TARGETS}
    if name in ENGINES:
        supported = ENGINES[name]
        if kind not in supported:
            raise UsageError(
                f"{name} cannot load {KIND_NAMES[kind]}; it loads "
                f"{' and '.join(KIND_NAMES[other] for other in supported)}."
            )
        return by_name[supported[kind]]
    if name is None:
        raise UsageError(f"export needs a target, one of {', '.join([*ENGINES, *by_name])}.")
    if name not in by_name:
        raise unknown_name("target", name, [*ENGINES, *by_name])
    return by_name[name]


def export(
    ranker: Ranker | str | os.PathLike[str],
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    feature_names: Sequence[str] | None = None,
    name: str = "plackett",
    missing: Missing = "keep",
    verify: bool = True,
    documents: Features | None = None,
    form: str | None = None,
) -> bool:
    """Write a fitted ranker as a file from which the target computes the same scores.

    Parameters
    ----------
    ranker
        Trees, stumps, imported trees, linear models, neural nets of layers, and CrossFit of any
        of them with ``combine="scale"``, which becomes one model; or the path of a saved one.
    path
        The file; it is written completely or not at all.
    target
        One of :data:`plackett.serving.export.TARGETS`, by name, or a program: ``"vespa"``, ``"elasticsearch"``,
        ``"opensearch"``, ``"lightgbm"``, ``"xgboost"``, for the target that serves the kind of model best.
    feature_names
        By default the model's, else f1, f2 and so on.
    name
        Name of the model, if the target stores one.
    missing
        ``"keep"``: documents may lack features; raises if the target would score them differently from the ranker.
        ``"zero"``: the target reads a missing feature as 0 whatever the file says, as older search engine plugins do;
        raises if trees treat missing values differently from zeros. ``"never"``: every document has every feature.
    verify
        Read the file back and compare scores of random documents; ONNX only if onnxruntime is
        installed. A file that scores differently is not written.
    documents
        Features of documents to compare on as well, one row each.
    form
        Deprecated name of ``target``.

    Returns
    -------
    verified
        Whether the file was read back and compared.

    Raises
    ------
    UsageError
        If the target cannot express the model; the message gives the reason and a remedy.

    Examples
    --------
    >>> import plackett as pk
    >>> ranker = pk.recipe("lambdamart", trees=3).fit(pk.synthetic("letor", n_lists=30))
    >>> pk.export(ranker, "model.json", "vespa")  # doctest: +SKIP
    """
    if form is not None:
        warn_renamed("form", "target")
        target = target or form
    difference = export_and_compare(ranker, path, target, feature_names, name, missing, verify, documents)
    return difference is not None


def export_and_compare(
    ranker: Ranker | str | os.PathLike[str],
    path: str | os.PathLike[str],
    target: str | None,
    feature_names: Sequence[str] | None = None,
    name: str = "plackett",
    missing: Missing = "keep",
    verify: bool = True,
    documents: Features | None = None,
) -> float | None:
    """Export as :func:`export` does; return the largest difference of scores, None if the file was not read back."""
    if isinstance(ranker, (str, os.PathLike)):
        ranker = load(ranker)
    parts = find_parts(ranker)
    kind = find_kind(parts)
    chosen = find_target(target, kind)
    if missing not in get_args(Missing):
        raise UsageError(f'missing must be "keep", "zero" or "never", got {missing!r}.')
    names = check_feature_names(ranker, chosen.name, feature_names)
    request = ExportRequest(parts, kind, names, name, missing)
    if missing == "zero" and kind == "trees":
        check_absent_is_zero(request, "the target")
    if kind not in chosen.kinds:
        supported = " and ".join(KIND_NAMES[kind] for kind in chosen.kinds)
        others = ", ".join(other.name for other in TARGETS if kind in other.kinds)
        raise UsageError(
            f"{chosen.name} supports {supported}, and this model is {KIND_NAMES[kind]}; export it as {others}."
        )
    written = chosen.write(request)
    content = written.encode() if isinstance(written, str) else written
    difference = verify_scores(ranker, request, chosen, content, documents) if verify else None
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)
    return difference


__all__ = ["ENGINES", "TARGETS", "Target", "export"]
