"""The exceptions and warnings of plackett, so that a caller can catch them by kind.

::

    PlackettError
    ├── DataError            invalid input: a file, an array (also a ValueError)
    │   └── FeatureMismatch  features that are not those the model was fitted on
    ├── UsageError           a name or an option that does not exist (also a ValueError)
    ├── ClusterError         a cluster that cannot be reached or stopped working
    └── StoreError           a run store that cannot be read or written

    DataWarning              input that was accepted but should be checked (a UserWarning)
    ConvergenceWarning       a solver that stopped before it converged (a UserWarning)
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class PlackettError(Exception):
    """Base class; the text is meant for the user, without a traceback."""


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
        self,
        message: str,
        *,
        path: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        self.message = message
        self.path = path
        self.line = line
        self.column = column
        place = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        suffix = "" if column is None else f" (column {column})"
        super().__init__(f"{place}{message}{suffix}")


class FeatureMismatch(DataError):  # noqa: N818 - reads better in `except FeatureMismatch`
    """Features that are not those the model was fitted on, by name or by number."""


class UsageError(PlackettError, ValueError):
    """A name or an option that does not exist; the text lists what does."""


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


def unknown_name(
    kind: str, name: str, known: Iterable[str], *, of: str = "", note: str = ""
) -> UsageError:
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
