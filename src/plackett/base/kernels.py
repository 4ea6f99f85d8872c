"""Functions of one list, compiled when first used.

A *list function* computes something for one list. The drivers that run it over all lists in
parallel receive it as a typed first-class function: they are compiled once, are found in the
on-disk cache by later processes, and call the list function through a pointer. That needs an
explicit signature, and Numba compiles (or loads) a function with a signature when it is
decorated. :class:`ListFunction` puts that off to the first use, so that importing the package
loads none of the dozens of them.

Numba's cache sees a change of the file that holds the function, not of the functions it calls
in other files; ``make clean`` empties the cache after such a change.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from numba import float32, float64, njit, types


def readonly(dtype: Any, ndim: int = 1) -> types.Array:
    """Type of a contiguous input array; accepts writeable arrays and read-only ones alike."""
    return types.Array(dtype, ndim, "C", readonly=True)


FLOATS = readonly(float64)
LABELS = readonly(float32)

# A function without options of its own takes over those of whichever caller compiles it first, and
# the cache then keeps that form for all others. Hence fastmath=False where nothing else is meant.
# error_model="numpy": a division by zero gives inf as in NumPy, not an exception, which no kernel
# may raise; the check would also keep LLVM from vectorising.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": False}

compiled: Any = njit(cache=True, **_OPTIONS)
"""Decorator of functions that kernels call: compiled when first used, kept on disk."""

# Always inlined: otherwise there would be two copies, one as compiled for itself and one that was
# optimised again with its caller, and the process that compiles calls another one than those that
# load the caller from the cache: the same sums in another order, which differ in their last bits.
# A parallel loop is optimised twice as well, so it must reach such functions through the pointer
# of a list function.
reordered: Any = njit(
    cache=True,
    forceinline=True,
    **_OPTIONS | {"fastmath": {"reassoc", "contract", "nsz"}},
)
"""The same for functions whose sums may be made in any order, so that they become vector code.

No NaN or infinity is assumed away.
"""


class ListFunction:
    """A Python function of one list and its compiled form.

    Parameters
    ----------
    function
        A module-level function that Numba can compile.
    signature
        Its Numba signature.
    cached
        Keep the machine code on disk; False for functions that close over another, which the
        cache cannot tell apart.
    """

    def __init__(
        self, function: Callable[..., Any], signature: Any, *, cached: bool = True
    ) -> None:
        self.function = function
        self.signature = signature
        self.cached = cached

    @cached_property
    def compiled(self) -> Any:
        """The machine code, to be handed to a driver."""
        return njit(self.signature, cache=self.cached, **_OPTIONS)(self.function)

    def __repr__(self) -> str:
        return f"ListFunction({self.function.__name__})"


def list_function(signature: Any) -> Callable[[Callable[..., Any]], ListFunction]:
    """Decorate a function of one list; it is compiled when first used."""
    return lambda function: ListFunction(function, signature)
