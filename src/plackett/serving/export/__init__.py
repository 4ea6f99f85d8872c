"""Export: write a fitted ranker as a file that a search engine or another library loads.

``TARGETS`` lists the kinds of file; the command line, the guide and the tests use it.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from plackett.base.errors import UsageError, unknown_name
from plackett.base.files import atomic_file
from plackett.base.ragged import Features
from plackett.models.load import load
from plackett.models.ranker import Ranker
from plackett.serving.export.lightgbm import lightgbm_json, lightgbm_text
from plackett.serving.export.linear import elasticsearch_linear
from plackett.serving.export.onnx import onnx_model
from plackett.serving.export.parts import ExportRequest, Kind, Missing, find_kind, find_parts, make_request
from plackett.serving.export.search_engines import ranklib_xml, solr_model
from plackett.serving.export.verify import verify_scores
from plackett.serving.export.xgboost import to_json, to_ubjson, xgboost_dump, xgboost_model


@dataclass(frozen=True)
class Target:
    """A kind of file and the function that writes it."""

    name: str
    reader: str
    """The programs that read it."""
    kinds: tuple[Kind, ...]
    """The kinds of model that it supports."""
    takes_missing: bool
    """Whether missing features are scored as the ranker does; otherwise they are read as 0."""
    write: Callable[[ExportRequest], bytes | str]


_PLUGINS = "the learning-to-rank plugins of Elasticsearch and OpenSearch"
KIND_NAMES = {"trees": "trees", "linear": "a linear model", "net": "a neural net"}
_ALL: tuple[Kind, ...] = ("trees", "linear", "net")

TARGETS: tuple[Target, ...] = (
    Target("lightgbm-text", "LightGBM", ("trees",), True, lightgbm_text),
    Target("lightgbm-json", "Vespa", ("trees",), True, lightgbm_json),
    Target(
        "xgboost-json",
        "XGBoost",
        ("trees",),
        True,
        lambda request: to_json(xgboost_model(request.trees, request.names)),
    ),
    Target(
        "xgboost-ubj",
        "XGBoost, Vespa",
        ("trees",),
        True,
        lambda request: to_ubjson(xgboost_model(request.trees, request.names)),
    ),
    Target("xgboost-dump", f"{_PLUGINS}, model/xgboost+json", ("trees",), True, xgboost_dump),
    Target(
        "opensearch-xgboost",
        "OpenSearch's plugin, model/xgboost+json+raw",
        ("trees",),
        True,
        # OpenSearch ignores the base score of the file.
        lambda request: to_json(xgboost_model(request.trees.with_base_as_tree(), request.names)),
    ),
    Target("ranklib", f"RankLib; {_PLUGINS}, model/ranklib", ("trees",), False, ranklib_xml),
    Target("solr", "Solr's learning-to-rank module", _ALL, True, solr_model),
    Target("elasticsearch-linear", f"{_PLUGINS}, model/linear", ("linear",), False, elasticsearch_linear),
    Target("onnx", "ONNX Runtime, Vespa", _ALL, True, onnx_model),
)


ENGINES: dict[str, dict[Kind, str]] = {
    "vespa": {"trees": "lightgbm-json", "linear": "onnx", "net": "onnx"},
    "elasticsearch": {"trees": "xgboost-dump", "linear": "elasticsearch-linear"},
    "opensearch": {"trees": "opensearch-xgboost", "linear": "elasticsearch-linear"},
    "lightgbm": {"trees": "lightgbm-text"},
    "xgboost": {"trees": "xgboost-json"},
}
"""Programs by name, and the target that serves each kind of model best."""


def find_target(name: str | None, kind: Kind = "trees") -> Target:
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
    """Write a fitted ranker as a file with which the target gives the same scores.

    Parameters
    ----------
    ranker
        Trees, stumps, imported trees, linear models, neural nets of layers, and CrossFit of any
        of them with ``combine="scale"``, which becomes one model; or the path of a saved one.
    path
        The file; it is written completely or not at all.
    target
        One of :data:`plackett.serving.export.TARGETS`, by name, or a program: ``"vespa"``,
        ``"elasticsearch"``, ``"opensearch"``, ``"lightgbm"``, ``"xgboost"``, for the target that
        serves the kind of model best.
    feature_names
        By default the model's, else f1, f2 and so on.
    name
        Name of the model, if the target stores one.
    missing
        ``"keep"``: documents may lack features; a target that would score them differently from
        the ranker is refused. ``"zero"``: the target reads a missing feature as 0 whatever
        the file says, as older search engine plugins do; trees that send missing values
        elsewhere than zeros are refused. ``"never"``: every document has every feature.
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
        warnings.warn("form is deprecated; use target.", DeprecationWarning, stacklevel=2)
    difference = export_and_compare(
        ranker,
        path,
        target or form,
        feature_names=feature_names,
        name=name,
        missing=missing,
        verify=verify,
        documents=documents,
    )
    return difference is not None


def export_and_compare(
    ranker: Ranker | str | os.PathLike[str],
    path: str | os.PathLike[str],
    target: str | None,
    *,
    feature_names: Sequence[str] | None = None,
    name: str = "plackett",
    missing: Missing = "keep",
    verify: bool = True,
    documents: Features | None = None,
) -> float | None:
    """The same; returns the largest difference of scores, None if the file was not read back."""
    if isinstance(ranker, (str, os.PathLike)):
        ranker = load(ranker)
    chosen = find_target(target, find_kind(find_parts(ranker)))
    request = make_request(ranker, chosen.name, feature_names, name, missing)
    if request.kind not in chosen.kinds:
        supported = " and ".join(KIND_NAMES[kind] for kind in chosen.kinds)
        others = ", ".join(other.name for other in TARGETS if request.kind in other.kinds)
        raise UsageError(
            f"{chosen.name} supports {supported}, and this model is {KIND_NAMES[request.kind]}; export it as {others}."
        )
    written = chosen.write(request)
    content = written.encode() if isinstance(written, str) else written
    difference = verify_scores(ranker, request, chosen, content, documents) if verify else None
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)
    return difference


__all__ = ["ENGINES", "TARGETS", "Target", "export"]
