"""HHEM-2.1-Open: how well a text is supported by another, from 0 (not at all) to 1.

The model (https://huggingface.co/vectara/hallucination_evaluation_model) is the encoder of flan-t5-base with a linear
layer of two outputs on the first token. Its repository wraps it in a class of its own, which would have to be run with
``trust_remote_code``; its weights are those of Transformers' ``T5ForTokenClassification`` under the prefix ``t5.``, and
are loaded into that. The score is the softmax's second part at the first token of the prompt in ``_PROMPT``, as in
``modeling_hhem_v2.py`` of the repository. The tokenizer is that of flan-t5-base.

T5 has no position table, so the model reads any length, at a cost that grows with the square. Texts of more than
``SUPPORT_LIMIT`` tokens together are cut into windows. A premise is then as good as the window of it that supports
most, and a hypothesis as good as the window of it that is supported least. Every window of the one is read with every
window of the other, so that two texts that make more than :data:`MOST_WINDOWS` such pairs are not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from safetensors.torch import load_file
from transformers import T5Config, T5ForTokenClassification

from leadline.evaluators.ground import ErrorCode, ModelRef, ModelUnavailable
from leadline.evaluators.models import weight_files
from leadline.evaluators.models.checkpoints import LoadedModel, additive, align_positions, dtype_for, padded
from leadline.evaluators.models.results import SUPPORT_LIMIT, Support
from leadline.evaluators.models.runtime import loading
from leadline.evaluators.models.tokens import encode, places_of, token_ids, tokenizer_from, windows
from leadline.evaluators.models.weights import locate

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from leadline.evaluators.settings import Settings

MOST_WINDOWS: Final = 64
"""Pairs of windows that a pair of texts may be cut into."""

_PROMPT: Final = (
    "<pad> Determine if the hypothesis is true given the premise?\n\nPremise: {premise}\n\nHypothesis: {hypothesis}"
)
_PREFIX: Final = "t5."
_SUPPORTED: Final = 1
_TABLES: Final = ("transformer.shared.weight", "transformer.encoder.embed_tokens.weight")


class SupportModel(LoadedModel):
    """A loaded ``T5ForTokenClassification``; see the module's text."""

    def __init__(self, ref: ModelRef, model: torch.nn.Module, tokenizer: Any, device: str) -> None:
        super().__init__(ref, model, tokenizer, device)
        align_positions(model)
        self._dtype = next(model.parameters()).dtype

    def score(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Support]:
        """Return how well the first text of each distinct pair supports the second."""
        # A token takes up a byte at least, and a text one token more at most; those that may be too long are counted.
        sizes = {text: len(text.encode(errors="surrogatepass")) + 1 for pair in pairs for text in pair}
        long = list(
            dict.fromkeys(text for pair in pairs if sizes[pair[0]] + sizes[pair[1]] > SUPPORT_LIMIT for text in pair)
        )
        lengths = sizes | {text: len(ids) for text, ids in zip(long, token_ids(self._tokenizer, long), strict=True)}
        pieces = {pair: list(self._pieces(*pair, lengths)) for pair in pairs}
        counts = {pair: sum(map(len, cut)) for pair, cut in pieces.items()}
        pieces = {pair: cut for pair, cut in pieces.items() if counts[pair] <= MOST_WINDOWS}
        prompts = [
            _PROMPT.format(premise=premise, hypothesis=hypothesis)
            for cut in pieces.values()
            for row in cut
            for premise, hypothesis in row
        ]
        end = self._tokenizer.eos_token_id
        inputs = [[*ids, end] for ids in token_ids(self._tokenizer, prompts)]
        scores = iter(self._read(self._forward, inputs, [len(ids) for ids in inputs]).tolist())
        out = {pair: Support(None, count) for pair, count in counts.items()}
        for pair, cut in pieces.items():
            best = [max(next(scores) for _ in row) for row in cut]
            out[pair] = Support(min(best), counts[pair])
        return out

    def _pieces(self, premise: str, hypothesis: str, lengths: Mapping[str, int]) -> Iterator[list[tuple[str, str]]]:
        """Yield for each window of the hypothesis its pairs with all windows of the premise."""
        if lengths[premise] + lengths[hypothesis] <= SUPPORT_LIMIT:
            yield [(premise, hypothesis)]
            return
        half = SUPPORT_LIMIT // 2
        asked = self._cut(hypothesis, half) if lengths[hypothesis] > half else [hypothesis]
        room = SUPPORT_LIMIT - (half if len(asked) > 1 else lengths[hypothesis])
        given = self._cut(premise, room) if lengths[premise] > room else [premise]
        for part in asked:
            yield [(each, part) for each in given]

    def _cut(self, text: str, most: int) -> list[str]:
        tokens = encode(self._tokenizer, [text])[0].places
        return [text[start:end] for start, end in places_of(windows(len(tokens), most), tokens, text)]

    def _forward(self, batch: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
        ids, mask = padded(batch, self._tokenizer.pad_token_id or 0, self.device)
        with torch.inference_mode():
            logits = self.model(input_ids=ids, attention_mask=additive(mask, self._dtype)).logits[:, 0, :]
            values = torch.softmax(logits.float(), dim=-1)[:, _SUPPORTED]
        out: npt.NDArray[np.float64] = values.cpu().double().numpy()
        return out


def load_support_model(ref: ModelRef, tokenizer: ModelRef, device: str, settings: Settings) -> SupportModel:
    """Load a model for a device; ``tokenizer`` is where the tokenizer is when the weights come without one."""
    folder = locate(ref, settings)
    own = any((folder / name).is_file() for name in weight_files.TOKENIZERS)
    other = folder if own else locate(tokenizer, settings)
    with loading(ref):
        state = {
            name.removeprefix(_PREFIX): value
            for path in weight_files.weight_files(folder)
            for name, value in load_file(str(path)).items()
        }
        model = _built(ref, folder, state).to(device=device, dtype=dtype_for(settings)).eval()
        return SupportModel(ref, model, tokenizer_from(other), device)


def _built(ref: ModelRef, folder: Path, state: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """Make a T5 token classifier of exactly these weights."""
    try:
        config = _config(folder, state)
    except (KeyError, ValueError, IndexError, StopIteration) as error:
        raise _other_model(ref) from error
    model: torch.nn.Module = T5ForTokenClassification(config)
    table = next(value for name, value in state.items() if name in _TABLES)
    # The table of tokens stands twice in a model's state, and once in a file.
    result = model.load_state_dict({**state, **dict.fromkeys(_TABLES, table)}, strict=False)
    if result.missing_keys or result.unexpected_keys:
        raise _other_model(ref)
    return model


def _config(folder: Path, state: Mapping[str, torch.Tensor]) -> Any:
    """Return T5's configuration as the shapes of the weights tell it; the repository's own does not hold it."""
    layers = sorted(
        {int(name.split(".")[3]) for name in state if name.startswith("transformer.encoder.block.")}, reverse=True
    )
    block = "transformer.encoder.block.0.layer"
    buckets, heads = state[f"{block}.0.SelfAttention.relative_attention_bias.weight"].shape
    inner, width = state[f"{block}.0.SelfAttention.q.weight"].shape
    feed_forward = state[f"{block}.1.DenseReluDense.wi_0.weight"].shape[0]
    vocabulary = next(value.shape[0] for name, value in state.items() if name in _TABLES)
    own = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    settings: dict[str, Any] = {"num_labels": state["classifier.weight"].shape[0]}
    return T5Config(
        vocab_size=vocabulary,
        d_model=width,
        d_kv=inner // heads,
        d_ff=feed_forward,
        num_layers=layers[0] + 1,
        num_heads=heads,
        relative_attention_num_buckets=buckets,
        relative_attention_max_distance=own.get("relative_attention_max_distance", 128),
        feed_forward_proj="gated-gelu",
        classifier_dropout=0.0,
        **settings,
    )


def _other_model(ref: ModelRef) -> ModelUnavailable:
    return ModelUnavailable(
        f"{ref} does not hold the weights of HHEM-2.1-Open.",
        hint="Choose vectara/hallucination_evaluation_model, or a directory with a model of the same form.",
        code=ErrorCode.MODEL_WRONG_KIND,
    )
