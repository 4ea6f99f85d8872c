"""Where a net is trained and run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from plackett.base.errors import UsageError
from plackett.base.kernels import kernel_threads


def as_device(name: str) -> torch.device:
    """The device of a name; "auto" is a GPU of NVIDIA's or AMD's if there is one.

    Others, such as "mps" and "xpu", are for those who ask for them: not every operation of
    PyTorch's is there, nor gives the same numbers.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        # A device may exist and lie about it until it is asked for a number.
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].split(". ")[0].rstrip(".")
        raise UsageError(
            f'device {name!r} cannot be used here: {reason}. Use "auto" or "cpu"; a model that '
            'was saved takes it by set_params(device="cpu").'
        ) from error
    return device


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Let PyTorch and compiled kernels use at most so many threads inside the block."""
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
