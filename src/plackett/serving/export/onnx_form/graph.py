"""A graph of ONNX operations that grows one operation at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8
"""Read by ONNX Runtime since 1.12: old enough for what search engines carry."""
FEATURES, SCORES = "features", "scores"

_ELEMENTS = {"float32": 1, "int64": 7, "float64": 11}  # onnx.TensorProto's numbers


def need_onnx() -> None:
    """Raise an ImportError with the command to run if the package is missing."""
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise ImportError("export to ONNX needs onnx: pip install 'plackett[export]'") from error


class Graph:
    """Operations so far; each method adds one and gives the name of its result."""

    def __init__(self) -> None:
        need_onnx()
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operation: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operation."""
        from onnx import helper

        result = f"{operation.lower()}_{len(self.nodes)}"
        made = helper.make_node(operation, list(inputs), [result], domain=domain, **attributes)
        self.nodes.append(made)
        return result

    def constant(self, values: NDArray[Any] | np.number[Any] | float) -> str:
        """Add a constant; numbers are float64 unless their type says otherwise."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(np.asarray(values))
        if np.ndim(values) == 0:
            array = array.reshape(())
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def cast(self, name: str, dtype: str) -> str:
        """Convert to another type, by NumPy's name of it."""
        return self.add("Cast", name, to=_ELEMENTS[dtype])

    def finished(self, scores: str, n_features: int, properties: dict[str, str]) -> bytes:
        """The model whose result is ``scores``."""
        from onnx import checker, helper

        self.nodes.append(helper.make_node("Identity", [scores], [SCORES]))
        single = _ELEMENTS["float32"]
        graph = helper.make_graph(
            self.nodes,
            "plackett",
            [helper.make_tensor_value_info(FEATURES, single, ["documents", n_features])],
            [helper.make_tensor_value_info(SCORES, single, ["documents", 1])],
            self.constants,
        )
        model = helper.make_model(
            graph,
            producer_name="plackett",
            ir_version=IR_VERSION,
            opset_imports=[
                helper.make_opsetid("", OPSET),
                helper.make_opsetid("ai.onnx.ml", ML_OPSET),
            ],
        )
        helper.set_model_props(model, properties)
        checker.check_model(model)
        return bytes(model.SerializeToString())
