"""Named sets of evaluators, so that nobody has to list seventy ids, and the evaluators that look alike."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.core.registry import FAMILIES, all_evaluators
from leadline.evaluators.core.spec import CUSTOM
from leadline.evaluators.ground import ErrorCode, UsageError

_Rule = Callable[[type[Evaluator]], bool]

_RULES: Final[dict[str, tuple[str, _Rule]]] = {
    "all": ("every evaluator", lambda e: True),
    "no-judge": ("every evaluator that asks no judge", lambda e: e.spec.judge is None),
    "rules": ("rules and n-grams: no judge and no model", lambda e: e.spec.lane == "cpu"),
    "models": ("evaluators that run a local model", lambda e: e.spec.lane == "gpu"),
    "judge": ("evaluators that ask a judge", lambda e: e.spec.judge is not None),
    "h2o": ("the evaluators of H2O Sonar / Eval Studio", lambda e: e.spec.origin == "h2o"),
    "valor": ("the metrics of Valor", lambda e: e.spec.origin == "valor"),
    "rgb": ("the evaluations of the RGB benchmark", lambda e: e.spec.origin == "rgb"),
    "databricks": ("the judges of Databricks agent evaluation", lambda e: e.spec.origin == "databricks"),
    "llamaindex": ("LlamaIndex's evaluation from scratch", lambda e: e.spec.origin == "llamaindex"),
    "checks": (
        "everyday checks by exact rules and formulas, Leadline's own",
        lambda e: e.spec.origin == "leadline" and e.spec.judge is None,
    ),
    CUSTOM: ("evaluators of the user's own", lambda e: e.spec.origin == CUSTOM),
}

_LEAKS: Final = ("pii_leakage", "sensitive_data_leakage", "encoding_guardrail")
_ANSWERS: Final = (
    "text_matching",
    "regex",
    "exact_match",
    "number_match",
    "reference_recall",
    "llamaindex.correctness",
    "answer_correctness",
    "answer_semantic_similarity",
    "answer_relevancy",
    "answer_relevancy_sentence_similarity",
    "language_mismatch",
    "looping_detection",
    "rouge",
    "bleu",
)
_SPENT: Final = ("latency", "cost", "tokens")
_HARM: Final = ("toxicity", "databricks.safety", "fairness_bias", "valor.bias", "sexism", "stereotypes")

PURPOSES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "rag": (
        "a RAG application: answers, what they rest on, what was retrieved, and leaks",
        (
            *_ANSWERS,
            "faithfulness",
            "hallucination",
            "groundedness",
            "unsupported_numbers",
            "citations",
            "quoted_spans",
            "context_relevancy",
            "context_relevancy_soft",
            "context_recall",
            "context_precision",
            "llamaindex.retrieval",
            *_LEAKS,
            *_SPENT,
        ),
    ),
    "chatbot": ("an assistant without retrieval: answers, harm and leaks", (*_ANSWERS, *_HARM, *_LEAKS, *_SPENT)),
    "summarization": (
        "summaries: the question is the document",
        (
            "summarization_completeness_faithfulness",
            "summarization_judge",
            "valor.summary_coherence",
            "rouge",
            "bleu",
            *_SPENT,
        ),
    ),
    "agents": (
        "agents: the tools that they call, the state that they leave, the steps that it takes",
        (
            "tool_call_f1",
            "tool_trajectory_match",
            "tool_arguments",
            "tool_errors",
            "step_efficiency",
            "agent_loops",
            "task_state",
            "communicated",
            "goal_accuracy",
            "tool_output_use",
            "budgets",
        ),
    ),
    "extraction": (
        "structured answers: JSON, its schema and its fields, SQL, numbers and forms that were asked for",
        (
            "json_valid",
            "json_schema",
            "json_fields",
            "exact_match",
            "number_match",
            "regex",
            "format",
            "sql_equivalence",
        ),
    ),
    "classification": ("labels: of texts, and of annotated data items", ("classification", "valor.classification")),
    "safety": ("harm: toxic, biased, sexist or stereotyped answers", _HARM),
    "privacy": ("leaks: personal data, secrets, and what is encoded to hide them", (*_LEAKS, "contact_information")),
    "robustness": (
        "what should not change when a question is perturbed; RGB's evaluations on RGB's cases",
        (
            "text_matching",
            "answer_correctness",
            "llamaindex.correctness",
            "answer_semantic_similarity",
            "language_mismatch",
            "looping_detection",
            "encoding_guardrail",
            "rgb.noise_robustness",
            "rgb.negative_rejection",
            "rgb.information_integration",
            "rgb.counterfactual_robustness",
        ),
    ),
}
"""Suites by what a dataset is for. Of each a run takes what suits the dataset, and of look-alikes one."""

DEFAULT: Final = "default"
"""The suite of a run that names no evaluator and no suite."""

_JUDGED: Final = ("llamaindex.correctness", "faithfulness", "summarization_judge")
"""Of those that ask a judge, the ones in the default suite: are answers right, do they rest on what was retrieved?"""

_ORIGINS: Final = frozenset({"h2o", "valor", "rgb", "databricks", "llamaindex", "leadline"})


@dataclass(frozen=True, slots=True)
class LookAlikes:
    """Evaluators that answer the same question about an answer by different methods.

    Attributes:
        question: What they answer.
        ids: The evaluators, the preferred one first: a run that nobody gave a list takes the first that can run.
    """

    question: str
    ids: tuple[str, ...]


LOOK_ALIKES: Final = (
    LookAlikes(
        "Does the retrieved context support the answer?",
        (
            "faithfulness",
            "hallucination",
            "groundedness",
            "grounding",
            "valor.faithfulness",
            "llamaindex.faithfulness",
            "databricks.groundedness",
            "valor.hallucination",
        ),
    ),
    LookAlikes(
        "Does the answer say what the expected answer says?",
        ("llamaindex.correctness", "answer_correctness", "databricks.correctness", "valor.answer_correctness"),
    ),
    LookAlikes(
        "Does the answer resemble the expected answer in meaning?",
        ("answer_semantic_similarity", "answer_semantic_sentence_similarity"),
    ),
    LookAlikes(
        "Is the answer about the question?",
        (
            "answer_relevancy",
            "databricks.relevance_to_query",
            "valor.answer_relevance",
            "answer_relevancy_sentence_similarity",
        ),
    ),
    LookAlikes(
        "Is the retrieved context about the question?",
        ("context_relevancy", "databricks.chunk_relevance", "valor.context_relevance", "context_relevancy_soft"),
    ),
    LookAlikes(
        "Does the retrieved context hold what the expected answer says?",
        ("context_recall", "valor.context_recall", "databricks.context_sufficiency"),
    ),
    LookAlikes(
        "Do the useful chunks of the retrieved context come first?", ("context_precision", "valor.context_precision")
    ),
    LookAlikes("Were the expected documents retrieved?", ("llamaindex.retrieval", "databricks.document_recall")),
    LookAlikes("Does the answer share word sequences with the expected answer (ROUGE)?", ("rouge", "valor.rouge")),
    LookAlikes("Does the answer share word sequences with the expected answer (BLEU)?", ("bleu", "valor.bleu")),
    LookAlikes("Is the answer free of toxic language?", ("toxicity", "databricks.safety", "valor.toxicity")),
    LookAlikes("Is the answer free of bias?", ("fairness_bias", "valor.bias")),
    LookAlikes(
        "Does a language model find the summary likely?",
        ("gptscore_summarization_with_reference", "gptscore_summarization_without_reference"),
    ),
)
"""Groups of evaluators of which one is enough; no evaluator is in two."""


def look_alikes(id_: str) -> tuple[str, ...]:
    """Return the evaluators that look like one, the preferred first, without itself."""
    return tuple(other for group in LOOK_ALIKES if id_ in group.ids for other in group.ids if other != id_)


def folded(ids: Iterable[str]) -> dict[str, str]:
    """Return for each evaluator that has a preferred look-alike among others of a run the most preferred of those.

    ``rouge`` and ``valor.rouge`` give ``{"valor.rouge": "rouge"}``: the report shows the one below the other, and only
    ``rouge`` is compared.
    """
    there = set(ids)
    groups = ([id_ for id_ in group.ids if id_ in there] for group in LOOK_ALIKES)
    return {other: preferred for preferred, *others in filter(None, groups) for other in others}


def suites() -> dict[str, str]:
    """Return each suite's name with a line that says what is in it; every family is a suite too."""
    purposes = {name: text for name, (text, _) in PURPOSES.items()}
    chosen = {
        DEFAULT: "what a run takes that names none: all purposes, of judges those on right and supported answers, and "
        "the user's own"
    }
    return (
        chosen
        | purposes
        | {name: text for name, (text, _) in _RULES.items()}
        | {family: f"the {family} evaluators" for family in FAMILIES if family not in {*_RULES, *PURPOSES}}
    )


