"""The root cause of a failing answer of a RAG system: what the retrieval missed, or what the model made of it.

What decides is what judges found, what the dataset says (expected documents), what embeddings found, and whether the
words and numbers of the expected answer stand in the contexts and in the answer. Where nothing decides, the cause is
unknown. Causes are tried in the order of Databricks' Agent Evaluation ("How root causes are determined"): what is
wrong early in the chain explains what is wrong later.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leadline.tasks.db import records, sql

if TYPE_CHECKING:
    from leadline.tasks.analyse.findings.finding import RunView

MOST_EXPLAINED: Final = 1000
"""Rows of a model whose root cause is looked for."""
CONTAINED: Final = 0.8
"""Share of the expected answer's words from which on a text contains the answer."""
ABSENT: Final = 0.4
"""Share of the expected answer's words up to which a text lacks the answer."""
QUOTED: Final = 0.9
"""Share of an answer's words from which on it is made of its contexts."""


class Cause(StrEnum):
    """The root cause of a failing answer."""

    RETRIEVAL_MISSED = "retrieval_missed"
    NOT_USED = "context_not_used"
    CONTRADICTS = "contradicts_context"
    REFUSAL = "refusal"
    FORMAT = "format"
    REFERENCE = "reference_incomplete"
    UNKNOWN = "unknown"


WORDS: Final[Mapping[Cause, str]] = {
    Cause.RETRIEVAL_MISSED: "where the retrieval did not find what the answer needs",
    Cause.NOT_USED: "where the context has the answer and the model did not use it",
    Cause.CONTRADICTS: "with claims that the context does not support",
    Cause.REFUSAL: "where the model refused or gave no answer",
    Cause.FORMAT: "with the right content in the wrong form",
    Cause.REFERENCE: "that are supported, so that the expected answer may be incomplete",
    Cause.UNKNOWN: "of which the evaluators of this run do not tell why",
}
_LABELS: Final[Mapping[Cause, str]] = {
    Cause.RETRIEVAL_MISSED: "Missed by the retrieval",
    Cause.NOT_USED: "Context not used",
    Cause.CONTRADICTS: "Unsupported claims",
    Cause.REFUSAL: "Refused",
    Cause.FORMAT: "Wrong form",
    Cause.REFERENCE: "Expected answer incomplete",
}
ACTIONS: Final[Mapping[Cause, str]] = {
    Cause.RETRIEVAL_MISSED: "Improve the retrieval for the cases named: chunking, the embedding model, hybrid search "
    "or the number of chunks; check that the documents are in the index.",
    Cause.NOT_USED: "The retrieval is good enough here: shorten or reorder the contexts, ask in the prompt for answers "
    "from them, or choose a stronger model.",
    Cause.CONTRADICTS: "Ask in the prompt for answers from the context alone, and to say where it has none, "
    "lower the temperature, or check answers against their contexts before they are given.",
    Cause.REFUSAL: "The context was there: loosen the instruction or the guardrail that makes the model refuse such "
    "questions.",
    Cause.FORMAT: "State the form of the answer in the prompt, with an example, or use structured output.",
    Cause.REFERENCE: "Read the expected answers of the cases named: complete them, or add other acceptable ones.",
}


class CauseAspect(StrEnum):
    """The part of a RAG system that a metric judges."""

    RECALL = "recall"
    SUPPORT = "support"
    CORRECTNESS = "correctness"
    RELEVANCE = "relevance"
    FORM = "form"


