from __future__ import annotations

import io
import sys

import pytest
from numba import float64

from plackett.base import compilation_notice
from plackett.base.compilation_notice import compiling, print_once, set_notice
from plackett.base.kernels import FLOATS, list_function


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation_notice, "_count", 0)
    monkeypatch.setattr(compilation_notice, "_notice", print_once)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("first")
def test_one_line_in_a_terminal_and_none_in_a_pipe(monkeypatch, capsys) -> None:
    with compiling():
        assert capsys.readouterr().err == ""
    monkeypatch.setattr(compilation_notice, "_count", 0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    for _ in range(2):
        with compiling():
            pass
    assert sys.stderr.getvalue().count("compiling kernels, once after installation") == 1


@pytest.mark.usefixtures("first")
def test_compiling_calls_the_notice_and_loading_does_not(monkeypatch, tmp_path) -> None:
    from contextlib import nullcontext

    from plackett.base import kernel_cache

    counts: list[int] = []
    set_notice(lambda count: nullcontext(counts.append(count)))
    kernel_cache.cache_folder.cache_clear()
    monkeypatch.setattr(kernel_cache.config, "CACHE_DIR", str(tmp_path))
    try:
        for _ in range(2):
            function = list_function(float64(FLOATS))(lambda values: values[0] + 7.0)
            assert function.compiled is not None
    finally:
        kernel_cache.cache_folder.cache_clear()
    assert counts == [1]
