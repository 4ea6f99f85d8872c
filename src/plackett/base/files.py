"""Files that are either complete or absent, and the one way to write text, JSON and TSV cells.

A writer works on a temporary sibling and moves it over the target at the end, so a process killed
at any moment leaves the old file or the new one, never a part of one.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plackett.base.errors import DataError

_SPECIAL_FILES = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def require_regular(path: Path) -> None:
    """Raise DataError for a pipe, a device or a socket, which may never end."""
    mode = path.stat().st_mode
    for is_kind, name in _SPECIAL_FILES:
        if is_kind(mode):
            raise DataError(
                f"is {name}, which may never end, and not a regular file; copy it to a file, or "
                "let standard input be it and give - instead",
                path=str(path),
            )


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it becomes ``path``."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "cannot write a file: a folder is there", str(target))
    with _errors_about(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        _sync(temporary)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary directory beside ``path``; on success it becomes ``path``.

    An existing directory is renamed first and removed last. A directory cannot be replaced in one
    step, so for a moment the old one has another name, but it is never lost.
    """
    target = Path(path)
    if target.is_symlink():
        target = target.resolve()  # what it points to is replaced, not the link
    if target.is_file():
        raise NotADirectoryError(
            errno.ENOTDIR, "cannot write a folder: a file is there", str(target)
        )
    with _errors_about(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        name = tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        for file in temporary.rglob("*"):
            if file.is_file():
                _sync(file)
        if target.exists():
            old = temporary.with_suffix(".old")
            target.rename(old)
            temporary.rename(target)
            shutil.rmtree(old)
        else:
            temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


@contextmanager
def _errors_about(target: Path) -> Iterator[None]:
    """Make errors name the target, not the temporary file."""
    try:
        yield
    except FileExistsError as error:
        reason = "cannot be written: a file stands where a folder must be"
        raise NotADirectoryError(errno.ENOTDIR, reason, str(target)) from error
    except OSError as error:
        reason = f"cannot be written: {error.strerror}"
        raise type(error)(error.errno, reason, str(target)) from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    # The only way to read the mask is to set it.
    mask = os.umask(0)
    os.umask(mask)
    return mask


_SPECIAL = re.compile(r'[\t\r\n"]')


def tsv_cell(value: object) -> str:
    r"""Format a cell of a tab-separated table; a tab, quote or line end in it requires quotes.

    >>> tsv_cell("a b"), tsv_cell("a\tb")
    ('a b', '"a\tb"')
    """
    text = str(value)
    if _SPECIAL.search(text) is None:
        return text
    return '"' + text.replace('"', '""') + '"'


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write a JSON file atomically; see :func:`to_json`."""
    write_text(path, to_json(value))


def to_json(value: Any, *, indent: int | None = 1, ascii_only: bool = False) -> str:
    """JSON text; NaN and infinities, which JSON lacks, become null."""
    content = _without_nan(value)
    return json.dumps(content, indent=indent, ensure_ascii=ascii_only, allow_nan=False)


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