ASPECTS: Final[Mapping[str, CauseAspect]] = {
    "answer_correctness": CauseAspect.CORRECTNESS,
    "answer_relevancy": CauseAspect.RELEVANCE,
    "answer_relevancy_sentence_similarity": CauseAspect.RELEVANCE,
    "answer_semantic_sentence_similarity": CauseAspect.CORRECTNESS,
    "answer_semantic_similarity": CauseAspect.CORRECTNESS,
    "context_recall": CauseAspect.RECALL,
    "databricks.context_sufficiency": CauseAspect.RECALL,
    "databricks.correctness": CauseAspect.CORRECTNESS,
    "databricks.groundedness": CauseAspect.SUPPORT,
    "databricks.relevance_to_query": CauseAspect.RELEVANCE,
    "faithfulness": CauseAspect.SUPPORT,
    "groundedness": CauseAspect.SUPPORT,
    "hallucination": CauseAspect.SUPPORT,
    "language_mismatch": CauseAspect.FORM,
    "llamaindex.correctness": CauseAspect.CORRECTNESS,
    "llamaindex.faithfulness": CauseAspect.SUPPORT,
    "looping_detection": CauseAspect.FORM,
    "ragas/answer_relevancy": CauseAspect.RELEVANCE,
    "ragas/context_recall": CauseAspect.RECALL,
    "ragas/faithfulness": CauseAspect.SUPPORT,
    "text_matching": CauseAspect.FORM,
    "valor.answer_correctness": CauseAspect.CORRECTNESS,
    "valor.answer_relevance": CauseAspect.RELEVANCE,
    "valor.context_recall": CauseAspect.RECALL,
    "valor.faithfulness": CauseAspect.SUPPORT,
    "valor.hallucination": CauseAspect.SUPPORT,
}
"""Aspects that evaluators judge, by id (their primary metric) or by id and metric."""

_SOURCE: Final = r"(?:context|documents?|passages?|texts?|sources?|information)"
_NOT: Final = r"(?:not|n't|cannot)"
_REFUSAL: Final = re.compile(
    r"\b(?:i|we)(?: am| are|'m|'re)? (?:unable to|not able to|not sure|(?:do |did |could |can )?"
    rf"{_NOT} (?:know|have|find|answer|help|provide|tell|determine|give|disclose|share|assist))"
    r"|\b(?:i|we) (?:can|do|did|could)n't (?:know|have|find|answer|help|provide|tell|determine|give|share|assist)"
    rf"|\b{_SOURCE}\b[^.]{{0,60}}(?:\bnot|n't) (?:mention|provide|specify|contain|include|say|state|have|give)"
    rf"|(?:\bnot|n't) (?:mentioned|provided|specified|stated|given|covered|found)\b[^.]{{0,40}}\b{_SOURCE}\b"
    r"|\b(?:no|not enough|insufficient) (?:relevant |sufficient )?information\b"
    r"|\bcan(?:not| not|'t) be (?:determined|answered)"
    r"|\bwei(?:ß|ss) ich (?:leider )?nicht|\bkeine (?:angaben|informationen?)\b|\bje ne (?:sais|peux) pas"
    r"|\bno (?:lo )?s[ée]\b|\bno puedo\b",
    re.IGNORECASE,
)
_REFUSES_WITHIN: Final = 240  # characters at the start of an answer where a refusal stands
_WORD: Final = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]{4,}")
_MOST_WORDS: Final = 60  # words of an expected answer that are looked for
_MOST_CHARACTERS: Final = 100_000  # of the contexts of a row


@dataclass(frozen=True, slots=True)
class CauseFacts:
    """The facts about a failing row that its root cause follows from; ``None`` where it is not known.

    Attributes:
        retrieved: Whether anything was retrieved; ``None`` where nothing was and the case may need nothing.
        documents: Share of the expected documents that were retrieved.
        context_share: Share of the expected answer's words and numbers that stand in the contexts.
        answer_share: Share of the expected answer's words and numbers that stand in the answer.
        refused: Whether the answer is a refusal, or empty.
        refusal_expected: Whether the expected answer is one.
        passes: By aspect, whether the evaluators that judge it are content.
    """

    retrieved: bool | None
    documents: float | None = None
    context_share: float | None = None
    answer_share: float | None = None
    refused: bool = False
    refusal_expected: bool = False
    passes: Mapping[CauseAspect, bool] | None = None

    def ok(self, aspect: CauseAspect) -> bool | None:
        """Return whether an aspect is good, ``None`` if no evaluator tells."""
        return (self.passes or {}).get(aspect)


