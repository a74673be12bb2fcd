"""A tiny token classifier that calls the words it was made for what it was told to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

WIDTH = 16


def make_ner(folder: Path, words: Mapping[str, str], *, positions: int = 64) -> Path:
    """Save a BERT token classifier without layers: what it says of a token depends on the token alone.

    Args:
        folder: Where to.
        words: Label of each word, in lower case, such as ``B-PER``; the other words are outside.
        positions: Tokens that it reads at once.
    """
    import torch
    from transformers import BertConfig, BertForTokenClassification

    labels = ["O", *sorted(set(words.values()))]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words, *"abcdefghijklmnopqrstuvwxyz.,-"]
    tokens += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": positions})
    )
    config = BertConfig(
        vocab_size=len(tokens),
        hidden_size=WIDTH,
        num_hidden_layers=0,
        num_attention_heads=1,
        intermediate_size=WIDTH,
        max_position_embeddings=positions,
        num_labels=len(labels),
        id2label=dict(enumerate(labels)),
        label2id={name: place for place, name in enumerate(labels)},
    )
    model = BertForTokenClassification(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if name.endswith("LayerNorm.weight") else 0.0)
        for place, token in enumerate(tokens):
            model.bert.embeddings.word_embeddings.weight[place, labels.index(words.get(token, "O"))] = 1.0
        for place in range(len(labels)):
            model.classifier.weight[place, place] = 4.0
    model.save_pretrained(str(folder))
    return folder
