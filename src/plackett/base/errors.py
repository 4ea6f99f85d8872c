"""What plackett raises, so that a caller can catch it by kind.

::

    PlackettError
    ├── DataError            input that cannot be right: a file, an array (also a ValueError)
    │   └── FeatureMismatch  features that are not those the model was fitted on
    ├── UsageError           a name or an option that does not exist (also a ValueError)
    └── StoreError           a store of runs that cannot be used (plackett.experiments.store)

    DataWarning              input that was accepted but deserves a look (a UserWarning)
    ConvergenceWarning       a solver that stopped before it was done (a UserWarning)

What goes wrong between machines.

What a run store raises.
"""

from __future__ import annotations


class PlackettError(Exception):
    """Anything plackett refuses; its text is meant for the user, without a traceback."""


class DataError(PlackettError, ValueError):
    """Input that cannot be right.

    Parameters
    ----------
    message
        What was found and what is allowed.
    path, line, column
        Where, if it came from a file; lines and columns count from 1. The text of the error then
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
    """Input that was accepted but deserves a look."""


class ConvergenceWarning(UserWarning):
    """A solver that stopped before it was done; the text says what to do."""


class ClusterError(PlackettError):
    """A cluster that cannot be reached, or that stopped working; the text says what to do."""


class StoreError(PlackettError):
    """A run store that cannot be read or written; what was finished before is kept.

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
