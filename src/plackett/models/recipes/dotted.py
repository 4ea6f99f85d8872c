"""Settings by name, where a dot leads into an objective or a dictionary.

``leaves`` is a parameter of the ranker, ``objective.sigma`` one of its objective, and
``lightgbm.lambda_l2`` an entry of its dictionary ``lightgbm``. Two underscores lead into a ranker
inside a ranker: ``ranker__leaves``, ``ranker__objective.sigma``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from plackett.base.errors import UsageError
from plackett.models.ranker import Ranker
from plackett.objectives import Objective
from plackett.objectives import objective as as_objective


def with_settings(ranker: Ranker, settings: Mapping[str, Any]) -> Ranker:
    """A ranker like this one, not fitted, with some settings changed."""
    copy = ranker.clone()
    for name, value in settings.items():
        inside = _inside(copy, name)
        if inside is not None:
            outer, ranker_inside, rest = inside
            copy.set_params(**{outer: with_settings(ranker_inside, {rest: value})})
            continue
        head, dot, rest = name.partition(".")
        copy.set_params(**{head: _changed(copy, head, rest, value) if dot else value})
    return copy


def setting(ranker: Ranker, name: str) -> Any:
    """What a setting is now; None for an entry that a dictionary has not."""
    inside = _inside(ranker, name)
    if inside is not None:
        return setting(inside[1], inside[2])
    head, dot, rest = name.partition(".")
    known = ranker.get_params()
    if head not in known:
        ranker.set_params(**{head: None})  # refuses, and names what there is
    if not dot:
        return known[head]
    inner = _inner(ranker, head, rest)
    return inner.get(rest) if isinstance(inner, dict) else getattr(inner, rest)


def _inside(ranker: Ranker, name: str) -> tuple[str, Ranker, str] | None:
    """The parameter that holds a ranker, that ranker, and its setting; None: no such name."""
    outer, sign, rest = name.partition("__")
    found = ranker.get_params().get(outer)
    return (outer, found, rest) if sign and isinstance(found, Ranker) else None


def _changed(ranker: Ranker, head: str, rest: str, value: Any) -> Any:
    inner = _inner(ranker, head, rest)
    return inner | {rest: value} if isinstance(inner, dict) else replace(inner, **{rest: value})


def _inner(ranker: Ranker, head: str, rest: str) -> Any:
    inner = ranker.get_params().get(head)
    if head == "objective" and isinstance(inner, str):
        inner = as_objective(inner)
    if isinstance(inner, dict):
        return inner
    if not isinstance(inner, Objective):
        raise UsageError(
            f"{type(ranker).__name__} has no {head}.{rest}: a dot leads into an objective or a "
            "dictionary, for example objective.sigma or lightgbm.lambda_l2."
        )
    names = [field.name for field in fields(inner)]  # type: ignore[arg-type] # all are dataclasses
    if rest not in names:
        raise UsageError(
            f"the objective {inner.name} has no parameter {rest!r}; it has {', '.join(names)}."
        )
    return inner
