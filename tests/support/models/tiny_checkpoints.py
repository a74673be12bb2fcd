"""Tiny random classifiers and language models in the file layout of the published ones, made on the spot."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.models.tiny_nli import make_conv, make_nli
from tests.support.models.tiny_size import Size

CORPUS = [
    "The pump starts at seven and stops at nine, says the manual. Pumps are loud.",
    "human: When does it start? AI: It starts at seven. Answer: Yes",
    "Rewrite the following text with its core information and consistent facts: In other words, Tl;dr",
    "Premise: Hypothesis: Determine if the hypothesis is true given the premise?",
]
TOXIC_LABELS = ("toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate")
WORDS = ("the", "pump", "starts", "at", "seven", "and", "stops", "nine", "it", "manual", "says", "is", "loud")
SMALLEST = Size()


def make_toxic_bert(folder: Path, size: Size = SMALLEST, seed: int = 3) -> Path:
    """Save a BERT classifier with the six labels and the files of ``unitary/toxic-bert``."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        **_labels(TOXIC_LABELS),
        vocab_size=max(size.vocabulary, _write_wordpiece(folder, size.words)),
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.width * 3,
        max_position_embeddings=size.positions,
        initializer_range=0.3,
        problem_type="multi_label_classification",
    )
    return _save(BertForSequenceClassification, config, folder, seed)


def make_toxic_roberta(folder: Path, size: Size = SMALLEST, seed: int = 4) -> Path:
    """Save a RoBERTa classifier with more labels, a byte-level vocabulary and no ``tokenizer.json``."""
    from transformers import RobertaConfig, RobertaForSequenceClassification

    tokens = _write_byte_level(folder, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], size.words)
    _write(folder, "tokenizer_config.json", {"tokenizer_class": "RobertaTokenizer", "model_max_length": 512})
    config = RobertaConfig(
        **_labels(("toxicity", "severe_toxicity", "obscene", "identity_attack", "insult", "threat", "sexual_explicit")),
        vocab_size=max(size.vocabulary, tokens),
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.width * 3,
        max_position_embeddings=size.positions,
        initializer_range=0.3,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        type_vocab_size=1,
    )
    return _save(RobertaForSequenceClassification, config, folder, seed)


def make_bias_model(folder: Path, size: Size = SMALLEST, seed: int = 5, *, tensorflow: bool = False) -> Path:
    """Save a DistilBERT classifier as ``d4data/bias-detection-model`` is: in HDF5, or else in safetensors."""
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    config = DistilBertConfig(
        **_labels(("Non-biased", "Biased")),
        vocab_size=max(size.vocabulary, _write_wordpiece(folder, size.words)),
        dim=size.width,
        hidden_dim=size.width * 3,
        n_layers=size.layers,
        n_heads=size.heads,
        max_position_embeddings=size.positions,
        initializer_range=0.3,
    )
    _save(DistilBertForSequenceClassification, config, folder, seed)
    if tensorflow:
        _as_tensorflow(folder)
    return folder


def make_support_model(folder: Path, size: Size = SMALLEST, seed: int = 6, *, tokenizer: bool = False) -> Path:
    """Save weights as HHEM-2.1-Open does: a T5 token classifier under the prefix ``t5.``; without a tokenizer there."""
    import torch
    from safetensors.torch import save_file
    from transformers import T5Config, T5ForTokenClassification

    torch.manual_seed(seed)
    model = T5ForTokenClassification(T5Config(**t5_sizes(size), num_labels=2))
    _roughen(model)
    state = {f"t5.{name}": value.contiguous() for name, value in model.state_dict().items()}
    del state["t5.transformer.encoder.embed_tokens.weight"]
    folder.mkdir(parents=True, exist_ok=True)
    if tokenizer:
        make_t5_tokenizer(folder, size)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    _write(folder, "config.json", {"model_type": "HHEMv2", "architectures": ["HHEMv2ForSequenceClassification"]})
    return folder


def make_t5_tokenizer(folder: Path, size: Size = SMALLEST) -> Path:
    """Save a tokenizer of T5's kind, with the configuration beside it."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;!?'\"()-{}\u2581"
    words = [
        f"\u2581{word}" for word in dict.fromkeys((*WORDS, "The", "It", "Premise", "Hypothesis", "text", *size.words))
    ]
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -20.0)]
    vocabulary += [(letter, -8.0 - 0.01 * place) for place, letter in enumerate(letters)]
    vocabulary += [(word, -3.0 - 0.01 * place) for place, word in enumerate(words)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2))
    tokenizer.normalizer = normalizers.Nmt()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=512
    )
    fast.save_pretrained(str(folder))
    _write(folder, "config.json", {"model_type": "t5"})
    return folder


def make_t5(folder: Path, size: Size = SMALLEST, seed: int = 7) -> Path:
    """Save an encoder-decoder model of flan-t5's kind."""
    from transformers import T5Config, T5ForConditionalGeneration

    make_t5_tokenizer(folder, size)
    config = T5Config(**t5_sizes(size), tie_word_embeddings=False, decoder_start_token_id=0)
    return _save(T5ForConditionalGeneration, config, folder, seed)


