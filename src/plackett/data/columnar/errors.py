"""Errors of Arrow as errors of plackett: every reader of tables runs inside this."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from plackett.base.errors import DataError


@contextmanager
def name_file_in_errors(path: Path | None, kind: str = "Parquet or Arrow file") -> Iterator[None]:
    """Add the path to errors, and turn Arrow's errors into DataError.

    Parameters
    ----------
    path
        The file; None for a table in memory.
    kind
        What a file with such an error is not: "not a readable ``kind``".
    """
    name = None if path is None else str(path)
    try:
        yield
    except DataError as error:
        if error.path is not None or name is None:
            raise
        raise DataError(error.message, path=name, line=error.line) from error
    except (FileNotFoundError, MemoryError):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if os.strerror(errno.ENOMEM) in str(error):  # Arrow does not set the error number
            raise MemoryError(f"{name}: {error}") from error
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "unreadable"
        raise DataError(f"not a readable {kind}: {reason}", path=name) from error
