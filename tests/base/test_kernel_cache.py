from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numba import float64
from numba.core.dispatcher import Dispatcher

import plackett
from plackett.base import kernel_cache
from plackett.base.kernel_cache import content_hash
from plackett.base.kernels import FLOATS, KernelDispatcher, ListFunction, compiled, list_function

HELPER = """
from plackett.base.kernels import compiled

@compiled
def scale(x):
    return 2.0 * x
"""
KERNEL = """
import numpy as np
import {helper} as helper
from {helper} import scale
from plackett.base.kernels import compiled

SHIFT = 1.0
TABLE = np.arange(3.0)
KINDS = ("a", "b")

@compiled
def kernel(x):
    return scale(x) + SHIFT + TABLE[0]

@compiled
def indirect(x):
    return helper.scale(x)

@compiled
def closing(x):
    return sum([scale(x) + i for i in range(3)])
"""


def make_module(folder: Path, name: str, text: str) -> ModuleType:
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


@pytest.fixture
def hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Hash a kernel whose helper is in another file, after changes to either text."""
    monkeypatch.setitem(sys.modules, "cache_helper", None)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "cache_kernel", None)  # type: ignore[arg-type]

    def make(*, helper: str = HELPER, kernel: str = KERNEL, name: str = "kernel") -> bytes:
        importlib.invalidate_caches()
        make_module(tmp_path, "cache_helper", helper)
        module = make_module(tmp_path, "cache_kernel", kernel.format(helper="cache_helper"))
        return content_hash(getattr(module, name))

    return make


@pytest.mark.parametrize("name", ["kernel", "indirect", "closing"])
def test_a_change_of_a_helper_in_another_file_is_noticed(hashes, name) -> None:
    before = hashes(name=name)
    assert hashes(name=name) == before
    assert hashes(name=name, helper=HELPER.replace("2.0", "3.0")) != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SHIFT = 1.0", "SHIFT = 1"),
        ("arange(3.0)", "arange(4.0)"),
        ("TABLE[0]", "TABLE[1]"),
        ("+ SHIFT", "- SHIFT"),
        ("def kernel(x)", "def kernel(x, y=1)"),
        ("@compiled\ndef kernel", "@compiled\n@(lambda f: f)\ndef kernel"),
    ],
)
def test_what_decides_the_machine_code_is_noticed(hashes, old, new) -> None:
    changed = hashes(kernel=KERNEL.replace(old, new))
    assert (changed != hashes()) == ("lambda" not in new)


def test_comments_places_and_other_functions_do_not_count(hashes) -> None:
    moved = "# a remark\n\n" + KERNEL.replace("sum([", "max([").replace('"a"', '"c"')
    assert hashes(kernel=moved, helper="\n\n" + HELPER) == hashes()


def test_options_count_and_functions_may_call_themselves() -> None:
    def power(x, n):
        return 1.0 if n == 0 else x * power(x, n - 1)

    from plackett.base.kernels import reordered

    assert content_hash(compiled(power)) != content_hash(reordered(power))
    assert content_hash(compiled(power)) == content_hash(compiled(power))


def test_an_object_that_cannot_be_hashed_is_refused() -> None:
    thing = object()

    def kernel():
        return thing

    with pytest.raises(TypeError, match="cannot tell whether it has changed"):
        content_hash(kernel)


def test_every_kernel_of_the_package_has_a_key() -> None:
    functions = {}
    for entry in pkgutil.walk_packages(plackett.__path__, "plackett."):
        if entry.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(entry.name)
        except ImportError:  # an optional library
            continue
        for value in vars(module).values():
            if isinstance(value, ListFunction):
                functions[value.function] = value.function
            elif isinstance(value, Dispatcher):
                assert isinstance(value, KernelDispatcher), value
                functions[value] = value
    assert len(functions) > 200
    assert len({content_hash(function) for function in functions.values()}) == len(functions)


# ---- files ---------------------------------------------------------------------------------------


@list_function(float64(FLOATS))
def total(values):
    return np.sum(values)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kernel_cache.cache_folder.cache_clear()
    monkeypatch.setattr(kernel_cache.config, "CACHE_DIR", str(tmp_path))
    yield tmp_path / "plackett-kernels"
    kernel_cache.cache_folder.cache_clear()


def compile_total() -> Dispatcher:
    """Compile or load it; a new object, so that nothing is left in memory."""
    function = ListFunction(total.function, total.signature).compiled
    assert function(np.arange(4.0)) == 6.0
    return function


def is_hit(function: Dispatcher) -> bool:
    return sum(function.stats.cache_hits.values()) == 1


def test_the_second_time_the_machine_code_comes_from_the_cache(folder: Path) -> None:
    assert not is_hit(compile_total())
    (file,) = folder.iterdir()
    assert file.name.startswith(f"{total.function.__module__}.total-")
    assert is_hit(compile_total())


@pytest.mark.parametrize("content", [b"", b"cut off", b"\0" * 5000])
def test_a_damaged_file_is_compiled_again(folder: Path, content: bytes) -> None:
    compile_total()
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(content or whole[:-1])
    assert not is_hit(compile_total())
    assert is_hit(compile_total())


@pytest.mark.parametrize(("setting", "value"), [("BOUNDSCHECK", 1), ("OPT", 1), ("CPU_NAME", "generic")])
def test_settings_and_the_processor_have_machine_code_of_their_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: object
) -> None:
    compile_total()
    kernel_cache._versions.cache_clear()
    monkeypatch.setattr(kernel_cache.config, setting, value)
    try:
        assert not is_hit(compile_total())
    finally:
        kernel_cache._versions.cache_clear()
    assert len(list(folder.iterdir())) == 2


def test_files_that_nobody_uses_are_removed(folder: Path) -> None:
    folder.mkdir()
    old, used = folder / "old", folder / "used"
    for file in (old, used):
        file.write_bytes(b"")
    os.utime(old, (0, time.time() - 61 * 24 * 3600))
    kernel_cache._remove_unused.cache_clear()
    compile_total()
    assert not old.exists()
    assert used.exists()


def test_a_loaded_file_counts_as_used(folder: Path) -> None:
    compile_total()
    (file,) = folder.iterdir()
    os.utime(file, (0, time.time() - 59 * 24 * 3600))
    compile_total()
    assert time.time() - file.stat().st_mtime < 3600


def test_a_folder_that_cannot_be_written_can_still_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_total()
    kernel_cache.cache_folder.cache_clear()
    monkeypatch.setattr(kernel_cache, "is_writable", lambda _: False)
    assert is_hit(compile_total())
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    kernel_cache.cache_folder.cache_clear()
    assert kernel_cache.cache_folder() is None
    assert not is_hit(compile_total())


PROGRAM = """
import numpy as np
from plackett.base.kernel_cache import cache_folder
from plackett.base.random import mix
mix(np.uint64(1))
print(sum(mix.stats.cache_hits.values()), cache_folder())
"""


def run(count: int, cache: Path) -> list[list[str]]:
    """Several processes at the same time, each of which compiles or loads a kernel."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    arguments = [sys.executable, "-c", PROGRAM]
    processes = [subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    outputs = [process.communicate()[0] for process in processes]
    assert all(process.returncode == 0 for process in processes)
    return [output.split() for output in outputs]


def test_processes_share_a_cache(tmp_path: Path) -> None:
    for _, folder in run(2, tmp_path):
        assert Path(folder) == tmp_path / "plackett-kernels"
    (file,) = (tmp_path / "plackett-kernels").iterdir()
    assert file.name.startswith("base.random.mix-")
    ((hits, _),) = run(1, tmp_path)
    assert hits == "1"
