"""Compiled kernels: functions of one list, and the parallel loops that call them.

A *list function* computes something for one list. Drivers receive it as a pointer, so that each is compiled once for
all list functions. Signatures are explicit, and compilation (or loading from the cache on disk) waits for the first
use. Numba takes 35 microseconds to turn a Python object into such a pointer; :attr:`ListFunction.address` does it once.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from numba import float32, float64, int64, njit, types
from numba.core import cgutils, config
from numba.extending import intrinsic

from plackett.base.kernel_compiler import dispatcher


def readonly(dtype: Any, ndim: int = 1) -> types.Array:
    """Type of a contiguous input array, which may be writeable or read-only."""
    return types.Array(dtype, ndim, "C", readonly=True)


FLOATS = readonly(float64)
LABELS = readonly(float32)
INTEGERS = readonly(int64)

# A function without options inherits those of the caller that compiles it first, and the cache then
# keeps that form for all others. Hence the explicit fastmath=False.
# error_model="numpy": a division by zero gives inf as in NumPy, not an exception, which no kernel
# may raise; the check would also keep LLVM from vectorizing.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": False, "no_cfunc_wrapper": True}


def compiled(function: Callable[..., Any]) -> Any:
    """Decorate a function that kernels call; it is compiled on first use and cached on disk."""
    return dispatcher(function, **_OPTIONS)


def parallel(function: Callable[..., Any]) -> Any:
    """Decorate a kernel with a parallel loop; it is compiled on first use and cached on disk."""
    return dispatcher(function, parallel=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)


# Always inlined. Otherwise there would be two copies, one compiled alone and one optimized again
# with its caller, and the process that compiles would call another copy than those that load the
# caller from the cache: the same sums in another order, which differ in their last bits. A parallel
# loop is optimized twice as well, so it must call such functions through a list function's pointer.
_REORDERED = _OPTIONS | {"fastmath": {"reassoc", "contract", "nsz"}, "forceinline": True}


def reordered(function: Callable[..., Any]) -> Any:
    """Like :func:`compiled`, for functions whose sums may be reordered, to become vector code.

    NaN and infinity keep their meaning.
    """
    return dispatcher(function, **_REORDERED)


def compile_for(kernel: Any, signature: Any) -> Any:
    """Compile for one signature, which calls then convert their arguments to."""
    if not config.DISABLE_JIT:
        kernel.compile(signature)
        kernel.disable_compile()
    return kernel


class ListFunction:
    """A Python function of one list and its compiled form.

    The function is at module level. ``cached`` keeps the machine code on disk; False for closures, which the cache
    cannot distinguish.
    """

    def __init__(self, function: Callable[..., Any], signature: Any, *, cached: bool = True) -> None:
        self.function = function
        self.signature = signature
        self.cached = cached

    @cached_property
    def compiled(self) -> Any:
        """The compiled function, for calls from Python."""
        return compile_for(compiled(self.function), self.signature)

    @cached_property
    def _machine_code(self) -> Any:
        """The compiled function without the wrappers for calls from Python and C."""
        make = dispatcher if self.cached else njit
        return compile_for(make(self.function, no_cpython_wrapper=True, **_OPTIONS), self.signature)

    @cached_property
    def address(self) -> int:
        """Address of the machine code, for :func:`function_maker`."""
        result = self._machine_code.get_compile_result(self.signature)
        return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))

    def __repr__(self) -> str:
        return f"ListFunction({self.function.__name__})"


def list_function(signature: Any) -> Callable[[Callable[..., Any]], ListFunction]:
    """Decorate a function of one list; it is compiled on first use."""
    return lambda function: ListFunction(function, signature)


def function_maker(signature: Any) -> Any:
    """A function for compiled code that makes a function with this signature from its address."""
    kind = types.FunctionType(signature)

    @intrinsic
    def function_at(_typing, address):  # type: ignore[no-untyped-def]
        def generate(context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
            pointer = context.get_value_type(types.voidptr)
            function = cgutils.create_struct_proxy(kind)(context, builder)
            function.jit_addr = builder.inttoptr(arguments[0], pointer)
            # Only compiled code uses the function: there is neither a C wrapper nor a Python object.
            function.c_addr = function.py_addr = cgutils.get_null_value(pointer)
            return function._getvalue()

        return kind(int64), generate

    return function_at


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
        """The compiled function."""
        returns = types.Tuple(self.returns) if isinstance(self.returns, tuple) else self.returns
        return compile_for(parallel(self.function), returns(*self.arguments))


def parallel_function(returns: Any, *arguments: Any) -> Callable[[Callable[..., Any]], ParallelFunction]:
    """Decorate a loop over lists; it is compiled on first use."""
    return lambda function: ParallelFunction(function, returns, arguments)