def make_gpt2(folder: Path, size: Size = SMALLEST, seed: int = 8) -> Path:
    """Save a causal model with GPT-2's files."""
    from transformers import GPT2Config, GPT2LMHeadModel

    end = {"bos_token_id": 0, "eos_token_id": 0}
    config = GPT2Config(
        vocab_size=max(size.vocabulary, _write_gpt2_tokenizer(folder, size)),
        n_positions=size.context,
        n_embd=size.width,
        n_layer=size.layers,
        n_head=size.heads,
        initializer_range=0.3,
        **end,
    )
    return _save(GPT2LMHeadModel, config, folder, seed)


def make_opt(folder: Path, size: Size = SMALLEST, seed: int = 9) -> Path:
    """Save a causal model with OPT's files: its tokenizer puts a start mark before each text."""
    from transformers import OPTConfig, OPTForCausalLM

    tokens = _write_byte_level(folder, ["<s>", "<pad>", "</s>"], size.words)
    mark = {"bos_token": "</s>", "eos_token": "</s>", "unk_token": "</s>", "pad_token": "<pad>"}
    _write(folder, "special_tokens_map.json", mark)
    _write(folder, "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, **mark})
    config = OPTConfig(
        vocab_size=max(size.vocabulary, tokens),
        hidden_size=size.width,
        word_embed_proj_dim=size.width // 2,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        ffn_dim=size.width * 3,
        max_position_embeddings=size.context,
        init_std=0.3,
    )
    return _save(OPTForCausalLM, config, folder, seed)


def make_gptj(folder: Path, size: Size = SMALLEST, seed: int = 10) -> Path:
    """Save a causal model with GPT-J's files: positions turn its vectors, and its output layer has a bias."""
    from transformers import GPTJConfig, GPTJForCausalLM

    config = GPTJConfig(
        vocab_size=max(size.vocabulary, _write_gpt2_tokenizer(folder, size)),
        n_positions=size.context,
        n_embd=size.width,
        n_layer=size.layers,
        n_head=size.heads,
        rotary_dim=size.width // size.heads // 2,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=0,
    )
    return _save(GPTJForCausalLM, config, folder, seed)


def make_gpt_neo(folder: Path, size: Size = SMALLEST, seed: int = 11) -> Path:
    """Save a causal model with GPT-Neo's files: every other layer sees the last 16 tokens only."""
    from transformers import GPTNeoConfig, GPTNeoForCausalLM

    config = GPTNeoConfig(
        vocab_size=max(size.vocabulary, _write_gpt2_tokenizer(folder, size)),
        max_position_embeddings=size.context,
        hidden_size=size.width,
        num_layers=size.layers,
        attention_types=[[["global", "local"], size.layers // 2]],
        num_heads=size.heads,
        window_size=16,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=0,
    )
    return _save(GPTNeoForCausalLM, config, folder, seed)


def make_bart(folder: Path, size: Size = SMALLEST, seed: int = 12) -> Path:
    """Save an encoder-decoder model with BART's files; it adds numbers to the logits after its output layer."""
    import torch
    from transformers import BartConfig, BartForConditionalGeneration

    tokens = _write_byte_level(folder, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], size.words)
    _write(folder, "tokenizer_config.json", {"tokenizer_class": "RobertaTokenizer", "model_max_length": size.context})
    config = BartConfig(
        vocab_size=max(size.vocabulary, tokens),
        d_model=size.width,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        encoder_attention_heads=size.heads,
        decoder_attention_heads=size.heads,
        encoder_ffn_dim=2 * size.width,
        decoder_ffn_dim=2 * size.width,
        max_position_embeddings=size.context,
        init_std=0.3,
    )
    torch.manual_seed(seed)
    model = BartForConditionalGeneration(config)
    _roughen(model)
    model.final_logits_bias.normal_()
    model.save_pretrained(str(folder))
    return folder


MAKERS: dict[str, Callable[[Path, Size], Path]] = {
    "bert": make_toxic_bert,
    "roberta": make_toxic_roberta,
    "bias": make_bias_model,
    "bias-tensorflow": partial(make_bias_model, tensorflow=True),
    "support": make_support_model,
    "support-with-tokenizer": partial(make_support_model, tokenizer=True),
    "t5-tokenizer": make_t5_tokenizer,
    "t5": make_t5,
    "gpt2": make_gpt2,
    "opt": make_opt,
    "gptj": make_gptj,
    "gpt-neo": make_gpt_neo,
    "bart": make_bart,
    "nli": lambda folder, size: make_nli(folder),
    "summac-conv": lambda folder, size: make_conv(folder),
}
"""How each checkpoint is made, by the name that tests call it."""

TINY: dict[str, dict[str, str]] = {
    "toxicity": {"toxicity_model": "bert"},
    "fairness_bias": {"bias_model": "bias"},
    "grounding": {"grounding_model": "nli"},
    "hallucination": {"hallucination_model": "support-with-tokenizer"},
    "perplexity": {"perplexity_model": "gpt2"},
    "gptscore_machine_translation": {"gpt_score_model": "gpt2"},
    "gptscore_question_answering": {"gpt_score_model": "opt"},
    "gptscore_summarization_with_reference": {"gpt_score_model": "opt"},
    "gptscore_summarization_without_reference": {"gpt_score_model": "gpt2"},
    "summarization_completeness_faithfulness": {"nli_model": "nli", "conv_weights": "summac-conv"},
}
"""For each evaluator that runs models of its own: the parameters that name them, with checkpoints that will do."""


def checkpoint(root: Path, name: str) -> Path:
    """Return a checkpoint below a folder; it is made when it is not there yet."""
    folder = root / name
    return folder if folder.is_dir() else MAKERS[name](folder, SMALLEST)


def _write_gpt2_tokenizer(folder: Path, size: Size) -> int:
    """Write a tokenizer of GPT-2's kind and return how many tokens it has."""
    tokens = _write_byte_level(folder, ["<|endoftext|>"], size.words)
    _write(folder, "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", "model_max_length": size.context})
    return tokens


def _save(kind: Any, config: Any, folder: Path, seed: int) -> Path:
    import torch

    torch.manual_seed(seed)
    model = kind(config)
    _roughen(model)
    model.save_pretrained(str(folder))
    return folder


def _roughen(model: Any) -> None:
    """Move norms and biases away from their plain start values, so that no part of a model can be left out unseen."""
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))


