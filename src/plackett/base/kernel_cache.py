"""On-disk cache of compiled kernels, keyed by everything that determines the machine code.

The name of a file is a hash of the bytecode, constants and types of the kernel and of all functions that it calls, the
compiler's options and version, and the CPU. A changed helper therefore gives a new name, and installations, processes
and machines can share a cache, which Numba's own cache (``cache=True``) does not allow. Files are renamed into place
and never changed.
"""

import hashlib
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import llvmlite
import llvmlite.ir
import numba
import numpy as np
from numba.core import config
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.core.types import Type
from numba.core.typing import Signature
from numba.extending import _Intrinsic
from numba.misc.appdirs import AppDirs

_PACKAGE = __name__.partition(".")[0]
_FORMAT = 1
_SETTINGS = (
    "OPT",
    "LOOP_VECTORIZE",
    "SLP_VECTORIZE",
    "BOUNDSCHECK",
    "DEBUGINFO_DEFAULT",
    "USING_SVML",
    "LLVM_REFPRUNE_PASS",
    "LLVM_REFPRUNE_FLAGS",
)
_UNUSED_DAYS = 60


@cache
def cache_folder() -> Path | None:
    """Folder of the cache; None if there is none and none can be made.

    It is in ``NUMBA_CACHE_DIR`` if that is set, else in the user's cache folder
    (``XDG_CACHE_HOME``, ``~/.cache``), else next to the package.
    """
    if config.CACHE_DIR:
        folders = [Path(config.CACHE_DIR) / f"{_PACKAGE}-kernels"]
    else:
        user = AppDirs(appname=_PACKAGE, appauthor=False).user_cache_dir
        folders = [Path(user) / "kernels", Path(__file__).parent / "__pycache__" / "kernels"]
    for folder in folders:
        if is_writable(folder):
            return folder
    # A cache that another user has filled can be read.
    return next((folder for folder in folders if folder.is_dir()), None)


def is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder, which is made if it is absent."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def cache_file(kernel: Any, signature: Any) -> Path | None:
    """File of the machine code of a dispatcher for a signature; None if there is no cache."""
    folder = cache_folder()
    if folder is None:
        return None
    machine = kernel.targetctx.codegen().magic_tuple()
    digest = hashlib.sha256(repr((_versions(), machine, str(signature))).encode())
    digest.update(content_hash(kernel))
    function = kernel.py_func
    name = f"{function.__module__.removeprefix(_PACKAGE + '.')}.{function.__name__}"
    return folder / f"{name}-{digest.hexdigest()[:32]}"


def load(file: Path | None, target_context: Any) -> CompileResult | None:
    """Read a compiled function; None if it is not there."""
    if file is None:
        return None
    try:
        content = file.read_bytes()
    except OSError:
        return None
    checksum, data = content[:32], content[32:]
    if hashlib.sha256(data).digest() != checksum:  # cut off, as by a full disk
        return None
    with suppress(OSError):  # a cache that cannot be written cannot be cleaned either
        if time.time() - file.stat().st_mtime > 24 * 3600:
            os.utime(file)
    return CompileResult._rebuild(target_context, *pickle.loads(data))


def save(file: Path | None, result: CompileResult) -> None:
    """Write a compiled function; without effect if the folder cannot be written."""
    if file is None or result.lifted or result.library.has_dynamic_globals:
        return
    data = dumps(result._reduce())
    try:
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as temporary:
            temporary.write(hashlib.sha256(data).digest() + data)
        os.replace(temporary.name, file)
    except OSError:
        return
    _remove_unused(file.parent)


@cache
def _versions() -> tuple[Any, ...]:
    return (
        _FORMAT,
        sys.implementation.cache_tag,
        sys.version_info[:3],
        np.__version__,
        numba.__version__,
        llvmlite.__version__,
        *((name, str(getattr(config, name, None))) for name in _SETTINGS),
    )


@cache
def _remove_unused(folder: Path) -> None:
    """Remove files that no process has used for a long time; once per process."""
    oldest = time.time() - _UNUSED_DAYS * 24 * 3600
    for file in folder.iterdir():
        with suppress(OSError):  # another process was faster
            if file.stat().st_mtime < oldest:
                file.unlink()


