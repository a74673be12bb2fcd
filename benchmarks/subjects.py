"""What ``benchmarks.models`` measures: each evaluator that runs a model, its weights and rows, and the plain way.

The plain way is what the packages do that the methods come from: one text, or one pair of texts, after the other,
through a call of Transformers or sentence-transformers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.embedding import SYSTEMS, WORDS, rag_rows
from leadline.evaluators.core import EvalContext, get
from leadline.evaluators.data import ContextChunk, Row
from leadline.evaluators.models import classifiers, consistency, embedders, inference, runtime
from leadline.evaluators.models.results import Passage
from leadline.evaluators.summarization import completeness_faithfulness
from leadline.evaluators.summarization._summac import counting
from tests.support.models.tiny_checkpoints import MAKERS
from tests.support.models.tiny_models import make_cross_encoder, make_embedder
from tests.support.models.tiny_nli import make_nli
from tests.support.models.tiny_size import Size

_WORDS = (*WORDS, *(word.capitalize() for word in WORDS))
_SIZE = Size(width=64, layers=4, heads=4, vocabulary=3_000, positions=514, context=1024, words=_WORDS)
_MINILM = replace(_SIZE, width=384, layers=6, heads=12, vocabulary=30_522)
SMALL = {
    "bert": replace(_SIZE, width=192),
    "bias": replace(_SIZE, width=128),
    "cross-encoder": replace(_SIZE, width=128),
    "nli": replace(_SIZE, width=128),
    "embedder": _MINILM,
}
"""Sizes of the checkpoints that are not 64 wide; the embedder is small enough to have its own."""

_BASE = replace(_SIZE, width=768, layers=12, heads=12)
REAL = {
    "bert": replace(_BASE, vocabulary=30_522),
    "bias": replace(_BASE, layers=6, vocabulary=30_522),
    "support-with-tokenizer": replace(_BASE, vocabulary=32_128),
    "gpt2": replace(_BASE, layers=6, vocabulary=50_257),
    "opt": replace(_BASE, vocabulary=50_272),
    "t5": replace(_BASE, vocabulary=32_128),
    "cross-encoder": replace(_BASE, vocabulary=50_265),
    "embedder": _MINILM,
    "nli": replace(_BASE, vocabulary=30_000),
}
"""Sizes of the published models, by the name of their checkpoint."""

_MAKERS: Mapping[str, Callable[[Path, Size], Path]] = {
    **MAKERS,
    "cross-encoder": lambda folder, size: make_cross_encoder(folder, size=size),
    "embedder": lambda folder, size: make_embedder(folder, size=size),
    "nli": lambda folder, size: make_nli(folder, size=size),
}


@dataclass(frozen=True)
class Subject:
    """What is measured of one evaluator.

    Attributes:
        checkpoints: For each parameter that names weights, the checkpoint that is made for it.
        plainly: Reads one row's texts alone.
        parameters: Its other parameters.
        rows: Makes that many rows for it.
    """

    checkpoints: Mapping[str, str]
    plainly: Callable[[Any, Row, EvalContext], None]
    parameters: Mapping[str, str] = field(default_factory=dict)
    rows: Callable[[int], Sequence[Row]] = rag_rows

    def evaluator(self, name: str, root: Path, real: bool, width: int) -> Any:
        """Return the evaluator with checkpoints below a folder, which are made when they are not there yet."""
        paths = {parameter: str(_checkpoint(root, kind, real, width)) for parameter, kind in self.checkpoints.items()}
        return get(name)(get(name).parameters.build(name, {**paths, **self.parameters}))


def _checkpoint(root: Path, kind: str, real: bool, width: int) -> Path:
    folder = root / kind
    if not folder.is_dir():
        size = SMALL.get(kind, _SIZE)
        size = REAL.get(kind, size) if real else replace(size, width=width or size.width)
        _MAKERS[kind](folder, size)
    return folder


def cited_rows(count: int) -> list[Row]:
    """Return rows whose answers cite their contexts."""
    return [replace(row, actual_answer=str(row.actual_answer).replace(".", " [1][2].")) for row in rag_rows(count)]


def summary_rows(count: int) -> list[Row]:
    """Return rows of several systems that summarize the same documents, partly in the documents' own sentences."""
    draw = random.Random(11)
    rows = []
    for at in range(count):
        if at % SYSTEMS == 0:
            document = [f"{_phrase(draw, 24)}." for _ in range(draw.randint(8, 16))]
        own = [f"{_phrase(draw, 20)}." for _ in range(draw.randint(1, 2))]
        summary = [*draw.sample(document, draw.randint(1, 3)), *own]
        rows.append(Row(str(at // SYSTEMS), str(at % SYSTEMS), " ".join(document), actual_answer=" ".join(summary)))
    return rows


def procedure_rows(count: int) -> list[Row]:
    """Return rows of several systems that tell the same procedures, with steps left out, changed and added."""
    draw = random.Random(13)
    rows = []
    for at in range(count):
        if at % SYSTEMS == 0:
            procedures = [[_phrase(draw, 16) for _ in range(draw.randint(4, 12))] for _ in range(3)]
            context = tuple(ContextChunk(_numbered(steps)) for steps in procedures)
        answer = [step if draw.random() < 0.6 else _phrase(draw, 16) for step in draw.choice(procedures)]
        rows.append(Row(str(at // SYSTEMS), str(at % SYSTEMS), "How?", (), context, _numbered(answer)))
    return rows


def _phrase(draw: random.Random, most: int) -> str:
    length = min(4 * most, 4 + int(draw.expovariate(4 / most)))
    return " ".join(draw.choices(WORDS, k=length)).capitalize()


def _numbered(steps: Sequence[str]) -> str:
    return "\n".join(f"{number}. {step}." for number, step in enumerate(steps, start=1))


def _request_by_request(evaluator: Any, row: Row, ctx: EvalContext) -> None:
    """Put each text that the evaluator asks its one model about through Transformers' model alone."""
    import torch

    ((loaded, _),) = runtime._models.values()
    with torch.inference_mode():
        for request in evaluator.requests(row, ctx):
            _plain_result(loaded, request)


def _plain_result(loaded: Any, request: Any) -> float:
    """Return what Transformers itself computes for one text."""
    import torch

    model, tokenizer = loaded.model, loaded._tokenizer
    if isinstance(request, Passage):
        context = tokenizer(request.context)["input_ids"]
        target = tokenizer(request.target, add_special_tokens=False)["input_ids"]
        ids, labels = [*context, *target], [-100] * len(context) + target
        ids, labels = (context, target) if loaded._predictor.encodes else (ids, labels)
        inputs, wanted = (torch.tensor([each], device=model.device) for each in (ids, labels))
        return float(model(input_ids=inputs, labels=wanted).loss)
    if isinstance(loaded, classifiers.PairClassifier):
        encoded = tokenizer(*request, return_tensors="pt", truncation=True)
        return float(model(**encoded.to(model.device)).logits.flatten()[0])
    text = (
        request if isinstance(request, str) else consistency._PROMPT.format(premise=request[0], hypothesis=request[1])
    )
    encoded = tokenizer(text, return_tensors="pt", truncation=isinstance(request, str), max_length=512)
    return float(model(**encoded.to(model.device)).logits.flatten()[0])


def _text_by_text(evaluator: Any, row: Row, ctx: EvalContext) -> None:
    """Encode each different text that the evaluator compares in a row alone."""
    _encoded(evaluator, dict.fromkeys(evaluator.texts(row, ctx)), ctx)


def _encoded(evaluator: Any, texts: Mapping[str, None], ctx: EvalContext) -> list[Any]:
    model = embedders._loaded(evaluator.embedder(ctx), ctx.settings).model
    return [model.encode(text, show_progress_bar=False) for text in texts]


def _pair_by_pair(evaluator: Any, row: Row, ctx: EvalContext) -> None:
    """Compare the answer with each expected one alone."""
    model = inference.pair_reader(evaluator.cross_encoder(ctx), ctx.settings).model
    for expected in row.expected_answers:
        model.predict([(expected, row.actual_answer or "")], show_progress_bar=False)


def _sentence_by_sentence(evaluator: Any, row: Row, ctx: EvalContext) -> None:
    """Read each pair of sentences, and encode each sentence, alone; UMAP is what it is."""
    import numpy as np
    import torch

    document, summary = (
        dict.fromkeys(sentence.text for sentence in counting(ctx.sentences(text or "")))
        for text in (row.question, row.actual_answer)
    )
    loaded = runtime.resident(evaluator.nli(ctx), ctx.settings, classifiers.load_pair_classifier)
    with torch.inference_mode():
        for premise in document:
            for claim in summary:
                encoded = loaded._tokenizer(premise, claim, return_tensors="pt", truncation=True)
                loaded.model(**encoded.to(loaded.device)).logits.softmax(-1).tolist()
    vectors = (np.stack(_encoded(evaluator, texts, ctx)) for texts in (document, summary))
    completeness_faithfulness.cover(*vectors, seed=evaluator.params.seed)


SUBJECTS = {
    "answer_relevancy_sentence_similarity": Subject({"embedding_model": "embedder"}, _text_by_text),
    "answer_semantic_sentence_similarity": Subject({"embedding_model": "embedder"}, _text_by_text),
    "citations": Subject({"embedding_model": "embedder"}, _text_by_text, rows=cited_rows),
    "context_relevancy_soft": Subject({"embedding_model": "embedder"}, _text_by_text),
    "groundedness": Subject({"embedding_model": "embedder"}, _text_by_text),
    "grounding": Subject({"grounding_model": "nli"}, _request_by_request),
    "toxicity": Subject({"toxicity_model": "bert"}, _request_by_request),
    "fairness_bias": Subject({"bias_model": "bias"}, _request_by_request),
    "hallucination": Subject({"hallucination_model": "support-with-tokenizer"}, _request_by_request),
    "perplexity": Subject({"perplexity_model": "gpt2"}, _request_by_request),
    "gptscore_machine_translation": Subject({"gpt_score_model": "gpt2"}, _request_by_request),
    "gptscore_question_answering": Subject({"gpt_score_model": "opt"}, _request_by_request),
    "gptscore_summarization_with_reference": Subject({"gpt_score_model": "t5"}, _request_by_request),
    "gptscore_summarization_without_reference": Subject({"gpt_score_model": "gpt2"}, _request_by_request),
    "summarization_completeness_faithfulness": Subject(
        {"nli_model": "nli", "conv_weights": "summac-conv", "embedding_model": "embedder"},
        _sentence_by_sentence,
        rows=summary_rows,
    ),
    "step_alignment": Subject({"embedding_model": "embedder"}, _text_by_text, rows=procedure_rows),
    "answer_semantic_similarity": Subject(
        {"cross_encoder": "cross-encoder"}, _pair_by_pair, {"method": "cross-encoder"}
    ),
}
"""By the evaluators' ids; answer_semantic_similarity with a cross-encoder."""
