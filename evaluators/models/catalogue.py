"""The published models that evaluators run besides the embedders: ids and pinned commits.

Every commit is one at which the repository has safetensors, where there is such a commit that is known. Some of them
are commits of the hub's own conversion bot, on top of the authors' files, which are not merged into ``main``. Three of
the OPT models are pinned to ``main``, whose weights are pickled; and the bias model exists in TensorFlow's HDF5 only,
which is read as it is.
"""

from __future__ import annotations

from typing import Final

from leadline.evaluators.ground import ModelKind, ModelRef

REVISIONS: Final = {
    "d4data/bias-detection-model": "2d9f194465dd61415c9f45c507cbf231ffac48d4",
    "distilbert/distilgpt2": "2290a62682d06624634c1f46a6ad5be0f47f38aa",
    "EleutherAI/gpt-j-6B": "f3f428825b6fc4c087af475ea729ac652edeee33",
    "facebook/opt-1.3b": "3f5c25d0bc631cb57ac65913f76e22c2dfb61d62",
    "facebook/opt-125m": "1f44ae81e29a9f7525c8331302e5562e0d91f731",
    "facebook/opt-13b": "7db9bc580adb9263335537281f1de02b6549d7b0",
    "facebook/opt-2.7b": "905a4b602cda5c501f1b3a2650a4152680238254",
    "facebook/opt-350m": "061d15c4d9cc3e25b93c0393d0bcca4934eaa033",
    "facebook/opt-6.7b": "a45aa65bbeb77c1558bc99bedc6779195462dab0",
    "facebook/opt-66b": "a59d07887d3edbcad7efd81bf86074933692147d",
    "google/flan-t5-base": "7bcac572ce56db69c1ea7c8af255c5d7c9672fc2",
    "google/flan-t5-large": "0613663d0d48ea86ba8cb3d7a44f0f65dc596a2a",
    "google/flan-t5-small": "0fc9ddf78a1e988dac52e2dac162b0ede4fd74ab",
    "google/flan-t5-xl": "7d6315df2c2fb742f0f5b556879d730926ca9001",
    "google/flan-t5-xxl": "ae7c9136adc7555eeccc78cdd960dfd60fb346ce",
    "openai-community/gpt2-large": "32b71b12589c2f8d625668d2335a01cac3249519",
    "openai-community/gpt2-medium": "6dcaa7a952f72f9298047fd5137cd6e4f05f41da",
    "openai-community/gpt2-xl": "15ea56dee5df4983c59b2538573817e1667135e2",
    "sentence-transformers/all-MiniLM-L6-v2": "c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
    "tals/albert-xlarge-vitaminc-mnli": "3082ba54344bd9ddada2be1c5e9b4131721d2a5d",
    "tingofurro/summac": "9e4f35722b635402c6fd5a1399d987bc80b45b43",
    "unitary/multilingual-toxic-xlm-roberta": "a3d4e66839269e45c5e8491dfa55a53fdaedcdbc",
    "unitary/toxic-bert": "4d6c22e74ba2fdd26bc4f7238f50766b045a0d94",
    "unitary/unbiased-toxic-roberta": "91650552a4f31b7120c36680cfa47ddd47676b48",
    "vectara/hallucination_evaluation_model": "8e4a2e6e96c708cc76c2344f7e4757df2515292c",
}
"""Commits that ids without one stand for."""

_MB: Final = 10**6
_GB: Final = 10**9

