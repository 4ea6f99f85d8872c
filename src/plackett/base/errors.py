"""The exceptions and warnings of plackett, so that a caller can catch them by kind.

::

    PlackettError
    ├── DataError            invalid input: a file, an array (also a ValueError)
    │   └── FeatureMismatch  features that are not those the model was fitted on
    ├── UsageError           a call or an option that cannot work (also a ValueError)
    ├── ClusterError         a cluster that cannot be reached or stopped working
    └── StoreError           a run store that cannot be read or written

    DataWarning              input that was accepted but should be checked (a UserWarning)
    ConvergenceWarning       a solver that stopped before it converged (a UserWarning)

The module also has the error for a missing optional package (:func:`require`) and the warning for
a parameter under its old name (:func:`rename_deprecated`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Parameter:
    """A parameter that a message names; the command line shows its option instead.

    >>> str(Parameter("label")), str(Parameter("missing", "nan"))
    ('label=', 'missing="nan"')
    """

    name: str
    value: Any = None
    """The value to give; None: the message leaves it open."""

    def __str__(self) -> str:
        return f"{self.name}=" + ("" if self.value is None else repr(self.value).replace("'", '"'))


@dataclass(frozen=True)
class Setting(Parameter):
    """A parameter of a model that a message names; the command line shows ``--set`` instead.

    >>> str(Setting("C")), str(Setting("transforms", ("standard",)))
    ('C', 'transforms=("standard",)')
    """

    def __str__(self) -> str:
        return self.name if self.value is None else super().__str__()


class Message(str):
    """The text of an error or a warning, with the parameters that it names.

    >>> message = Message("there is no column 'y'; choose with ", Parameter("label"), ".")
    >>> str(message)
    "there is no column 'y'; choose with label=."
    >>> message.parts[1].name
    'label'
    """

    parts: tuple[str | Parameter, ...]

    def __new__(cls, *parts: str | Parameter) -> Message:
        flat = [p for part in parts for p in (part.parts if isinstance(part, Message) else (part,))]
        message = super().__new__(cls, "".join(map(str, flat)))
        message.parts = tuple(flat)
        return message

    def __getnewargs__(self) -> tuple[str | Parameter, ...]:  # type: ignore[override]
        return self.parts


def message_of(error: BaseException | str) -> str:
    """The text of an error or a warning; a :class:`Message` if it names parameters."""
    if isinstance(error, str):
        return error
    text = error.args[0] if error.args else ""
    return text if isinstance(text, Message) else str(error)


class PlackettError(Exception):
    """Base class; the text is meant for the user, without a traceback.

    Where it names a parameter, ``args[0]`` is a :class:`Message`.
    """


class DataError(PlackettError, ValueError):
    """Invalid input.

    Parameters
    ----------
    message
        The value and what is allowed.
    path, line, column
        Where, if the input is a file; lines and columns count from 1. The text of the error then
        reads ``train.txt:1043: feature index 0; indices start at 1 (column 9)``.
    """

    def __init__(
        self, message: str, *, path: str | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        self.message = message
        self.path = path
        self.line = line
        self.column = column
        location = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        suffix = "" if column is None else f" (column {column})"
        super().__init__(Message(location, message, suffix))


class FeatureMismatch(DataError):  # noqa: N818 - reads better in `except FeatureMismatch`
    """Features that are not those the model was fitted on, by name or by number."""


class UsageError(PlackettError, ValueError):
    """A call or an option that cannot work; the text says what is allowed or what to do."""


class DataWarning(UserWarning):
    """Input that was accepted but should be checked."""


class ConvergenceWarning(UserWarning):
    """A solver that stopped before it converged; the text says what to do."""


class ClusterError(PlackettError):
    """A cluster that cannot be reached or stopped working; the text says what to do."""


class StoreError(PlackettError):
    """A run store that cannot be read or written; finished trials are kept.

    Parameters
    ----------
    place
        The file or server.
    message
        What happened and what to do.
    """

    def __init__(self, place: str, message: str) -> None:
        self.place = place
        self.message = message
        super().__init__(f"{place}: {message}")


def unknown_name(kind: str, name: str, known: Iterable[str], *, of: str = "", note: str = "") -> UsageError:
    """The error for a name that does not exist, with the closest known name and all of them.

    >>> str(unknown_name("metric", "ncdg", ["ndcg", "map"]))
    "there is no metric 'ncdg'. Did you mean 'ndcg'? There are: ndcg, map."
    """
    names = list(known)
    owner = f" of {of!r}" if of else ""
    close = get_close_matches(name.lower(), names, n=1) or get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(names) or "none"
    return UsageError(f"there is no {kind} {name!r}{owner}.{hint} There are: {listed}.{note}")


EXTRAS = {
    "distributed": ("ray[data,train]>=2.60",),
    "export": ("onnx>=1.16",),
    "figures": ("matplotlib>=3.8",),
    "mlflow": ("mlflow-skinny>=3.1", "sqlalchemy>=2", "alembic>=1.13"),
    "neural": ("torch>=2.4", "safetensors>=0.4"),
    "peers": ("catboost>=1.2", "xgboost-cpu>=2.0"),
    "serve": ("granian>=2.7,<3", "starlette>=0.40", "msgspec>=0.19", "prometheus-client>=0.20"),
    "sklearn": ("scikit-learn>=1.6",),
    "team": ("psycopg[binary]>=3.1",),
    "tune": ("optuna>=4.9",),
}
"""The extras of plackett that commands need, and what each installs."""
_NEEDED = {
    "catboost": ("peers", "CatBoostRanker needs CatBoost"),
    "granian": ("serve", "plackett serve needs Granian"),
    "matplotlib": ("figures", "figures need Matplotlib"),
    "mlflow": ("mlflow", "logging to MLflow needs it"),
    "msgspec": ("serve", "plackett serve needs msgspec"),
    "onnx": ("export", "export to ONNX needs onnx"),
    "optuna": ("tune", "tuning needs Optuna"),
    "prometheus_client": ("serve", "plackett serve needs prometheus-client"),
    "psycopg": ("team", "a run store in PostgreSQL needs psycopg"),
    "ray": ("distributed", "several machines (cluster=...) need Ray"),
    "safetensors": ("neural", "neural nets need safetensors"),
    "sqlalchemy": ("tune", "tuning needs SQLAlchemy"),
    "sklearn": ("sklearn", "plackett.sklearn needs scikit-learn"),
    "starlette": ("serve", "plackett serve needs Starlette"),
    "torch": ("neural", "neural nets need PyTorch"),
    "xgboost": ("peers", "XGBoostRanker needs XGBoost"),
}
"""For each module the extra that installs it, and what needs it."""


class MissingLibrary(UsageError, ImportError):  # noqa: N818 - reads better in `except`
    """A library that is not installed; the text has the command that installs it."""


def require(*modules: str) -> None:
    """Raise MissingLibrary with the command to run if one of the modules cannot be imported.

    The command names the libraries themselves, so that it works wherever plackett comes from: a
    wheel, a clone or a registry.
    """
    for module in modules:
        try:
            import_module(module)
        except ImportError as error:
            extra, reason = _NEEDED[module]
            libraries = " ".join(f"'{name}'" for name in EXTRAS[extra])
            raise MissingLibrary(
                f"{reason}, which is not installed: python -m pip install {libraries} "
                f"(the extra {extra!r} of plackett)."
            ) from error


RENAMED = {"optimiser": "optimizer"}
"""Old names and the names that replace them."""


def rename_deprecated(parameters: Mapping[str, Any], *, warn: bool = True) -> dict[str, Any]:
    """Replace old parameter names, also after ``__``, with the current ones.

    >>> rename_deprecated({"ranker__optimiser": "adam", "seed": 1}, warn=False)
    {'ranker__optimizer': 'adam', 'seed': 1}
    """
    renamed = {}
    for name, value in parameters.items():
        head, separator, last = name.rpartition("__")
        current = head + separator + RENAMED.get(last, last)
        if warn and current != name:
            warn_renamed(name, current, stacklevel=4)
        renamed[current] = value
    return renamed


def warn_renamed(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warn that the name ``old`` has become ``new``."""
    message = f"{old!r} is deprecated; use {new!r}."
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)
