"""Files: written completely or not at all, as text, JSON or TSV cells; their checksums and signatures.

A writer works on a temporary sibling and moves it over the target at the end, so that a killed process leaves either
the old file or the new one. A checksum detects damage; only a signature, with a secret key, also detects tampering.
"""

import ctypes
import errno
import hashlib
import hmac
import json
import math
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plackett.base.errors import DataError, UsageError
from plackett.base.memory import format_bytes

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
                f"is {name}, which may never end, and not a regular file; copy it to a file, or redirect it "
                "to standard input and give - instead",
                path=str(path),
            )


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path next to ``path``; on success it is renamed to ``path``."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "cannot write a file: a folder is there", str(target))
    handle, name = _make_temporary(target, tempfile.mkstemp)
    os.close(handle)
    temporary = Path(name)
    try:
        with explain_full_disk(target, temporary):
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            sync(temporary)
            temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary directory next to ``path``; on success it is renamed to ``path``.

    An existing directory swaps names with the new one in one step and is removed last. If the system
    cannot do that, the old one has another name for a moment, but it is never lost.
    """
    target = Path(path)
    if target.is_symlink():
        target = target.resolve()  # replace the target of a link, not the link
    if target.is_file():
        raise NotADirectoryError(errno.ENOTDIR, "cannot write a folder: a file is there", str(target))
    temporary = Path(_make_temporary(target, tempfile.mkdtemp))
    try:
        with explain_full_disk(target, temporary):
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            for file in temporary.rglob("*"):
                if file.is_file():
                    sync(file)
        if not target.exists():
            temporary.rename(target)
        elif _exchange(temporary, target):
            shutil.rmtree(temporary, ignore_errors=True)  # the old one
        else:
            old = temporary.with_suffix(".old")
            target.rename(old)
            try:
                temporary.rename(target)
            except BaseException:
                old.rename(target)
                raise
            shutil.rmtree(old, ignore_errors=True)  # the new one is in place
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders swap names in one step; False if the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(other))


_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_SPACE_TEXTS = (
    *map(os.strerror, sorted(_NO_SPACE)),  # libraries that report the text alone
    "requested and",  # NumPy: "1000 requested and 200 written"
)


class FullDiskError(OSError):
    """A file or folder that the disk cannot hold."""

    needed: int | None = None
    """Its size in bytes, if it is known."""


@contextmanager
def explain_full_disk(target: Path, temporary: Path, needed: int | None = None) -> Iterator[None]:
    """Make errors of a full disk name the target, the space it takes and what to do.

    ``temporary`` holds what was written so far. If ``needed`` is not known, the error says how much was written.
    """
    try:
        yield
    except Exception as error:
        number = error.errno if isinstance(error, OSError) else None
        if isinstance(error, OSError) and error.filename == str(target):
            raise  # explained already
        text = str(error)
        if number not in _NO_SPACE and not any(part in text for part in _NO_SPACE_TEXTS):
            raise
        free = shutil.disk_usage(target.parent).free
        known = error.needed if isinstance(error, FullDiskError) else needed
        size, more = known or 0, ""
        if known is None:
            files = temporary.rglob("*") if temporary.is_dir() else [temporary]
            size, more = sum(file.stat().st_size for file in files if file.is_file()), "more than "
        wanted = f"{more}{format_bytes(size)} is needed and " if size else ""
        limit = "the file may not grow" if number == errno.EFBIG else "the disk is full"
        full = FullDiskError(
            number or errno.ENOSPC,
            f"cannot be written, {limit}: {wanted}{format_bytes(free)} is free; what was there "
            "before is unchanged. Free some space, or choose another folder",
            str(target),
        )
        full.needed = known
        raise full from error


def _make_temporary(target: Path, make: Callable[..., Any]) -> Any:
    """Make a temporary file or folder next to the target; errors name the target instead."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return make(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    except FileExistsError as error:
        reason = "cannot be written: a file stands where a folder must be"
        raise NotADirectoryError(errno.ENOTDIR, reason, str(target)) from error
    except OSError as error:
        reason = f"cannot be written: {error.strerror}"
        raise type(error)(error.errno, reason, str(target)) from error


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on disk."""
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


_CHUNK_BYTES = 1 << 20
_LEAST_KEY_BYTES = 16


def hash_file(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_CHUNK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def hash_json(content: Mapping[str, Any], *, without: tuple[str, ...] = ()) -> str:
    """SHA-256 of JSON content, whatever its spacing and the order of its keys.

    >>> hash_json({"a": 1, "b": 2}) == hash_json({"b": 2, "a": 1, "sum": 0}, without=("sum",))
    True
    """
    return hashlib.sha256(_canonical(content, without)).hexdigest()


def sign_json(content: Mapping[str, Any], key: bytes, *, without: tuple[str, ...] = ()) -> str:
    """HMAC-SHA256 of JSON content, in hexadecimal digits."""
    return hmac.new(key, _canonical(content, without), hashlib.sha256).hexdigest()


def _canonical(content: Mapping[str, Any], without: tuple[str, ...]) -> bytes:
    kept = {name: value for name, value in content.items() if name not in without}
    return json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()


def read_key(path: Path) -> bytes:
    """The key in a file: all its bytes except trailing white space."""
    try:
        key = path.read_bytes().rstrip()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=str(path)) from error
    if len(key) < _LEAST_KEY_BYTES:
        raise UsageError(
            f"{path}: a key has at least {_LEAST_KEY_BYTES} bytes, and this one {len(key)}; make "
            "one with: openssl rand -hex 32"
        )
    return key
