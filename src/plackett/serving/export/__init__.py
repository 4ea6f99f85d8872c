"""Export: a fitted ranker as a file that a search engine or another library loads."""

from __future__ import annotations

import os
from collections.abc import Sequence

from plackett.base.errors import UsageError
from plackett.base.files import atomic_file
from plackett.models.ranker import Ranker
from plackett.serving.export.parts import (
    MISSING,
    Missing,
    check_absent_is_zero,
    kind_of,
    names_for,
    parts_of,
    trees_of,
)
from plackett.serving.export.targets import FORMS, Form, Request, form_of
from plackett.serving.export.verify import verified

_WORDS = {"trees": "trees", "linear": "a linear model", "net": "a neural net"}


def export(
    ranker: Ranker,
    path: str | os.PathLike[str],
    form: str,
    *,
    feature_names: Sequence[str] | None = None,
    name: str = "plackett",
    missing: Missing = "keep",
    verify: bool = True,
) -> bool:
    """Write a fitted ranker as a file that something else loads and scores equally with.

    Parameters
    ----------
    ranker
        Trees, stumps, imported trees, linear models, neural nets of layers, and CrossFit of any
        of them with ``combine="scale"``, which becomes one model.
    path
        The file; it appears whole or not at all.
    form
        One of :data:`plackett.serving.export.FORMS`.
    feature_names
        By default the model's, else f1, f2 and so on.
    name
        What the model is called, where the form has a place for it.
    missing
        ``"keep"``: documents may lack features, and a form that would score them otherwise than
        the ranker does is refused. ``"zero"``: the target reads a missing feature as 0 whatever
        the file says, as older plugins of search engines do; trees that send missing values
        elsewhere than zeros are refused. ``"never"``: every document has every feature.
    verify
        Read the file back and score random documents with it, for forms that plackett reads
        itself (those of LightGBM, XGBoost and RankLib) and for ONNX where onnxruntime is
        installed. A file that scores otherwise is not left behind.

    Returns
    -------
    verified
        Whether the file was read back and compared.

    Raises
    ------
    UsageError
        If the form cannot express the model; the text says what and what to do.
    """
    chosen = form_of(form)
    if missing not in MISSING:
        raise UsageError(f'missing must be "keep", "zero" or "never", got {missing!r}.')
    parts = parts_of(ranker)
    kind = kind_of(parts)
    if kind not in chosen.kinds:
        raise UsageError(_refusal(chosen, kind))
    if missing == "zero" and kind == "trees":
        check_absent_is_zero(trees_of(parts), missing, "the target")
    names = names_for(ranker, form, feature_names)
    asked = Request(parts, kind, names, name, missing)
    written = chosen.write(asked)
    content = written.encode() if isinstance(written, str) else written
    compared = verify and verified(ranker, asked, form, content)
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)
    return compared


def _refusal(form: Form, kind: str) -> str:
    from plackett.serving.export.targets import FORMS

    held = " and ".join(_WORDS[each] for each in form.kinds)
    others = ", ".join(each.name for each in FORMS if kind in each.kinds)
    return f"{form.name} holds {held}, and this is {_WORDS[kind]}; export it as {others}."


__all__ = [
    "FORMS",
    "Form",
    "export",
]
