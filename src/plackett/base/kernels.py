"""Compiled kernels: functions of one list, and the parallel loops that call them.

A *list function* computes something for one list. Drivers receive it as a pointer, so that each is compiled once for
all list functions. Signatures are explicit, and compilation (or loading from the cache on disk) waits for the first
use. Numba takes 35 microseconds to turn a Python object into such a pointer; :attr:`ListFunction.address` does it once.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import llvmlite.binding as llvm
from numba import float32, float64, int64, njit, types
from numba.core import cgutils, config, sigutils
from numba.core.codegen import JITCodeLibrary, RuntimeLinker
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUContext
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher
from numba.core.targetconfig import ConfigStack, TargetConfig
from numba.core.types.functions import BaseFunction
from numba.extending import intrinsic

from plackett.base.compilation_notice import compiling
from plackett.base.kernel_cache import cache_file, load, save


class _LinkOnlyLibrary(JITCodeLibrary):  # type: ignore[misc]
    """LLVM code for other libraries to link; it is not optimized and has no machine code."""

    is_reordered = False

    def _optimize_functions(self, ll_module: Any) -> None:
        if self.is_reordered:
            super()._optimize_functions(ll_module)
        else:
            ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        if self.is_reordered:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        for variable in self._final_module.global_variables:
            if variable.name.startswith(RuntimeLinker.PREFIX):
                raise NotImplementedError(
                    f"{self.name}: kernels may call themselves with arguments of the same types, "
                    "but not with others, and may not call each other in a circle."
                )
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002
        self._ensure_finalized()
        return 0


class _Compiler(Compiler):  # type: ignore[misc]
    """Numba's usual passes, with a library that depends on whether the function is only a part of a kernel."""

    def __init__(self, typing_context, target_context, library, args, returns, flags, locals):  # type: ignore[no-untyped-def]
        if library is None:
            name = "kernel" if _depth == 1 else "part"
            library = (JITCodeLibrary if _depth == 1 else _LinkOnlyLibrary)(target_context.codegen(), name)
            library.enable_object_caching()
            if _depth > 1:
                library.is_reordered = bool(flags.fastmath)
        super().__init__(typing_context, target_context, library, args, returns, flags, locals)


_depth = 0
"""Nesting of compilations of kernels; guarded by Numba's compiler lock."""


class KernelDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A compiled function of the package, cached on disk."""

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None) -> None:
        options = {"nopython": True, "boundscheck": None} | (targetoptions or {})
        super().__init__(py_func, locals or {}, options, _Compiler)
        part = options | {"no_cpython_wrapper": True}
        self._part_compiler = _FunctionCompiler(py_func, self.targetdescr, part, {}, _Compiler)
        self._compiler: Any
        self._parts: set[Any] = set()

    def compile(self, sig: Any) -> Any:
        """Compile for a signature, or load from the cache; returns the entry point."""
        global _depth
        with global_compiler_lock:
            args = tuple(sigutils.normalize_signature(sig)[0])
            _depth += 1
            try:
                return self._compile_part(sig, args) if _depth > 1 else self._compile(sig, args)
            finally:
                _depth -= 1

    def _compile(self, sig: Any, args: Any) -> Any:
        if args in self._parts:
            self._parts.remove(args)
            del self.overloads[args]
        if args in self.overloads or not self._can_compile:
            return super().compile(sig)
        self.targetctx.refresh()  # may compile what must have machine code
        file = cache_file(self, sig)
        result = load(file, self.targetctx)
        if result is None:
            with compiling(), _parts_in_libraries(self.targetctx.codegen()), _quick_inference():
                super().compile(sig)
            save(file, self.overloads[args])
        else:
            self._cache_hits[sig] += 1
            self.targetctx.insert_user_function(result.entry_point, result.fndesc, [result.library])
            self.add_overload(result)
        return self.overloads[args].entry_point

    def _compile_part(self, sig: Any, args: Any) -> Any:
        if args in self.overloads:
            return self.overloads[args].entry_point
        self._parts.add(args)
        whole, self._compiler = self._compiler, self._part_compiler
        try:
            return super().compile(sig)
        except BaseException:
            self._parts.discard(args)
            raise
        finally:
            self._compiler = whole

    def add_overload(self, cres: Any) -> None:
        """Store a compiled function; a function that is only a part cannot be called from Python."""
        args = tuple(cres.signature.args)
        if args in self._parts:
            self.overloads[args] = cres
        else:
            super().add_overload(cres)


@contextmanager
def _parts_in_libraries(codegen: Any) -> Iterator[None]:
    """Make Numba's own functions parts as well, while a kernel is compiled."""
    environments: dict[str, Any] = {}
    codegen._library_class = _LinkOnlyLibrary
    codegen.set_env = environments.__setitem__
    try:
        yield
    finally:
        del codegen._library_class
        del codegen.set_env
    # Point variables at the Python objects of the compiled functions. Functions without machine code get their
    # variable in a module of its own: code that links them later expects that it is there and set.
    engine = codegen._engine
    absent = [name for name in environments if not engine.get_global_value_address(name)]
    if absent:
        lines = [f'@"{name}" = common global i64 0' for name in absent]  # as large as a pointer
        module = llvm.parse_assembly("\n".join(lines))
        module.triple, module.data_layout = llvm.get_process_triple(), codegen._data_layout
        codegen._add_module(module)
        engine.finalize_object()
    for name, environment in environments.items():
        codegen.set_env(name, environment)


