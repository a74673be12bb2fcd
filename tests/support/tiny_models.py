"""Tiny random checkpoints in the real file layout, made on the spot; some 100 kB each."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

MAX_TOKENS = 32
WORDS = ("the", "a", "ship", "harbour", "lead", "line", "depth", "water", "paris", "france", "capital", "is", "of")


def make_embedder(folder: Path, seed: int = 1) -> Path:
    """Save a random two-layer BERT with mean pooling as a SentenceTransformer that reads 32 tokens."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertModel

    torch.manual_seed(seed)
    backbone = folder.with_name(f"{folder.name}-backbone")
    BertModel(_config()).save_pretrained(backbone)
    _tokenizer(folder).save_pretrained(backbone)
    transformer = Transformer(str(backbone), processor_kwargs={"model_max_length": MAX_TOKENS})
    model = SentenceTransformer(modules=[transformer, Pooling(32, pooling_mode="mean")], device="cpu")
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


def make_cross_encoder(folder: Path, labels: int = 1, seed: int = 2) -> Path:
    """Save a random two-layer BERT classifier of pairs."""
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(seed)
    BertForSequenceClassification(_config(num_labels=labels)).save_pretrained(folder)
    _tokenizer(folder).save_pretrained(folder)
    return folder


def _config(**more: Any) -> Any:
    from transformers import BertConfig

    return BertConfig(
        vocab_size=len(_vocabulary()),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.3,  # far from BERT's 0.02, so that texts get vectors that differ
        **more,
    )


def _tokenizer(folder: Path) -> Any:
    from transformers import BertTokenizer

    vocabulary = {token: place for place, token in enumerate(_vocabulary())}
    return BertTokenizer(vocab=vocabulary, model_max_length=MAX_TOKENS)


def _vocabulary() -> list[str]:
    letters = string.ascii_lowercase + string.digits + string.punctuation
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return [*special, *letters, *(f"##{letter}" for letter in letters), *(word for word in WORDS if len(word) > 1)]