def suite(name: str) -> tuple[str, ...]:
    """Return the ids of a suite's evaluators; an unknown name is a :class:`UsageError`."""
    rule = _rule(name)
    if rule is None:
        near = difflib.get_close_matches(name, suites(), n=2)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Suites: {', '.join(suites())}."
        raise UsageError(f"There is no suite called {name!r}.", hint=hint, code=ErrorCode.PLAN_NO_SUITE)
    return tuple(id_ for id_, evaluator in all_evaluators().items() if rule(evaluator))


def _rule(name: str) -> _Rule | None:
    if name == DEFAULT:
        return lambda e: (
            (bool(purposes_of(e)) and (e.spec.judge is None or e.spec.id in _JUDGED))
            or e.spec.family == "vision"
            or e.spec.origin not in _ORIGINS
        )
    if name in PURPOSES:
        return lambda e: name in purposes_of(e)
    if name in FAMILIES and name not in _RULES:
        return lambda e: e.spec.family == name
    return _RULES[name][1] if name in _RULES else None


def purposes_of(evaluator: type[Evaluator]) -> tuple[str, ...]:
    """Return the purposes that an evaluator serves; one of the user's own serves that of its family."""
    spec = evaluator.spec
    own = spec.family if spec.origin not in _ORIGINS else None
    return tuple(name for name, (_, ids) in PURPOSES.items() if spec.id in ids or name == own)
