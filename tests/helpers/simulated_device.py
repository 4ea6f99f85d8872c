"""A device that is not there: tensors claim to live on it and keep their numbers in a CPU tensor.

It is as strict as a GPU. An operation that meets a tensor of the CPU with dimensions beside one of
the device raises, but for the few that PyTorch allows (copies, and indices of the CPU); ``numpy()``
raises; numbers come back by ``cpu()``, ``to("cpu")`` and ``item()`` alone. And it is as strict as
Apple's GPUs: there is no float64 on it. Random numbers come from the CPU's generator, so a fit
on it must give exactly what a fit on the CPU gives.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from fused_cells import CELLS

aten = torch.ops.aten
NAME = "simulated"
_MAY_MIX = (aten._to_copy.default, aten.copy_.default)
_MAY_INDEX = (aten.index.Tensor, aten.index_put_.default, aten.index_put.default)


class SimulatedTensor(torch.Tensor):
    """A tensor of the device."""

    @staticmethod
    def __new__(cls, inner):
        if inner.dtype == torch.float64:
            raise TypeError("the simulated device has no float64")
        result = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
        )
        result.inner = inner
        return result

    def __repr__(self) -> str:
        return f"SimulatedTensor({self.inner})"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func == torch.Tensor.data.__set__:
            # PyTorch moves what it knows of; the numbers behind it have to go along.
            args[0].inner = args[1].inner
        if func == torch.Tensor.grad.__set__:
            _GRADIENTS[id(args[0])] = args
        with torch._C.DisableTorchFunctionSubclass():
            actual = func(*args, **(kwargs or {}))
            if func == torch.Tensor.backward:
                _put_back()
        return actual

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


_GRADIENTS: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
"""Weights and their gradients as the program set them."""


def _put_back() -> None:
    """Add gradients up in place, as PyTorch does for tensors that are not of a subclass."""
    for weight, gradient in _GRADIENTS.values():
        if weight.grad is not None and weight.grad is not gradient:
            gradient.inner.copy_(weight.grad.inner)
            weight.grad = gradient


class SimulatedMode(TorchDispatchMode):
    """Within it tensors can be made on the device; it counts the operations done there."""

    def __init__(self) -> None:
        super().__init__()
        self.done: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {}, self.done)


def _run(func, args, kwargs, done=None):
    tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
    there = [x for x in tensors if isinstance(x, SimulatedTensor)]
    asked = kwargs.get("device")
    asked = None if asked is None else torch.device(asked).type
    if not there and asked != NAME:
        return func(*args, **kwargs)
    if there:
        _check(func, args, tensors)
    if done is not None:
        done[str(func)] += 1
    plain_args = tree_map_only(SimulatedTensor, lambda x: x.inner, args)
    plain = tree_map_only(SimulatedTensor, lambda x: x.inner, kwargs)
    if asked is not None:
        plain["device"] = "cpu"
    out = CELLS.get(func, func)(*plain_args, **plain)
    stays = asked == NAME or (asked is None and bool(there))
    if func is aten.copy_.default and not isinstance(args[0], SimulatedTensor):
        stays = False
    same = {id(x.inner): x for x in there}
    if not stays:
        return tree_map_only(torch.Tensor, torch.clone, out) if asked else args[0]
    return tree_map_only(torch.Tensor, lambda x: same[id(x)] if id(x) in same else SimulatedTensor(x), out)


def _check(func, args, tensors) -> None:
    """What a GPU refuses."""
    if func in _MAY_MIX:
        return
    looked_at = [args[0]] if func in _MAY_INDEX else tensors
    for item in looked_at:
        if not isinstance(item, SimulatedTensor) and item.dim() > 0:
            raise RuntimeError(
                f"{func}: expected all tensors to be on the same device, but found at least two, "
                f"{NAME}:0 and {item.device} (shape {tuple(item.shape)})"
            )


class _Module:
    """What PyTorch asks of a device: whether it is there, and its random numbers."""

    here = False

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return self.here

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return int(self.here)

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """The generator is the CPU's."""

    def get_rng_state(self, device=0):  # noqa: ARG002
        return torch.get_rng_state()

    def set_rng_state(self, state, device=0) -> None:  # noqa: ARG002
        torch.set_rng_state(state)


_MODULE = _Module()
_registered = False


def _register() -> None:
    """Tell PyTorch of the device, which it can be told once in a process."""
    global _registered
    if _registered:
        return
    from torch.utils.backend_registration import _DummyPrivateUse1Hook, _setup_privateuseone_for_python_backend

    class Hook(_DummyPrivateUse1Hook):
        def is_available(self) -> bool:
            return _MODULE.here

    _setup_privateuseone_for_python_backend(NAME, backend_module=_MODULE, hook=Hook())
    _registered = True


@contextmanager
def simulated_device():
    """Yield a mode in which ``device="simulated"`` works; outside of it there is no such device."""
    _register()
    _MODULE.here = True
    swapping = torch.__future__.get_swap_module_params_on_conversion()
    # So that a weight with two names is still one when its module has moved, as on a GPU.
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        # PyTorch starts a thread per device when it first goes back; this one comes too late.
        with torch.autograd.set_multithreading_enabled(False), SimulatedMode() as mode:
            yield mode
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swapping)
        _MODULE.here = False
        _GRADIENTS.clear()
