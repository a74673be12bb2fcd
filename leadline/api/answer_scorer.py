"""One metric over single answers, as scorers of other tools ask for them: no run is made and no report written."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from leadline.api.answer_check import AnswerMetrics, answer_metrics, metrics_of_rows
from leadline.api.metric_choice import Metrics
from leadline.evaluators.core import Evaluator, Metric
from leadline.evaluators.data import ContextChunk, NotApplicable, Row, Unscored
from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.score.rows import missing_inputs
from leadline.tasks.store.segments import read_evidence

_CONTENTS: Final = ("content", "page_content", "text")
_ADDRESSES: Final = ("doc_uri", "source", "uri", "url", "id")


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """The score of an answer.

    Attributes:
        value: The metric's value; ``None`` where there is none.
        passes: Whether it satisfies the metric's threshold; ``None`` without a threshold or a value.
        state: ``scored``, ``unscored`` (the instrument failed) or ``not_applicable`` (an input is missing).
        reason: Why there is no value, ``""`` with one.
        explanation: What the value rests on, in a sentence; ``""`` where it speaks for itself.
        evidence: The evidence as JSON: ``message``, ``spans``, ``data``.
        values: The values of all metrics of the evaluator that have one.
    """

    value: float | None
    passes: bool | None
    state: Literal["scored", "unscored", "not_applicable"]
    reason: str = ""
    explanation: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class AnswerScorer:
    """A metric that scores answers one at a time; threads may share it.

    Attributes:
        metric: The one of its metrics that stands for it.
        measuring: What scores answers by the evaluator.
    """

    evaluator: Evaluator
    metric: Metric
    measuring: AnswerMetrics

    @property
    def name(self) -> str:
        """Id of the evaluator."""
        return self.evaluator.spec.id

    def score(self, row: Row) -> AnswerScore:
        """Score an answer."""
        if missing := [name.attribute for name in missing_inputs(self.evaluator, row)]:
            return AnswerScore(None, None, "not_applicable", f"there is no {' and no '.join(missing)}")
        [found] = self.measuring.score(row)
        evidence = read_evidence(found.evidence)
        values = {key: value for key, value in found.values.items() if isinstance(value, float)}
        value, limit = found.values[self.metric.key], self.metric.threshold
        if isinstance(value, Unscored):
            reason = f"{value.reason}: {value.message}".rstrip(": ")
            return AnswerScore(None, None, "unscored", reason, evidence=evidence, values=values)
        if isinstance(value, NotApplicable):
            return AnswerScore(None, None, "not_applicable", value.message, evidence=evidence, values=values)
        passes = None if limit is None else self.metric.passes(value, limit)
        return AnswerScore(value, passes, "scored", "", explained(evidence), evidence, values)


def answer_scorer(metric: Metrics, *, judge: Any = None, store: Any = None, **settings: Any) -> AnswerScorer:
    """Return a scorer of single answers.

    Args:
        metric: An id, an id with one of its metrics (``bleu:bleu_2``), ``leadline.metrics.…``, a class, or a function.
        judge: The judge, as :func:`leadline.evaluate` takes it.
        store: The store with the ledger of judge calls. Default: ``$LEADLINE_STORE`` or ``./.leadline``.
        **settings: Further fields of :class:`~leadline.flows.evaluate.config.EvaluateConfig`.

    Raises:
        UsageError: There is no such metric, judge or setting, or the metric measures datasets only.
    """
    wanted = ""
    if isinstance(metric, str):
        metric, _, wanted = metric.partition(":")
    measuring = answer_metrics(metric, f"scorer-{secrets.token_hex(4)}", judge=judge, store=store, **settings)
    [evaluator] = measuring.evaluators
    return AnswerScorer(evaluator, _metric_of(evaluator, wanted), measuring)


def _metric_of(evaluator: Evaluator, wanted: str) -> Metric:
    rows = metrics_of_rows(evaluator)
    found = [metric for metric in rows if metric.key == wanted or (not wanted and metric.primary)]
    if wanted and not found:
        raise UsageError(
            f"{evaluator.spec.id} has no metric {wanted!r}.",
            hint=f"It has {', '.join(metric.key for metric in rows)}.",
            code=ErrorCode.CONFIG_OPTION,
        )
    return (found or rows)[0]


def explained(evidence: Mapping[str, Any], most: int = 2_000) -> str:
    """Return evidence in a sentence: its message, else what a judge said, else what was found where.

    Args:
        evidence: The evidence as JSON.
    """
    data = evidence.get("data") if isinstance(evidence.get("data"), Mapping) else {}
    said = next((data[name] for name in ("rationale", "reason", "explanation") if data.get(name)), "")  # type: ignore[index,union-attr]
    notes = [str(span["note"]) for span in evidence.get("spans", ()) if span.get("note")]
    text = str(evidence.get("message") or said or "; ".join(notes[:5]))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def context_chunks(found: Any) -> tuple[ContextChunk, ...]:
    """Return retrieved chunks of any tool: texts, objects or mappings with ``content``, ``page_content`` or ``text``.

    LangChain's documents and LlamaIndex's nodes are such objects. What has no text is left out.
    """
    if found is None or isinstance(found, str):
        return (ContextChunk(found),) if found else ()
    if isinstance(found, Mapping) or not isinstance(found, Sequence):
        found = [found]
    return tuple(chunk for each in found if (chunk := _chunk(each)) is not None)


def _chunk(found: Any) -> ContextChunk | None:
    if isinstance(found, str):
        return ContextChunk(found)
    inner = _member(found, ("node",))  # LlamaIndex's node with a score
    holder = found if inner is None else inner
    text = _member(holder, _CONTENTS)
    if callable(text):
        text = text()
    if not isinstance(text, str):
        return None
    address = _member(holder, _ADDRESSES) or _member(_member(holder, ("metadata",)), _ADDRESSES)
    return ContextChunk(text, address if isinstance(address, str) and address else None)


def _member(holder: Any, names: Sequence[str]) -> Any:
    for name in names:
        value = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
        if value is not None:
            return value
    return None
