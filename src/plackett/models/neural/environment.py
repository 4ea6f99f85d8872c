"""PyTorch's global state around a fit: device, threads, random generators and gradients.

A fit leaves them unchanged. Random generators, gradient mode and default type do not affect its weights; the device and
the number of threads may change their last bits.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import torch
from torch import nn

from plackett.base.errors import UsageError
from plackett.base.random import combine
from plackett.base.threads import kernel_threads

_WEIGHTS = 0x77656967687473  # makes the seeds of initial weights differ from those of steps
_STEPS = 0x7374657073


def resolve_device(name: str) -> torch.device:
    """The device of this name; "auto" is CUDA or ROCm, else the CPU, never "mps" or "xpu"."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        # Some unavailable devices raise only when a value is read from them.
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].split(". ")[0].rstrip(".")
        raise UsageError(
            f'device {name!r} cannot be used here: {reason}. Use "auto" or "cpu"; for a saved '
            'model, call set_params(device="cpu").'
        ) from error
    return device


def move_net(net: nn.Module, device: torch.device) -> nn.Module:
    """The net on this device; asking one tensor is much faster than asking all."""
    first = next(net.parameters(), None)
    return net if first is not None and first.device == device else net.to(device)


@contextmanager
def limit_threads(count: int | None) -> Iterator[None]:
    """Limit PyTorch and compiled kernels to ``count`` threads; None changes nothing."""
    with kernel_threads(count):
        if count is None:
            yield
            return
        before = torch.get_num_threads()
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def preserve_rng(device: torch.device) -> AbstractContextManager[None]:
    """Restore the state of PyTorch's generators after the block."""
    return torch.random.fork_rng(devices=[] if device.type == "cpu" else [device], device_type=device.type)


@contextmanager
def initial_weights(seed: int, learner: int) -> Iterator[None]:
    """Draw the weights created in the block on the CPU, from the seed and the learner's number."""
    cpu = torch.device("cpu")
    with preserve_rng(cpu), cpu:
        torch.default_generator.manual_seed(_derive_seed(seed, _WEIGHTS, learner))
        yield


def seed_step(seed: int, step: int, device: torch.device) -> None:
    """Seed PyTorch so that the random numbers of a net depend only on the seed and the step."""
    number = _derive_seed(seed, _STEPS, step)
    if device.type == "cpu":
        torch.default_generator.manual_seed(number)  # leaves the generators of GPUs unchanged
    else:
        torch.manual_seed(number)


def _derive_seed(seed: int, purpose: int, number: int) -> int:
    return int(combine(np.uint64(seed % 2**64) ^ np.uint64(purpose), np.uint64(number))) % 2**63


def gradients_enabled() -> AbstractContextManager[None]:
    """Record gradients in the block, even if the caller has disabled them."""
    # Not always inference_mode(False), because it also resets the thread settings of the autograd engine.
    return torch.inference_mode(False) if torch.is_inference_mode_enabled() else torch.enable_grad()


@contextmanager
def float32_default() -> Iterator[None]:
    """Create float32 tensors in the block, whatever default type the program has set."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