def root_cause(facts: CauseFacts) -> Cause:
    """Return the root cause of a row that fails some evaluator of quality."""
    wrong = [
        facts.ok(aspect)
        for aspect in (CauseAspect.CORRECTNESS, CauseAspect.FORM, CauseAspect.SUPPORT, CauseAspect.RECALL)
    ]
    if facts.refusal_expected or False not in wrong:
        return Cause.UNKNOWN
    has = _context_has(facts)
    if facts.refused:
        return Cause.RETRIEVAL_MISSED if has is False else Cause.REFUSAL
    support, relevance = facts.ok(CauseAspect.SUPPORT), facts.ok(CauseAspect.RELEVANCE)
    if facts.answer_share is not None and facts.answer_share >= CONTAINED and support is not False:
        if facts.ok(CauseAspect.FORM) is False:
            return Cause.FORMAT
        if facts.ok(CauseAspect.CORRECTNESS) is False:
            return Cause.REFERENCE
    only_words = facts.ok(CauseAspect.RECALL) is None and facts.documents is None and facts.retrieved
    other_answer = support is True and relevance is True and facts.ok(CauseAspect.CORRECTNESS) is False
    if has is False:
        return Cause.REFERENCE if only_words and other_answer else Cause.RETRIEVAL_MISSED
    if support is False:
        return Cause.CONTRADICTS
    if has:
        return (
            Cause.NOT_USED
            if False in (facts.ok(CauseAspect.CORRECTNESS), facts.ok(CauseAspect.FORM))
            else Cause.UNKNOWN
        )
    return Cause.REFERENCE if other_answer else Cause.UNKNOWN


def _context_has(facts: CauseFacts) -> bool | None:
    """Return whether the contexts contain what the answer needs."""
    if not facts.retrieved:
        return facts.retrieved
    if (judged := facts.ok(CauseAspect.RECALL)) is not None:
        return judged
    if facts.documents == 0:
        return False
    if facts.context_share is not None and facts.context_share >= CONTAINED:
        return True
    if facts.context_share is not None and facts.context_share <= ABSENT:
        return False
    return None if facts.documents is None else facts.documents == 1


def share_of_words(expected: str, text: str) -> float | None:
    """Return the share of the words of an expected answer that stand in a text; ``None`` if it has too few to tell.

    Words have at least four letters; a number counts as three words, since it is what is often wrong.
    """
    wanted = list(dict.fromkeys(_WORD.findall(expected.casefold())))[:_MOST_WORDS]
    weights = [3 if word[0].isdigit() else 1 for word in wanted]
    if sum(weights) < 2:
        return None
    within = text[:_MOST_CHARACTERS].casefold()
    found = [weight for word, weight in zip(wanted, weights, strict=True) if _stands(word, within)]
    return sum(found) / sum(weights)


def _stands(word: str, text: str) -> bool:
    if not word[0].isdigit():
        return word in text
    return re.search(rf"(?<![\d.,]){re.escape(word)}(?!\d|[.,:]\d)", text) is not None


def refuses(answer: str | None) -> bool:
    """Return whether an answer is empty or declines to answer."""
    text = (answer or "").strip().replace("\u2019", "'")
    return not text or _REFUSAL.search(text[:_REFUSES_WITHIN]) is not None


class RootCauses(NamedTuple):
    """The root causes of failing rows, and what they were found by."""

    causes: tuple[Cause, ...] = ()
    evidence: tuple[str, ...] = ()


def root_causes(view: RunView, row_ids: Sequence[int]) -> RootCauses:
    """Return the root causes of failing rows of RAG models; rows of other models are left out.

    Args:
        row_ids: Rows; the first :data:`MOST_EXPLAINED` are looked at.
    """
    wanted = list(row_ids[:MOST_EXPLAINED])
    texts = records(view.connection, sql("problems/row_texts"), [wanted]) if wanted else []
    if not texts:
        return RootCauses()
    votes, evaluators = _votes(view, wanted)
    facts = [_facts(line, votes.get(line["row_id"], {})) for line in texts]
    data = {
        "expected documents": any(each.documents is not None for each in facts),
        "words of the expected answers": any(each.context_share is not None for each in facts),
    }
    return RootCauses(tuple(map(root_cause, facts)), (*(name for name, used in data.items() if used), *evaluators))