_signatures: dict[Any, Any] = {}
"""Signatures by function of Numba, types of arguments and flags; guarded by Numba's compiler lock.

A function that gets more overloads is another key.
"""
_call_type = BaseFunction.get_call_type


def _known_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
    """The signature of a call; Numba would try all templates at each ``a + b`` and ``a[i]``."""
    key = self, context, tuple(args), tuple(kws.items()), ConfigStack.top_or_none()
    signature = _signatures.get(key)
    if signature is None:
        signature = _signatures[key] = _call_type(self, context, args, kws)
    return signature


def _is_same(self: Any, other: Any) -> Any:
    if not isinstance(other, TargetConfig):
        return NotImplemented
    return self is other or self._values == other._values or self.values() == other.values()


def _hash(self: Any) -> int:
    return hash(tuple(self.options))  # as in Numba: of the names, not of the values


def _install_registries(self: Any) -> None:
    """Install only what is new in the registries; Numba would import thirty modules first, each time."""
    for registry in list(self._registries):
        self.install_registry(registry)


def _make_no_wrapper(_self: Any) -> None:
    """A part is not called from C; Numba wraps its own functions nevertheless."""


@contextmanager
def _quick_inference() -> Iterator[None]:
    """Speed up Numba's type inference while a kernel is compiled."""
    replacements = (
        (BaseFunction, "get_call_type", _known_call_type),
        (TargetConfig, "__eq__", _is_same),
        (TargetConfig, "__hash__", _hash),
        (CPUContext, "load_additional_registries", _install_registries),
        (Lower, "create_cfunc_wrapper", _make_no_wrapper),
    )
    before = [getattr(owner, name) for owner, name, _ in replacements]
    collects = gc.isenabled()
    gc.disable()
    for owner, name, method in replacements:
        setattr(owner, name, method)
    try:
        yield
    finally:
        for (owner, name, _), method in zip(replacements, before, strict=True):
            setattr(owner, name, method)
        if collects:
            gc.enable()


def dispatcher(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function on first use, as ``numba.njit`` does, with the cache of the package."""
    return function if config.DISABLE_JIT else KernelDispatcher(function, targetoptions=options)


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
    """Compile for one signature; calls convert their arguments to it."""
    if not config.DISABLE_JIT:
        kernel.compile(signature)
        kernel.disable_compile()
    return kernel


class ListFunction:
    """A Python function of one list, or a loop over lists, and its compiled form.

    The function is at module level. ``cached`` keeps the machine code on disk; False for closures, which the cache
    cannot distinguish. ``decorate`` is :func:`parallel` for a parallel loop over lists.
    """

    def __init__(self, function: Any, signature: Any, decorate: Any = compiled, *, cached: bool = True) -> None:
        self.function = function
        self.signature = signature
        self.decorate = decorate
        self.cached = cached

    @cached_property
    def compiled(self) -> Any:
        """The compiled function, for calls from Python."""
        return compile_for(self.decorate(self.function), self.signature)

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


def list_function(signature: Any, decorate: Any = compiled) -> Callable[[Callable[..., Any]], ListFunction]:
    """Decorate a function of one list, or a loop over lists; it is compiled on first use.

    The ``address`` of a function of one list goes to a driver. Of a loop over the lists (or blocks) from ``first`` to
    ``last``, :func:`plackett.base.threads.run_parallel` calls the ``compiled`` form. As the signature is fixed, arrays
    that are read-only and others share one compiled form.
    """
    return lambda function: ListFunction(function, signature, decorate)


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
