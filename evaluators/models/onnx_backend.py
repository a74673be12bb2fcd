"""Embedders and cross-encoders on ONNX Runtime: the graph of a loaded model, exported once per process, on the CPU.

Sentence Transformers' own ONNX and OpenVINO backends need Optimum, which cannot be installed beside Transformers 5.23.
Here tokens, pooling and everything around the model stay those of Sentence Transformers; what is replaced is the run of
the model itself.
"""

from __future__ import annotations

import importlib.util
import io
import warnings
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import ErrorCode, ModelUnavailable

if TYPE_CHECKING:
    from leadline.evaluators.ground import ModelRef
    from leadline.evaluators.settings import Settings

INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
_OUTPUTS: Final = ("last_hidden_state", "logits")
_OPSET: Final = 17
_EXAMPLE: Final = (2, 8)
"""Texts and tokens of the batch that the model is exported with; the graph takes any number of both."""


def require_onnx() -> None:
    """Check that ONNX Runtime is installed.

    Raises:
        ModelUnavailable: It is not.
    """
    if any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxruntime")):
        raise ModelUnavailable(
            "ONNX Runtime is not installed.",
            hint="Install it with: pip install 'leadline[onnx]', or leave out models.backend=onnx.",
            code=ErrorCode.MODEL_LIBRARY,
        )


def require_cpu(ref: ModelRef, settings: Settings) -> None:
    """Check that a run asks for nothing that this backend does not do.

    Args:
        settings: The run's choices.

    Raises:
        ModelUnavailable: It asks for another device than the CPU, or for another number format than float32.
    """
    if settings.device not in ("auto", "cpu") or settings.precision not in ("auto", "float32"):
        raise ModelUnavailable(
            f"{ref} runs on the CPU and in float32 with the ONNX backend.",
            hint="Leave out --device and models.precision, or models.backend=onnx.",
            code=ErrorCode.MODEL_NOT_LOADED,
        )


def run_by_onnx(ref: ModelRef, model: Any) -> None:
    """Let ONNX Runtime run a loaded model of Sentence Transformers.

    Args:
        ref: Its weights, for the error.
        model: The model; its first module is changed.

    Raises:
        ModelUnavailable: It is none that turns tokens into one output.
    """
    require_onnx()
    transformer = model[0]
    text = getattr(transformer, "modality_config", {}).get("text", {})
    output = text.get("method_output_name")
    if text.get("method") != "forward" or output not in _OUTPUTS:
        raise ModelUnavailable(
            f"{ref} cannot be run by ONNX Runtime: it does more than turn tokens into one output.",
            hint="Leave out models.backend=onnx.",
            code=ErrorCode.MODEL_NOT_LOADED,
        )
    names = [name for name in INPUTS if name in model.tokenizer.model_input_names]
    transformer.model = _compiled(transformer.model, names, output)


def _compiled(backbone: Any, names: list[str], output: str) -> Any:
    """Return a module that takes and gives what a Transformers model does, run by ONNX Runtime."""
    import onnxruntime
    import torch

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    # Threads that spin while they wait make a model several times slower next to other work.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(
        _exported(backbone, names, output), options, providers=["CPUExecutionProvider"]
    )

    class Compiled(torch.nn.Module):
        config = backbone.config

        def forward(self, **features: Any) -> dict[str, Any]:
            ids = features["input_ids"]
            given = {name: features[name] if features.get(name) is not None else _absent(name, ids) for name in names}
            (found,) = session.run([output], {name: value.numpy() for name, value in given.items()})
            return {output: torch.from_numpy(found)}

    return Compiled().eval()


def _absent(name: str, ids: Any) -> Any:
    import torch

    return torch.ones_like(ids) if name == "attention_mask" else torch.zeros_like(ids)


def _exported(backbone: Any, names: list[str], output: str) -> bytes:
    """Return a model as an ONNX graph for any number of texts and tokens."""
    import torch

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone = backbone

        def forward(self, *values: Any) -> Any:
            return self.backbone(**dict(zip(names, values, strict=True)), return_dict=True)[output]

    ids = torch.ones(_EXAMPLE, dtype=torch.long)
    mask = ids.clone()
    mask[0, _EXAMPLE[1] // 2 :] = 0  # a mask without a zero would be left out of the graph
    example = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
    texts = {0: "texts"} if output == "logits" else {0: "texts", 1: "tokens"}
    file: Any = io.BytesIO()
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Plain().eval(),
            tuple(example[name] for name in names),
            file,
            input_names=names,
            output_names=[output],
            dynamic_axes={name: {0: "texts", 1: "tokens"} for name in names} | {output: texts},
            opset_version=_OPSET,
            dynamo=False,
        )
    graph: bytes = file.getvalue()
    return graph
