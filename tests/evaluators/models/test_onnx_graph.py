"""Graphs that are written here, held against the package ``onnx``, which reads and builds the same."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import TensorProto, helper

from leadline.evaluators.models import onnx_graph


def test_a_graph_is_the_one_that_onnx_itself_builds() -> None:
    norm: dict[str, Any] = {"epsilon": 1e-12, "heads": 300}
    ours = onnx_graph.model(
        "small",
        [
            onnx_graph.node("Norm", ["ids", "", "weights"], ["normed", ""], "com.microsoft", **norm),
            onnx_graph.node("Cast", ["normed"], ["vectors"], to=onnx_graph.FLOAT),
        ],
        [onnx_graph.value("ids", onnx_graph.INT32, ["texts", "tokens"])],
        [onnx_graph.value("vectors", onnx_graph.FLOAT, ["texts", 30_522])],
        [onnx_graph.outside("weights", (30_522, 4))],
        {"": 17, "com.microsoft": 1},
    )
    weights = TensorProto(name="weights", data_type=TensorProto.FLOAT, dims=(30_522, 4))
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="weights")
    graph = helper.make_graph(
        [
            helper.make_node("Norm", ["ids", "", "weights"], ["normed", ""], domain="com.microsoft", **norm),
            helper.make_node("Cast", ["normed"], ["vectors"], domain="", to=TensorProto.FLOAT),
        ],
        "small",
        [helper.make_tensor_value_info("ids", TensorProto.INT32, ["texts", "tokens"])],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", 30_522])],
        [weights],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    assert onnx.load_from_string(ours) == helper.make_model(graph, opset_imports=opsets, ir_version=8)
