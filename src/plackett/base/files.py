"""Files that are either whole or absent.

A writer works on a temporary sibling and moves it over the target when done, so a process killed
at any moment leaves the old file or the new one, never half of one.

Cells of text tables with tabs between.

What experiments leave in a folder: texts that appear whole, and JSON without NaN.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it becomes ``path``."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "cannot write a file: a folder is there", str(target))
    with _about(target):
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

    A directory that is already there is moved aside first and removed last: a directory cannot
    be replaced in one step, so for a moment the old one has another name, but it is never lost.
    """
    target = Path(path)
    if target.is_symlink():
        target = target.resolve()  # what it points to is replaced, not the link
    if target.is_file():
        raise NotADirectoryError(
            errno.ENOTDIR, "cannot write a folder: a file is there", str(target)
        )
    with _about(target):
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
def _about(target: Path) -> Iterator[None]:
    """Let errors speak of the target, not of the temporary name beside it."""
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
    r"""A value as a cell: what holds a tab, a quote or the end of a line stands in quotes.

    >>> cell("a b"), cell("a\tb")
    ('a b', '"a\tb"')
    """
    text = str(value)
    if _SPECIAL.search(text) is None:
        return text
    return '"' + text.replace('"', '""') + '"'


def write_text(path: Path, text: str) -> None:
    """Write a text; it appears whole or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def to_json(value: Any) -> str:
    """Indented JSON; NaN, for which JSON has no word, is null."""
    return json.dumps(_plain(value), indent=1, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
