"""Checksums of files and of JSON content, and signatures with a key that two machines share.

A checksum finds damage. It does not stop someone who changes a file on purpose, who can write a new
checksum as well; a signature does, as long as the key is secret.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plackett.base.errors import DataError, UsageError

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
    """The key in a file: all its bytes but white space at the end."""
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
