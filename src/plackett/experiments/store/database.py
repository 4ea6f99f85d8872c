"""What the store needs of a database.

Statements are written once, in the SQL that SQLite and PostgreSQL share, with ``?`` for arguments;
the words in which the two differ are fields. A statement outside of :meth:`Database.atomically`
is a transaction of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

Result = TypeVar("Result")


class Database(ABC):
    """One connection; not to be shared by threads or processes."""

    blob: ClassVar[str]
    """Type of a column of bytes."""
    real: ClassVar[str]
    """Type of a column of double-precision numbers."""
    now: ClassVar[str]
    """Expression for the seconds since 1970 by the clock of the database, which all share."""

    place: str
    """Where it is, for messages; without a password."""

    @abstractmethod
    def execute(self, statement: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and give its rows.

        Raises
        ------
        StoreError
            If the database refuses; the text says why.
        """

    @abstractmethod
    def atomically(self, work: Callable[[], Result], *, alone: bool = False) -> Result:
        """Do all statements of ``work`` durably, or none of them.

        Parameters
        ----------
        work
            May be called again if the connection is lost on the way: what it does twice must have
            the effect of once.
        alone
            Let no other process change the tables meanwhile.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""