def _labels(names: tuple[str, ...]) -> dict[str, Any]:
    return {
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: place for place, name in enumerate(names)},
    }


def t5_sizes(size: Size = SMALLEST) -> dict[str, Any]:
    """Return the settings of a T5 model."""
    return {
        "vocab_size": max(size.vocabulary, 208 + len(size.words)),
        "d_model": size.width,
        "d_kv": size.width // size.heads // 2,
        "d_ff": size.width * 3,
        "num_layers": size.layers,
        "num_decoder_layers": size.layers,
        "num_heads": size.heads,
        "feed_forward_proj": "gated-gelu",
        "initializer_factor": 1.0,
        "dropout_rate": 0.0,
    }


def _write_wordpiece(folder: Path, words: tuple[str, ...]) -> int:
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,:;!?'\"()-"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*special, *letters, *(f"##{letter}" for letter in letters), *dict.fromkeys((*WORDS, *words))]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    _write(folder, "tokenizer_config.json", {})
    _write(
        folder,
        "special_tokens_map.json",
        dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True)),
    )
    return len(vocabulary)


def _write_byte_level(folder: Path, special: list[str], words: tuple[str, ...]) -> int:
    from tokenizers import ByteLevelBPETokenizer

    tokenizer = ByteLevelBPETokenizer()
    corpus = [*CORPUS, *([" ".join(words)] * 3)]
    tokenizer.train_from_iterator(corpus, vocab_size=340 + 8 * len(words), special_tokens=special, show_progress=False)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_model(str(folder))
    return int(tokenizer.get_vocab_size())


def _write(folder: Path, name: str, content: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def _as_tensorflow(folder: Path) -> None:
    """Turn safetensors of DistilBERT into the HDF5 file that Transformers' TensorFlow model wrote."""
    import h5py
    from safetensors.torch import load_file

    state = load_file(str(folder / "model.safetensors"))
    with h5py.File(folder / "tf_model.h5", "w") as file:
        for name, array in _tensorflow_names(state):
            group = name.split("/")[0]
            file.create_dataset(f"{group}/tf_distil_bert_for_sequence_classification/{name}:0", data=array)
    (folder / "model.safetensors").unlink()


def _tensorflow_names(state: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in state.items():
        *path, last = (part.replace("@", ".") for part in name.replace("layer.", "layer_@_").split("."))
        array = value.numpy()
        if path[-1] == "word_embeddings":
            yield "/".join([*path, "weight"]), array
        elif path[-1] == "position_embeddings":
            yield "/".join([*path, "embeddings"]), array
        elif "norm" in path[-1].lower():
            yield "/".join([*path, "gamma" if last == "weight" else "beta"]), array
        elif last == "weight":
            yield "/".join([*path, "kernel"]), array.T
        else:
            yield "/".join([*path, last]), array
