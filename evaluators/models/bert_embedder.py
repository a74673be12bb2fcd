"""BERT embedders run by ONNX Runtime alone: no torch, no Transformers, no Sentence Transformers.

The graph is made here, of ONNX Runtime's fused operators; weights and tokenizer are those of the folder. It is BERT as
https://arxiv.org/abs/1810.04805 describes it, with the exact GELU, and the mean of the tokens' last hidden states, as
https://arxiv.org/abs/1908.10084 pools them. Vectors equal those of Sentence Transformers to some 1e-6.

Texts of equally many tokens go through the model together, and each core runs a group of its own: nothing is filled up,
no core waits for another within a layer, and a vector has the same bits whichever texts are embedded with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnxruntime
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from leadline.evaluators.models import onnx_graph, weight_files

if TYPE_CHECKING:
    import numpy.typing as npt

TEXTS_AT_ONCE: Final = 256
"""Enough to find several of a length, and work for all cores."""

_RUN_TOKENS: Final = 512
"""Tokens of one run, whose numbers then stay in a core's cache."""

_FUSED: Final = "com.microsoft"
_OPSETS: Final = {"": 17, _FUSED: 1}
_OUT_OF_MEMORY: Final = ("allocat", "memory")

Arrays = Mapping[str, "npt.NDArray[np.float32]"]


class BertEmbedder:
    """A loaded embedder.

    Attributes:
        longest: Tokens that it reads at once, special ones included.
        width: Numbers per vector.
        prompt_tokens: Tokens that it puts before each text.
        fills: Whether it can fill up short texts to a length.
        on_cpu: Whether it runs on the processor.

    Args:
        folder: Weights, tokenizer and configuration of a BERT that Sentence Transformers saved.
    """

    def __init__(self, folder: Path) -> None:
        self.prompt_tokens, self.fills, self.on_cpu = 0, False, True
        config = _json(folder / "config.json")
        self.longest: int | None = int(_json(folder / "sentence_bert_config.json")["max_seq_length"])
        self.width = int(config["hidden_size"])
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        self._session = _session(config, load_file(folder / weight_files.WEIGHTS))

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens, special ones included, each text has."""
        return [len(encoded.ids) for encoded in self._tokenizer.encode_batch_fast(list(texts))]

    def forward(self, batch: Sequence[str], length: int | None = None) -> npt.NDArray[np.float32]:
        """Return the vectors of texts, of shape ``(len(batch), width)`` and any length.

        Args:
            batch: Texts that fit the model.
            length: Without meaning here, where no text is filled up.
        """
        ids = [each.ids for each in self._tokenizer.encode_batch_fast(list(batch))]
        out = np.empty((len(batch), self.width), dtype=np.float32)

        def run(places: list[int]) -> None:
            out[places] = self._run([ids[place] for place in places])

        with ThreadPoolExecutor(self._cores) as threads:
            for _ in threads.map(run, _equally_long(ids)):
                pass
        return out

    def _run(self, ids: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        """Return the vectors of texts of equally many tokens."""
        try:
            (states,) = self._session.run(None, {"ids": np.asarray(ids, dtype=np.int32)})
        except Exception as error:  # ONNX Runtime has no class for it
            if any(word in str(error).lower() for word in _OUT_OF_MEMORY):
                raise MemoryError(str(error)) from error
            raise
        out: npt.NDArray[np.float32] = states.mean(axis=1)
        return out


def _equally_long(ids: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the places of texts in groups of equally many tokens for one run each, the longest first."""
    order = sorted(range(len(ids)), key=lambda place: -len(ids[place]))
    out = []
    for tokens, group in groupby(order, key=lambda place: len(ids[place])):
        while places := list(islice(group, max(1, _RUN_TOKENS // tokens))):
            out.append(places)
    return out


def _session(config: Mapping[str, Any], weights: Arrays) -> Any:
    """Return a session that makes the tokens' last states of ``ids``, int32 of shape ``(texts, tokens)``."""
    nodes, values, states = _graph(config, weights)
    graph = onnx_graph.model(
        "bert",
        nodes,
        [onnx_graph.value("ids", onnx_graph.INT32, ["texts", "tokens"])],
        [onnx_graph.value(states, onnx_graph.FLOAT, ["texts", "tokens", config["hidden_size"]])],
        [onnx_graph.outside(name, numbers.shape) for name, numbers in values.items()],
        _OPSETS,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    kept = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in values.values()]
    options.add_external_initializers(list(values), kept)
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _graph(config: Mapping[str, Any], weights: Arrays) -> tuple[list[bytes], dict[str, npt.NDArray[np.float32]], str]:
    """Return the nodes of the graph, the numbers that they read by name, and the name of the last states."""
    values: dict[str, npt.NDArray[np.float32]] = {}
    nodes: list[bytes] = []
    epsilon, number_of_heads = float(config["layer_norm_eps"]), int(config["num_attention_heads"])

    def add(kind: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: int | float) -> str:
        nodes.append(onnx_graph.node(kind, inputs, [output], domain, **attributes))
        return output

    def fused(kind: str, inputs: Sequence[str], output: str, **attributes: int | float) -> str:
        return add(kind, inputs, output, _FUSED, **attributes)

    def keep(name: str, value: npt.NDArray[np.float32]) -> str:
        values[name] = np.ascontiguousarray(value)
        return name

    def known(name: str) -> str:
        return keep(name, weights[name])

    def product(inputs: str, dense: str, output: str) -> str:
        return add("MatMul", [inputs, keep(f"{dense}.weight", weights[f"{dense}.weight"].T)], output)

    def add_and_norm(summand: str, state: str, layer: str, output: str) -> str:
        norm = [known(f"{layer}.LayerNorm.weight"), known(f"{layer}.LayerNorm.bias"), known(f"{layer}.dense.bias")]
        return fused("SkipLayerNormalization", [summand, state, *norm], output, epsilon=epsilon)

    # All tokens are of the first segment: its vector is added to those of the positions.
    positions = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
    tables = [known("embeddings.word_embeddings.weight"), keep("positions", positions), ""]
    norm = [known("embeddings.LayerNorm.weight"), known("embeddings.LayerNorm.bias")]
    nodes.append(
        onnx_graph.node(
            "EmbedLayerNormalization",
            ["ids", "", *tables, *norm],
            ["embedded", "lengths"],
            _FUSED,
            epsilon=epsilon,
        )
    )
    state = "embedded"
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        heads = [f"{layer}.attention.self.{name}" for name in ("query", "key", "value")]
        weight = keep(f"{layer}.heads", np.concatenate([weights[f"{name}.weight"].T for name in heads], axis=1))
        bias = keep(f"{layer}.heads.bias", np.concatenate([weights[f"{name}.bias"] for name in heads]))
        seen = fused("Attention", [state, weight, bias], f"{layer}.seen", num_heads=number_of_heads)
        seen = product(seen, f"{layer}.attention.output.dense", f"{layer}.mixed")
        state = add_and_norm(seen, state, f"{layer}.attention.output", f"{layer}.attended")
        inner = product(state, f"{layer}.intermediate.dense", f"{layer}.inner")
        inner = fused("BiasGelu", [inner, known(f"{layer}.intermediate.dense.bias")], f"{layer}.active")
        state = add_and_norm(
            product(inner, f"{layer}.output.dense", f"{layer}.outer"), state, f"{layer}.output", f"{layer}.done"
        )
    return nodes, values, state


def _json(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found
