"""Ray is an extra: whoever lacks it is told what to install.

PyTorch is an extra: whoever lacks it is told what to install.
"""

from __future__ import annotations


def need_ray() -> None:
    """Raise an ImportError with the command to run if Ray is missing."""
    try:
        import ray  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "several machines (cluster=...) need Ray: pip install 'plackett[distributed]'"
        ) from error


def need_torch() -> None:
    """Raise an ImportError with the command to run if PyTorch or safetensors is missing."""
    try:
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError("NeuralRanker needs PyTorch: pip install 'plackett[neural]'") from error