def content_hash(function: Any) -> bytes:
    """Hash a function (plain or a dispatcher) and everything in the package that it refers to."""
    digest = hashlib.sha256()
    numbers: dict[int, int] = {}
    pending = [function]
    while pending:
        current = pending.pop()
        if id(current) in numbers:  # also ends recursion
            digest.update(b"again %d;" % numbers[id(current)])
            continue
        numbers[id(current)] = len(numbers)
        text, called = _describe_function(current)
        digest.update(hashlib.sha256(text).digest())
        pending.extend(reversed(called))
    return digest.digest()


_DESCRIPTIONS: WeakKeyDictionary[Any, tuple[bytes, list[Any]]] = WeakKeyDictionary()


def _describe_function(function: Any) -> tuple[bytes, list[Any]]:
    """The description of a function, and the functions that it calls."""
    known = _DESCRIPTIONS.get(function)
    if known is None:
        called: list[Any] = []
        text = "\n".join(_function_parts(function, called))
        known = _DESCRIPTIONS[function] = text.encode(), called
    return known


def _function_parts(function: Any, called: list[Any]) -> Iterator[str]:
    if isinstance(function, Dispatcher):
        yield f"options {_describe(sorted(function.targetoptions.items()), called)}"
        function = function.py_func
    elif isinstance(function, _Intrinsic):
        yield "intrinsic"
        function = function._defn
    code: CodeType = function.__code__
    yield f"{function.__module__}.{function.__qualname__}"
    yield from _code_parts(code)
    yield _describe((function.__defaults__, function.__kwdefaults__), called)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield f"{name} = {_describe(cell.cell_contents, called)}"
    names = sorted(set(_names(code)))
    for name in names:
        if name not in function.__globals__:  # a builtin or an attribute
            continue
        value = function.__globals__[name]
        yield f"{name} = {_describe(value, called)}"
        if isinstance(value, ModuleType) and not _is_library(value):
            for attribute in names:
                if hasattr(value, attribute):
                    described = _describe(getattr(value, attribute), called)
                    yield f"{name}.{attribute} = {described}"


def _code_parts(code: CodeType) -> Iterator[str]:
    """Everything in a code object except its file and line numbers."""
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant)
        else:
            yield _describe(constant, [])


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


_LIBRARIES = sys.stdlib_module_names | {"numba", "numpy", "llvmlite"} - {"__main__"}


def _is_library(value: Any) -> bool:
    """Whether a module or function belongs to a library, whose version is part of the key."""
    module = value.__name__ if isinstance(value, ModuleType) else value.__module__
    return str(module).partition(".")[0] in _LIBRARIES


_PLAIN = (bool, int, float, complex, str, bytes, type(...), Enum)


def _describe(value: Any, called: list[Any]) -> str:
    """Text that is the same in each process and changes with the value; collects functions."""
    if value is None or isinstance(value, _PLAIN):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(_describe(item, called) for item in value)})"
    if isinstance(value, (set, frozenset)):
        return f"set({sorted(_describe(item, called) for item in value)})"
    if isinstance(value, dict):
        return f"dict({', '.join(_describe(item, called) for item in value.items())})"
    if isinstance(value, (np.ndarray, np.generic)):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array {value.dtype} {value.shape} {content}"
    if isinstance(value, (Type, Signature, np.dtype, llvmlite.ir.Type, llvmlite.ir.Value)):
        return f"{type(value).__name__} {value}"
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, (FunctionType, Dispatcher, _Intrinsic)) and not _is_library(value):
        called.append(value)
        return "function"
    # Any is a class from Python 3.11 on.
    if value is Any or isinstance(value, (type, FunctionType, Dispatcher, BuiltinFunctionType, np.ufunc)):
        fields = getattr(value, "_fields", "")
        name = getattr(value, "__name__", "")
        return f"{getattr(value, '__module__', '')}.{name} {fields}"
    raise TypeError(
        f"a kernel refers to {value!r} of type {type(value).__name__}: the kernel cache cannot "
        "tell whether it has changed. Refer to numbers, types, arrays and functions only."
    )
