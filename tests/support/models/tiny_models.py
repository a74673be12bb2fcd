"""Tiny random checkpoints in the real file layout, made on the spot; some 100 kB each."""

from __future__ import annotations

import random
import string
from pathlib import Path
from typing import Any

from tests.support.models.tiny_size import Size

MAX_TOKENS = 32
WORDS = ("the", "a", "ship", "harbour", "lead", "line", "depth", "water", "paris", "france", "capital", "is", "of")
SMALLEST = Size(positions=MAX_TOKENS)


def make_embedder(folder: Path, seed: int = 1, size: Size = SMALLEST) -> Path:
    """Save a random BERT, of two layers, with mean pooling as a SentenceTransformer that reads 32 tokens."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertModel

    torch.manual_seed(seed)
    backbone = folder.with_name(f"{folder.name}-backbone")
    BertModel(_config(size)).save_pretrained(backbone)
    _tokenizer(size).save_pretrained(backbone)
    transformer = Transformer(str(backbone), processor_kwargs={"model_max_length": size.positions})
    model = SentenceTransformer(modules=[transformer, Pooling(size.width, pooling_mode="mean")], device="cpu")
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


def make_cross_encoder(folder: Path, labels: int = 1, seed: int = 2, size: Size = SMALLEST) -> Path:
    """Save a random BERT classifier of pairs, of two layers."""
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(seed)
    BertForSequenceClassification(_config(size, num_labels=labels)).save_pretrained(folder)
    _tokenizer(size).save_pretrained(folder)
    return folder


def pairs_of(count: int) -> list[tuple[str, str]]:
    """Return pairs of made-up texts of different lengths."""
    draw = random.Random(0)

    def text() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(1, 8)))

    return [(text(), text()) for _ in range(count)]


def _config(size: Size, **more: Any) -> Any:
    from transformers import BertConfig

    return BertConfig(
        vocab_size=max(size.vocabulary, len(_vocabulary(size))),
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=2 * size.width,
        max_position_embeddings=2 * size.positions,
        initializer_range=0.3,  # far from BERT's 0.02, so that texts get vectors that differ
        **more,
    )


def _tokenizer(size: Size) -> Any:
    from transformers import BertTokenizer

    vocabulary = {token: place for place, token in enumerate(_vocabulary(size))}
    return BertTokenizer(vocab=vocabulary, model_max_length=size.positions)


def _vocabulary(size: Size) -> list[str]:
    letters = string.ascii_lowercase + string.digits + string.punctuation
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = dict.fromkeys(word for word in (*WORDS, *size.words) if len(word) > 1)
    return [*special, *letters, *(f"##{letter}" for letter in letters), *words]
