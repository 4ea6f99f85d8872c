"""Optional dependencies: checked where they are needed, with the command that installs them."""

from __future__ import annotations

from importlib import import_module

_EXTRAS = {
    "granian": ("serve", "plackett serve needs Granian"),
    "matplotlib": ("figures", "figures need Matplotlib"),
    "mlflow": ("mlflow", "logging to MLflow needs it"),
    "onnx": ("export", "export to ONNX needs onnx"),
    "optuna": ("tune", "tuning needs Optuna"),
    "psycopg": ("team", "a run store in PostgreSQL needs psycopg"),
    "ray": ("distributed", "several machines (cluster=...) need Ray"),
    "safetensors": ("neural", "NeuralRanker needs safetensors"),
    "sqlalchemy": ("tune", "tuning needs SQLAlchemy"),
    "torch": ("neural", "NeuralRanker needs PyTorch"),
}
"""For each module the extra of plackett that installs it, and what needs it."""


def require(*modules: str) -> None:
    """Raise an ImportError with the command to run if one of the modules cannot be imported."""
    for module in modules:
        try:
            import_module(module)
        except ImportError as error:
            extra, reason = _EXTRAS[module]
            raise ImportError(f"{reason}: pip install 'plackett[{extra}]'") from error
