"""ONNX: one graph from raw features to scores, transforms included."""

from plackett.serving.export.onnx_form.model import onnx_model

__all__ = ["onnx_model"]