BYTES: Final = {
    "BAAI/bge-small-en": 133 * _MB,
    "BAAI/bge-small-en-v1.5": 133 * _MB,
    "cross-encoder/stsb-roberta-base": 499 * _MB,
    "d4data/bias-detection-model": 268 * _MB,
    "distilbert/distilgpt2": 353 * _MB,
    "EleutherAI/gpt-j-6B": 24 * _GB,
    "facebook/opt-1.3b": 2_630 * _MB,
    "facebook/opt-125m": 251 * _MB,
    "facebook/opt-13b": 26 * _GB,
    "facebook/opt-2.7b": 5_300 * _MB,
    "facebook/opt-350m": 663 * _MB,
    "facebook/opt-6.7b": 13 * _GB,
    "facebook/opt-66b": 131 * _GB,
    "google/flan-t5-base": 990 * _MB,
    "google/flan-t5-large": 3_130 * _MB,
    "google/flan-t5-small": 308 * _MB,
    "google/flan-t5-xl": 11 * _GB,
    "google/flan-t5-xxl": 45 * _GB,
    "openai-community/gpt2-large": 3_250 * _MB,
    "openai-community/gpt2-medium": 1_520 * _MB,
    "openai-community/gpt2-xl": 6_430 * _MB,
    "sentence-transformers/all-MiniLM-L6-v2": 91 * _MB,
    "tals/albert-xlarge-vitaminc-mnli": 235 * _MB,
    "tingofurro/summac": 2_000,
    "unitary/multilingual-toxic-xlm-roberta": 1_110 * _MB,
    "unitary/toxic-bert": 438 * _MB,
    "unitary/unbiased-toxic-roberta": 499 * _MB,
    "vectara/hallucination_evaluation_model": 438 * _MB,
}
"""About how much there is to fetch: parameters times the bytes of the format stored (2 for OPT, 4 for the others).

GPT-2's files also hold its attention masks, 4 MB for each layer.
"""

_TOKENIZER_BYTES: Final = 3 * _MB

SHORT_NAMES: Final = {
    "distilgpt2": "distilbert/distilgpt2",
    "gpt2-medium": "openai-community/gpt2-medium",
    "gpt2-large": "openai-community/gpt2-large",
    "gpt2-xl": "openai-community/gpt2-xl",
    "original": "unitary/toxic-bert",
    "unbiased": "unitary/unbiased-toxic-roberta",
    "multilingual": "unitary/multilingual-toxic-xlm-roberta",
}
"""Names that the models are known by elsewhere: on the hub before it had namespaces, or in Detoxify."""

GPT_SCORE_MODELS: Final = (
    "google/flan-t5-small",
    "google/flan-t5-base",
    "google/flan-t5-large",
    "google/flan-t5-xl",
    "google/flan-t5-xxl",
    "facebook/opt-125m",
    "facebook/opt-350m",
    "facebook/opt-1.3b",
    "facebook/opt-2.7b",
    "facebook/opt-6.7b",
    "facebook/opt-13b",
    "facebook/opt-66b",
    "gpt2-medium",
    "gpt2-large",
    "gpt2-xl",
    "EleutherAI/gpt-j-6B",
)
"""The models that the reference lists for GPTScore."""


def pinned(name: str, kind: ModelKind) -> ModelRef:
    """Return one of the models above, by its id or its short name.

    Args:
        name: Hugging Face id, or a key of :data:`SHORT_NAMES`.
        kind: The kind of model to load it as.
    """
    source = SHORT_NAMES.get(name, name)
    return ModelRef(kind, source, REVISIONS[source])


def download_size(ref: ModelRef) -> int | None:
    """Return about how many bytes there are to fetch for one of the models above, ``None`` for any other."""
    if ref.kind == "tokenizer":
        return _TOKENIZER_BYTES
    return BYTES.get(ref.source)


TOXIC_BERT: Final = pinned("original", "classifier")
BIAS_DETECTION: Final = pinned("d4data/bias-detection-model", "classifier")
HHEM: Final = pinned("vectara/hallucination_evaluation_model", "consistency")
FLAN_T5_TOKENIZER: Final = pinned("google/flan-t5-base", "tokenizer")
ALL_MINILM_L6_V2: Final = pinned("sentence-transformers/all-MiniLM-L6-v2", "embedder")
VITAMINC_NLI: Final = pinned("tals/albert-xlarge-vitaminc-mnli", "nli")
SUMMAC_CONV: Final = pinned("tingofurro/summac", "summac_conv")
"""The one that is not on the Hugging Face hub but in a repository on GitHub."""

DISTILGPT2: Final = pinned("distilgpt2", "language_model")
GPT2_MEDIUM: Final = pinned("gpt2-medium", "language_model")

ALTERNATIVES: Final = (
    *(pinned(name, "classifier") for name in ("original", "unbiased", "multilingual")),
    *(pinned(name, "language_model") for name in GPT_SCORE_MODELS),
)
"""What ``toxicity_model`` and ``gpt_score_model`` are known to choose from, the defaults among them."""
