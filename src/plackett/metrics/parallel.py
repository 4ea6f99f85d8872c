"""Loops over all lists, compiled when first used and found in the on-disk cache afterwards."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from numba import njit, types

CHUNK = 64
"""Lists that one thread takes at a time; they share buffers."""


class ParallelFunction:
    """A loop over lists and its compiled form, with a fixed signature.

    Read-only and writeable arrays, and all list functions, share one compiled form.
    """

    def __init__(self, function: Callable[..., Any], returns: Any, arguments: Any) -> None:
        self.function = function
        self.returns = returns
        self.arguments = arguments

    @cached_property
    def compiled(self) -> Any:
        """The machine code."""
        returns = types.Tuple(self.returns) if isinstance(self.returns, tuple) else self.returns
        return njit(
            returns(*self.arguments), parallel=True, cache=True, nogil=True, error_model="numpy"
        )(self.function)


def parallel_function(
    returns: Any, *arguments: Any
) -> Callable[[Callable[..., Any]], ParallelFunction]:
    """Decorate a loop over lists; it is compiled when first used."""
    return lambda function: ParallelFunction(function, returns, arguments)