def _facts(line: Mapping[str, Any], votes: Mapping[CauseAspect, Vote]) -> CauseFacts:
    contexts, answer, expected = "\n".join(line["contexts"]), line["actual_answer"] or "", line["expected_answers"]
    documents = set(line["expected_documents"])
    known = {document for document in line["documents"] if document is not None}
    passes = {aspect: vote.good for aspect, vote in votes.items()}
    support = votes.get(CauseAspect.SUPPORT)
    if support and not support.good and not support.judged and (share_of_words(answer, contexts) or 0) >= QUOTED:
        del passes[CauseAspect.SUPPORT]  # its words are the context's: that a similarity is low says nothing then
    return CauseFacts(
        retrieved=True if contexts.strip() else False if documents or not line["documents_stated"] else None,
        documents=len(documents & known) / len(documents) if documents and (known or not contexts) else None,
        context_share=_best(expected, contexts),
        answer_share=_best(expected, answer),
        refused=refuses(answer),
        refusal_expected=any(refuses(each) for each in expected),
        passes=passes,
    )


def _best(expected: Iterable[str], text: str) -> float | None:
    shares = [share for each in expected if (share := share_of_words(each, text)) is not None]
    return max(shares, default=None)


class Vote(NamedTuple):
    """The verdict of the evaluators of one aspect on a row."""

    good: bool
    judged: bool


def _votes(view: RunView, row_ids: Sequence[int]) -> tuple[dict[int, dict[CauseAspect, Vote]], list[str]]:
    """Return the verdict on each aspect of rows, by judges if any gave one, and the names of all evaluators asked."""
    aspects = {metric_id: found for metric_id in view.metrics if (found := _aspect(view, metric_id))}
    said: defaultdict[tuple[int, CauseAspect, bool], list[bool]] = defaultdict(list)
    asked: set[int] = set()
    for line in records(view.connection, sql("problems/row_values"), [list(aspects), list(row_ids)]):
        aspect, judged = aspects[line["metric_id"]]
        asked.add(view.metrics[line["metric_id"]]["evaluator_id"])
        said[line["row_id"], aspect, judged].append(_good(view.metrics[line["metric_id"]], line["value"]))
    out: defaultdict[int, dict[CauseAspect, Vote]] = defaultdict(dict)
    for (row_id, aspect, judged), goods in sorted(said.items(), key=lambda each: each[0][2]):  # judges last: they stay
        good = all(goods) if aspect is CauseAspect.FORM else 2 * sum(goods) >= len(goods)
        out[row_id][aspect] = Vote(good, judged)
    return out, [view.evaluator_name(evaluator_id) for evaluator_id in sorted(asked)]


def _aspect(view: RunView, metric_id: int) -> tuple[CauseAspect, bool] | None:
    """Return what a metric judges, and whether a judge does."""
    metric = view.metrics[metric_id]
    evaluator = view.evaluators[metric["evaluator_id"]]
    id_ = evaluator["evaluator"].partition("#")[0]
    aspect = ASPECTS.get(f"{id_}/{metric['metric']}") or (ASPECTS.get(id_) if metric["is_primary"] else None)
    return (aspect, evaluator["lane"] == "judge") if aspect else None


def _good(metric: Mapping[str, Any], value: float) -> bool:
    limit = metric["threshold"]
    if limit is None:
        limit = (metric["low"] + metric["high"]) / 2
    return bool(value >= limit if metric["higher_is_better"] else value <= limit)


def count_causes(causes: Iterable[Cause]) -> dict[str, int]:
    """Return how many rows have each cause, commonest first and the unknown last."""
    counted = Counter(causes)
    order = sorted(counted, key=lambda cause: (cause is Cause.UNKNOWN, -counted[cause], list(Cause).index(cause)))
    return {cause.value: counted[cause] for cause in order}


def main_cause(causes: Iterable[Cause]) -> Cause | None:
    """Return the cause of at least half of the rows whose cause is known, and of two; ``None`` if there is none."""
    counted = Counter(cause for cause in causes if cause is not Cause.UNKNOWN)
    if not counted:
        return None
    (cause, n), *_ = counted.most_common(1)
    return cause if n >= max(2, counted.total() / 2) else None


def actions_for(causes: Iterable[Cause]) -> str | None:
    """Return what to do about the causes of most rows, two at most; ``None`` where hardly any cause is known."""
    counted = Counter(cause for cause in causes if cause is not Cause.UNKNOWN)
    found = [(cause, n) for cause, n in counted.most_common(2) if n >= max(2, counted.total() / 4)]
    if len(found) == 1:
        return ACTIONS[found[0][0]]
    return " ".join(f"{_LABELS[cause]} ({n:,}): {ACTIONS[cause]}" for cause, n in found) or None
