"""Tiny random checkpoints of SummaC: an ALBERT that classifies pairs, and the layer in each of its file formats."""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.models.tiny_models import SMALLEST, WORDS
from tests.support.models.tiny_size import Size

VITAMINC = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")


def make_nli(folder: Path, labels: Sequence[str] = VITAMINC, seed: int = 5, size: Size = SMALLEST) -> Path:
    """Save a random ALBERT, of two layers, with a unigram tokenizer that reads 32 tokens."""
    import torch
    from transformers import AlbertConfig, AlbertForSequenceClassification, AlbertTokenizer

    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [f"▁{word}" for word in (*WORDS, *size.words)] + [
        "▁",
        *string.ascii_lowercase,
        *string.digits,
        *string.punctuation,
    ]
    vocabulary = [(token, 0.0) for token in special]
    vocabulary += [(piece, -1.0 - place / 100) for place, piece in enumerate(dict.fromkeys(pieces))]
    AlbertTokenizer(vocab=vocabulary, model_max_length=size.positions).save_pretrained(folder)
    torch.manual_seed(seed)
    config = AlbertConfig(
        vocab_size=max(size.vocabulary, len(vocabulary)),
        embedding_size=size.width // 2,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=2 * size.width,
        max_position_embeddings=2 * size.positions,
        initializer_range=0.4,
        num_labels=len(labels),
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
    )
    AlbertForSequenceClassification(config).save_pretrained(folder)
    return folder


def conv_state(seed: int = 6) -> dict[str, Any]:
    """Return random tensors in the form of SummaC Conv's published weights."""
    import torch

    torch.manual_seed(seed)
    return {
        "mlp.weight": torch.randn(1, 23),
        "mlp.bias": torch.randn(1),
        "layer_final.weight": torch.randn(2, 3),
        "layer_final.bias": torch.randn(2),
    }


def make_conv(folder: Path, layout: str = "archive", seed: int = 6) -> Path:
    """Save SummaC Conv's weights as PyTorch's ``archive`` or ``legacy`` file, or as ``safetensors``."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    state = conv_state(seed)
    if layout == "safetensors":
        save_file(state, folder / "model.safetensors")
    else:
        path = folder / "summac_conv_vitc_sent_perc_e.bin"
        torch.save(state, path, _use_new_zipfile_serialization=layout == "archive")
    return folder
