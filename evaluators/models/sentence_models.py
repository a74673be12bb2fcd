"""Models of Sentence Transformers: embedders and cross-encoders, run by torch or by ONNX Runtime.

Sentence Transformers' own ONNX and OpenVINO backends need Optimum, which cannot be installed beside Transformers 5.23.
Here tokens, pooling and everything around the model stay those of Sentence Transformers; what is replaced is the run of
the model itself: its graph, exported once per process, on the CPU.

The score of a cross-encoder is the sigmoid of its one output, in [0, 1], as https://arxiv.org/abs/2108.06130 uses it
for answers.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.util import batch_to_device

from leadline.evaluators.ground import ErrorCode, ModelRef, ModelUnavailable
from leadline.evaluators.models.checkpoints import budget_for, by_length, dtype_for, load_of, padded_pairs
from leadline.evaluators.models.runtime import loading, require_onnx, sentence_limit
from leadline.evaluators.models.tokens import encode_pairs
from leadline.evaluators.models.weights import locate
from leadline.evaluators.text.sentences import without_surrogates

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from leadline.evaluators.settings import Settings

M = TypeVar("M", SentenceTransformer, CrossEncoder)

_SPARE_TOKENS: Final = 8
_BYTES_PER_TOKEN: Final = 4
"""About as many make a token; how long a pair is only has to be guessed to put pairs of like length together."""

_PROBE_WORDS: Final = 1_000

_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
_OUTPUTS: Final = ("last_hidden_state", "logits")
_OPSET: Final = 17
_EXAMPLE: Final = (2, 8)
"""Texts and tokens of the batch that the model is exported with; the graph takes any number of both."""


def load_embedder(ref: ModelRef, device: str, settings: Settings) -> SentenceEncoder:
    """Load an embedder for a device.

    Raises:
        ModelUnavailable: The weights are not here or cannot be loaded as one.
    """
    folder = locate(ref, settings)
    with loading(ref):
        model = _loaded(SentenceTransformer, folder, device, settings)
        if settings.backend == "onnx":
            _run_by_onnx(ref, model)
        return SentenceEncoder(model)


def load_pair_reader(ref: ModelRef, device: str, settings: Settings) -> PairReader:
    """Load a cross-encoder for a device.

    Raises:
        ModelUnavailable: The weights are not here or cannot be loaded as one that scores similarity.
    """
    folder = locate(ref, settings)
    with loading(ref):
        model = _loaded(CrossEncoder, folder, device, settings)
        if model.num_labels != 1:
            raise ModelUnavailable(
                f"{ref} classifies pairs into {model.num_labels} classes; it does not score their similarity.",
                hint="Choose a cross-encoder with one output, such as cross-encoder/stsb-roberta-base.",
                code=ErrorCode.MODEL_WRONG_KIND,
            )
        reader = PairReader(model, device)
        if settings.backend == "onnx":
            _run_by_onnx(ref, model)
        return reader


def _loaded(kind: type[M], folder: Path, device: str, settings: Settings) -> M:
    model: M = kind(
        str(folder),
        device=device,
        trust_remote_code=False,
        local_files_only=True,
        model_kwargs={"dtype": dtype_for(settings), "use_safetensors": None if settings.allow_pickle else True},
    )
    model.eval()
    return model


class SentenceEncoder:
    """A loaded embedder, as :class:`leadline.evaluators.models.embedders.Encoder` describes it.

    Args:
        model: The sentence-transformers model.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        self.model = model
        self.longest = sentence_limit(model)
        self.width = int(model.get_embedding_dimension() or 0)
        self.on_cpu = model.device.type == "cpu"
        self.fills = hasattr(model[0], "auto_model") and getattr(model.tokenizer, "pad_token", None) is not None
        prompt = model.prompts.get(model.default_prompt_name or "")
        self.prompt_tokens = self.token_counts([prompt])[0] if prompt else 0

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens, special ones included, each text has."""
        tokenizer: Any = self.model.tokenizer
        encoded = tokenizer(list(texts), truncation=False, padding=False, return_attention_mask=False, verbose=False)
        return [len(ids) for ids in encoded["input_ids"]]

    def forward(self, batch: Sequence[str], length: int | None = None) -> npt.NDArray[np.float32]:
        """Return the vectors of texts that fit, filled up to a number of tokens."""
        options: dict[str, Any] = {"batch_size": len(batch), "show_progress_bar": False, "convert_to_tensor": True}
        if length is not None:
            options["processing_kwargs"] = {"text": {"padding": "max_length", "max_length": length}}
        encoded: Any = self.model.encode(list(batch), **options)
        vectors: npt.NDArray[np.float32] = encoded.float().cpu().numpy()
        return vectors


class PairReader:
    """A loaded cross-encoder.

    Attributes:
        model: The sentence-transformers model.
        limit: Tokens that it reads at once, special ones included.
        plain: Whether it reads what its tokenizer makes of two texts and nothing else, such as prompts or a template.
    """

    def __init__(self, model: CrossEncoder, device: str) -> None:
        self.model = model
        self.limit = sentence_limit(model)
        self._budget = budget_for(model, device)
        self._tokenizer: Any = model.tokenizer
        self.plain = self._is_plain()

    def read(
        self, pairs: Sequence[tuple[str, str]]
    ) -> tuple[npt.NDArray[np.float64], dict[tuple[str, str], tuple[int, int]]]:
        """Return the scores of distinct pairs, and tokens and limit of those that do not fit.

        They are read in batches of about equal length, the longest first.
        """
        found = self._read_plain(pairs) if self.plain else self._read_by_library(pairs)
        full = [pair for pair, tokens in zip(pairs, found[:, 1], strict=True) if tokens == self.limit]
        return found[:, 0], self._overlong(full)

    def _read_plain(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        """Return for each pair its score and the tokens that were read.

        The pairs are tokenized all at once and without the library, which spends more time on the lists of a small
        batch than its tokenizer does on the texts.
        """
        inputs = list(encode_pairs(self._tokenizer, pairs, self.limit))

        def forward(numbers: Sequence[int]) -> npt.NDArray[np.float64]:
            batch = [inputs[number] for number in numbers]
            return self.forward(padded_pairs(batch, self._tokenizer, str(self.model.device)))

        return by_length(forward, [load_of(len(pair.ids)) for pair in inputs], self._budget)

    def _read_by_library(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        """Return for each pair its score and the tokens that were read, which the library puts together."""

        def forward(numbers: Sequence[int]) -> npt.NDArray[np.float64]:
            return self.forward(self._prepared([pairs[number] for number in numbers]))

        return by_length(forward, [self._guessed_load(pair) for pair in pairs], self._budget)

    def forward(self, features: dict[str, Any]) -> npt.NDArray[np.float64]:
        """Return for each pair of one batch its score and the tokens that were read, of shape ``(pairs, 2)``."""
        with torch.inference_mode():
            tokens = features["attention_mask"].sum(dim=1)
            scores = torch.sigmoid(self.model(features)["scores"].float().reshape(len(tokens)))
        out: npt.NDArray[np.float64] = torch.stack([scores, tokens.float()], dim=1).cpu().double().numpy()
        return out

    def _prepared(self, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
        known = [(without_surrogates(first), without_surrogates(second)) for first, second in pairs]
        features: dict[str, Any] = batch_to_device(self.model.preprocess(known), self.model.device)
        return features

    def _is_plain(self) -> bool:
        """Look whether the library makes the same of a short and an overlong pair as the tokenizer alone."""
        long = "some words " * min(self.limit or 8, _PROBE_WORDS)
        probe = [("a sentence", "another one"), (long, "A sentence, and one more.")]
        try:
            encoded = list(encode_pairs(self._tokenizer, probe, self.limit))
            mine = padded_pairs(encoded, self._tokenizer, str(self.model.device))
        except (TypeError, ValueError, LookupError, AttributeError):  # a processor that is more than a tokenizer
            return False
        theirs = {name: value for name, value in self._prepared(probe).items() if hasattr(value, "shape")}
        return mine.keys() == theirs.keys() and all(value.equal(theirs[name]) for name, value in mine.items())

    def _guessed_load(self, pair: tuple[str, str]) -> int:
        """Return about what a pair weighs in a batch."""
        tokens = sum(len(text.encode("utf-8", "surrogatepass")) for text in pair) // _BYTES_PER_TOKEN + _SPARE_TOKENS
        return load_of(tokens if self.limit is None else min(tokens, self.limit))

    def _overlong(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, int]]:
        """Return tokens and limit of those pairs, all of which fill the model, that are longer than it reads."""
        if self.limit is None:
            return {}
        lengths = (len(pair.ids) for pair in encode_pairs(self._tokenizer, pairs, None))
        return {pair: (length, self.limit) for pair, length in zip(pairs, lengths, strict=True) if length > self.limit}


def _run_by_onnx(ref: ModelRef, model: Any) -> None:
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
    names = [name for name in _INPUTS if name in model.tokenizer.model_input_names]
    transformer.model = _compiled(transformer.model, names, output)


def _compiled(backbone: Any, names: list[str], output: str) -> Any:
    """Return a module that takes and gives what a Transformers model does, run by ONNX Runtime."""
    import onnxruntime

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
    return torch.ones_like(ids) if name == "attention_mask" else torch.zeros_like(ids)


def _exported(backbone: Any, names: list[str], output: str) -> bytes:
    """Return a model as an ONNX graph for any number of texts and tokens."""

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
