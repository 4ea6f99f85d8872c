"""List functions as pointers that compiled code can call.

Numba takes a first-class function as an argument, but turning the Python object into a pointer
takes some 35 microseconds at each call: as long as a small batch. Here that is done once for each
list function; drivers receive the two addresses and make the function of them.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from numba import int64, types
from numba.core import cgutils
from numba.extending import intrinsic

from plackett.base.kernels import ListFunction

_KNOWN: WeakKeyDictionary[ListFunction, tuple[int, int]] = WeakKeyDictionary()


def addresses(function: ListFunction) -> tuple[int, int]:
    """Where its C wrapper and its machine code are; they live as long as the function does."""
    found = _KNOWN.get(function)
    if found is None:
        found = _KNOWN[function] = _look_up(function)
    return found


def _look_up(function: ListFunction) -> tuple[int, int]:
    result = function.compiled.get_compile_result(function.signature)
    names = result.fndesc.llvm_cfunc_wrapper_name, result.fndesc.llvm_func_name
    wrapper, machine_code = map(result.library.get_pointer_to_function, names)
    return wrapper, machine_code


def function_maker(signature: Any) -> Any:
    """For compiled code: make a function of this signature from its two addresses."""
    kind = types.FunctionType(signature)

    @intrinsic
    def function_at(_typing, wrapper, machine_code):  # type: ignore[no-untyped-def]
        def generate(context, builder, _signature, arguments):  # type: ignore[no-untyped-def]
            pointer = context.get_value_type(types.voidptr)
            function = cgutils.create_struct_proxy(kind)(context, builder)
            function.c_addr = builder.inttoptr(arguments[0], pointer)
            function.jit_addr = builder.inttoptr(arguments[1], pointer)
            # Only compiled code sees the function: there is no Python object to give back.
            function.py_addr = cgutils.get_null_value(pointer)
            return function._getvalue()

        return kind(int64, int64), generate

    return function_at
