"""Scoring one answer without a run, and ``leadline.check``: an assertion on it, or on a conversation.

It is for tests, and for programs on guard.

Judge calls are put on record in the store's ledger, so that the same question is never paid for twice, and embeddings
are kept there too.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import itemgetter
from typing import Any, Final

from leadline.api.evaluation import requested_values
from leadline.api.failure_text import AnswerTexts, Failure, failure_text
from leadline.api.metric_choice import Metrics, chosen_metrics
from leadline.api.settings import checked
from leadline.evaluators.core import EvalContext, Evaluator, Metric, lent
from leadline.evaluators.data import ContextChunk, Row, RowField, Unscored
from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, listing, nouns
from leadline.evaluators.text.time_budget import RegexTimeBudget
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.prepare import chosen
from leadline.flows.shared.judge_access import limits_of
from leadline.tasks.load.conversation import CONTENT, Conversation, Part, parts_of
from leadline.tasks.load.messages import expected_calls, messages_of, tools_of
from leadline.tasks.load.values import ValueFault
from leadline.tasks.policy.policy import Policy, load_policy
from leadline.tasks.score.chunk import kept_context
from leadline.tasks.score.rows import missing_inputs, reduced, row_of
from leadline.tasks.score.scoring import Ask, score_together
from leadline.tasks.store.segments import StoredScore, read_evidence
from leadline.tasks.store.store import Store


@dataclass(frozen=True, slots=True, eq=False)
class CheckedUnit:
    """An answer that is checked, a turn of a conversation, or a conversation as a whole.

    Attributes:
        turn: The turn, from 1; 0 for what is no turn of several.
    """

    row: Row
    texts: AnswerTexts
    turn: int = 0


@dataclass(frozen=True)
class AnswerMetrics:
    """Metrics that score answers one at a time; threads may share them.

    Attributes:
        policy: The policy that their limits may be from.
        context: The tools they work with: judges, models, embeddings.
    """

    evaluators: tuple[Evaluator, ...]
    policy: Policy
    context: EvalContext

    def score(self, row: Row) -> list[StoredScore]:
        """Score an answer by just the fields that each evaluator reads, as in a run; return a score for each."""
        asks = [Ask(evaluator, [reduced(row, evaluator.reads)]) for evaluator in self.evaluators]
        fresh = replace(self.context, regex_budget=RegexTimeBudget())  # each answer has the whole time
        return [scored.scores[0] for scored in score_together(asks, fresh)]


def answer_metrics(
    metrics: Metrics | Iterable[Metrics], session: str, *, judge: Any = None, store: Any = None, **settings: Any
) -> AnswerMetrics:
    """Return metrics that score single answers.

    Args:
        metrics: What is measured, as :func:`leadline.evaluate` takes it.
        session: Name under which judge calls are put on record; those of one name share a budget.
        judge: The judge, as :func:`leadline.evaluate` takes it.
        store: The store with the ledger and the embeddings, or its location.
        **settings: Further fields of :class:`~leadline.flows.evaluate.config.EvaluateConfig`.

    Raises:
        UsageError: There is no such metric, judge or setting.
    """
    picked = chosen_metrics(metrics)
    if not picked.ids:
        raise UsageError(
            "check needs metrics.", hint='Name some, as metrics=["faithfulness"].', code=ErrorCode.CONFIG_OPTION
        )
    place = store if isinstance(store, Store) else Store.open(store)
    config = checked(EvaluateConfig, requested_values(settings, picked, judge) | {"dataset": "-"})
    with lent(picked.own):
        run_settings, choice = chosen(config, check_key=True)
        policy = load_policy(config.policy)
    return AnswerMetrics(
        choice.evaluators, policy, kept_context(place, run_settings, session, limits_of(config.judges))
    )


def metrics_of_rows(evaluator: Evaluator) -> list[Metric]:
    """Return an evaluator's metrics that single answers have.

    Raises:
        UsageError: There are none.
    """
    found = [metric for metric in evaluator.metrics if not metric.dataset_level]
    if not found:
        raise UsageError(f"{evaluator.spec.id} measures datasets, not single answers.", code=ErrorCode.CONFIG_OPTION)
    return found


_ARGUMENTS: Final = {
    RowField.QUESTION: "question",
    RowField.EXPECTED_ANSWER: "expected",
    RowField.RETRIEVED_CONTEXT: "context",
    RowField.CONDITION: "condition",
    RowField.ACTUAL_ANSWER: "answer",
}
"""Arguments of :func:`check` by the field of a row that they fill."""

_OF_ANSWERS: Final = ("question", "context")
_OF_CONVERSATIONS: Final = ("tools", "expected_tool_calls", "expected_outcome")


class AnswerFailed(AssertionError):
    """An answer misses a limit.

    Attributes:
        failures: The failing metrics, each with value, limit and evidence.
        values: The values of all metrics that were checked, by ``evaluator.metric``.
    """

    __module__ = "leadline"  # as users import it

    def __init__(self, message: str, failures: Sequence[Failure], values: Mapping[str, float]) -> None:
        super().__init__(message)
        self.failures = tuple(failures)
        self.values = dict(values)

    def __reduce__(self) -> tuple[type[AnswerFailed], tuple[object, ...]]:
        return type(self), (str(self), self.failures, self.values)

    @property
    def value(self) -> float:
        """Value of the first failing metric."""
        return self.failures[0].value

    @property
    def limit(self) -> float:
        """Limit of the first failing metric."""
        return self.failures[0].limit

    @property
    def evidence(self) -> Mapping[str, Any]:
        """The evidence of the first failing metric: ``message``, ``spans`` and ``data``, as far as there are any."""
        return self.failures[0].evidence


class NotMeasured(LeadlineError):
    """The instrument failed, so that nothing can be said of an answer: no assertion failed.

    Attributes:
        reasons: Why, a :class:`~leadline.evaluators.data.row.Reason` by ``evaluator.metric``.
    """

    __module__ = "leadline"
    code = ErrorCode.RUN_NOT_MEASURED

    def __init__(self, message: str, *, hint: str = "", reasons: Mapping[str, str] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reasons = dict(reasons or {})


def check(
    answer: str | Sequence[Any],
    *,
    metrics: Metrics | Iterable[Metrics],
    question: str | None = None,
    context: str | Sequence[str] | None = None,
    expected: str | Sequence[str] | None = None,
    condition: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    expected_tool_calls: Sequence[Mapping[str, Any]] | None = None,
    expected_outcome: str | None = None,
    limits: Mapping[str, float] | None = None,
    session: str = "",
    **settings: Any,
) -> dict[str, float]:
    """Assert that an answer is good, or a conversation.

    Each turn of a conversation has to be good by what is about turns; the value is that of the worst one. Each metric
    is held against its limit: that of ``limits``, else the policy's, else the metric's own threshold. The judges' calls
    are put on record in the store's ledger, so that the same question is never paid for twice; no run is made and no
    report written.

    Args:
        answer: A text, or the messages of a conversation in any form that datasets have them in.
        metrics: What it must satisfy, as :func:`leadline.evaluate` takes it.
        context: What was retrieved for the answer, in rank order.
        expected: Acceptable answers; of a conversation those to its last turn.
        condition: A condition on the answer's text, as datasets have it: ``'"seven" AND NOT "ten"'``; of a conversation
            on the answer of its last turn.
        tools: The tools that there were in a conversation.
        expected_tool_calls: The calls that it should have, each a ``name`` and ``arguments``.
        expected_outcome: Its goal.
        limits: Limits by evaluator's id, or by ``evaluator:metric`` for another metric than the one that decides.
        session: Name under which judge calls are put on record: those of one name share a budget. Default: one for
            this process.
        **settings: ``judge``, ``policy``, ``store``, and fields of
            :class:`~leadline.flows.evaluate.config.EvaluateConfig`.

    Returns:
        The values by ``evaluator.metric``.

    Raises:
        AnswerFailed: A metric misses its limit; an :class:`AssertionError` with value, limit and evidence.
        NotMeasured: A metric could not be measured: a judge or weights are missing, or a budget is spent.
        UsageError: There is no such metric or setting, or a metric needs an input that is not given.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    try:
        for name, text in (("question", question), ("condition", condition), ("expected_outcome", expected_outcome)):
            if text is not None:
                _require_text(name, text)
        texts = AnswerTexts(None, question, _several("expected", expected), _several("context", context), condition)
        about = dict(zip(_OF_CONVERSATIONS, (tools, expected_tool_calls, expected_outcome), strict=True))
        whole, turns = _subjects(answer, texts, about)
        values, failures = _measured(whole, turns, metrics, limits or {}, session or _session(), settings)
    except LeadlineError as error:
        raise error.with_traceback(None) from None  # it says what to do; our frames would hide that
    if failures:
        parts = [(subject, [failure for other, failure in failures if other is subject]) for subject in (whole, *turns)]
        text = "\n".join(failure_text(found, subject.texts) for subject, found in dict(parts).items() if found)
        raise AnswerFailed(text, [failure for _, failure in failures], values)
    return values


def _subjects(
    answer: str | Sequence[Any], texts: AnswerTexts, about: Mapping[str, Any]
) -> tuple[CheckedUnit, list[CheckedUnit]]:
    """Return what is checked as a whole, and turn by turn where it is a conversation of several.

    Args:
        answer: A text or messages.
        texts: The other texts.
        about: What is known of a conversation besides, by the names that datasets have for it.
    """
    if isinstance(answer, str):
        if given := [name for name, value in about.items() if value is not None]:
            raise UsageError(
                f"{listing(given)} {nouns(len(given), 'is', 'are')} of a conversation, and the answer is a text.",
                hint="Give the messages instead of the answer.",
                code=ErrorCode.CONFIG_OPTION,
            )
        said = replace(texts, answer=answer)
        subject = CheckedUnit(_row(said), said)
        return subject, [subject]
    for name in _OF_ANSWERS:
        if getattr(texts, name):
            raise UsageError(
                f"{name} is of a single answer, and this is a conversation.",
                hint="Its messages have questions and contexts.",
                code=ErrorCode.CONFIG_OPTION,
            )
    if not isinstance(answer, Sequence):
        _require_text("answer", answer)
    try:
        conversation = Conversation(
            messages_of([item.model_dump() if hasattr(item, "model_dump") else item for item in answer]),
            expected_answers=texts.expected,
            tools=None if about["tools"] is None else tools_of(list(about["tools"])),
            expected_tool_calls=(
                None if about["expected_tool_calls"] is None else expected_calls(list(about["expected_tool_calls"]))
            ),
            expected_outcome=about["expected_outcome"],
        )
    except ValueFault as fault:
        raise UsageError(f"The conversation cannot be read: {fault}.", code=ErrorCode.CONFIG_OPTION) from None
    whole, turns = parts_of(conversation)
    subject = _subject_of(whole, texts.condition)
    last = len(turns)
    parts = enumerate(turns, start=1)
    of_turns = [_subject_of(turn, texts.condition if number == last else None, number) for number, turn in parts]
    return subject, of_turns or [subject]


def _subject_of(part: Part, condition: str | None, turn: int = 0) -> CheckedUnit:
    said = part.turn
    line = {
        "case_key": "answer",
        "model_key": "answer",
        "question": said.question,
        "expected_answers": said.expected_answers,
        "retrieved_context": [(chunk["content"], chunk.get("doc_uri")) for chunk in said.retrieved_context],
        "actual_answer": said.answer,
        "condition": condition,
        **dict(zip(CONTENT, part.content, strict=True)),
    }
    context = tuple(chunk["content"] for chunk in said.retrieved_context)
    row = row_of(line)
    texts = AnswerTexts(said.answer, said.question, said.expected_answers, context, condition, row.messages)
    return CheckedUnit(row, texts, turn)


def _measured(
    whole: CheckedUnit,
    turns: Sequence[CheckedUnit],
    metrics: Metrics | Iterable[Metrics],
    limits: Mapping[str, float],
    session: str,
    settings: Mapping[str, Any],
) -> tuple[dict[str, float], list[tuple[CheckedUnit, Failure]]]:
    """Return the values by ``evaluator.metric``, and those that miss their limit; see :func:`check`."""
    measuring = answer_metrics(metrics, session, **settings)
    checks = [_Check.of(evaluator, measuring.policy, limits) for evaluator in measuring.evaluators]
    _require_known(limits, checks)
    scores: list[list[tuple[CheckedUnit, StoredScore]]] = [[] for _ in checks]
    asked = [[whole] if each.evaluator.spec.unit == "conversation" else each.able(turns) for each in checks]
    for each, subjects in zip(checks, asked, strict=True):
        each.require_inputs(subjects[0].row)
    for subject in dict.fromkeys((whole, *turns)):
        places = [place for place, subjects in enumerate(asked) if subject in subjects]
        chosen = replace(measuring, evaluators=tuple(checks[place].evaluator for place in places))
        for place, score in zip(places, chosen.score(subject.row) if places else (), strict=True):
            scores[place].append((subject, score))
    found = _worst(checks, scores)
    failures = [
        (subject, each.failure(value, score, subject.turn))
        for each, (value, subject, score) in zip(checks, found, strict=True)
        if not each.metric.passes(value, each.limit)
    ]
    return {each.key: value for each, (value, _, _) in zip(checks, found, strict=True)}, failures


@dataclass(frozen=True, slots=True)
class _Check:
    """A metric that is held against a limit.

    Attributes:
        metric: The metric that decides.
    """

    evaluator: Evaluator
    metric: Metric
    limit: float

    @property
    def key(self) -> str:
        """The metric among all: ``evaluator.metric``."""
        return f"{self.evaluator.spec.id}.{self.metric.key}"

    @classmethod
    def of(cls, evaluator: Evaluator, policy: Policy, limits: Mapping[str, float]) -> _Check:
        id_ = evaluator.spec.id
        rows = metrics_of_rows(evaluator)
        named = next((metric for metric in rows if f"{id_}:{metric.key}" in limits), None)
        rules = policy.rules_of(evaluator, named=True)
        deciding = named or next(metric for metric in rows if metric.key == policy.deciding(rows, rules))
        limit = limits.get(f"{id_}:{deciding.key}", limits.get(id_))
        if limit is None:
            limit = rules[deciding.key].threshold
        if limit is None:
            limit = deciding.threshold
        if limit is None:
            raise UsageError(
                f"{id_} has no threshold to be held against.",
                hint=f'Give one: limits={{"{id_}": …}}.',
                code=ErrorCode.CONFIG_OPTION,
            )
        return cls(evaluator, deciding, limit)

    def require_inputs(self, row: Row) -> None:
        """Refuse to measure what lacks an input: a check that cannot fail is none."""
        if not (missing := missing_inputs(self.evaluator, row)):
            return
        named = [_ARGUMENTS.get(name, name) for name in missing]
        given = {"expected", "condition", *(_OF_CONVERSATIONS if row.messages else _OF_ANSWERS)}
        hint = f"Give {listing(f'{name}=…' for name in named)} to check."
        if not given.issuperset(named):
            hint = (
                "The messages have to have it."
                if row.messages
                else "Give the messages of a conversation as the answer."
            )
        raise UsageError(f"{self.evaluator.spec.id} needs {listing(named)}.", hint=hint, code=ErrorCode.CONFIG_OPTION)

    def able(self, subjects: Sequence[CheckedUnit]) -> Sequence[CheckedUnit]:
        """Return those that have what is needed; all where none has."""
        return [each for each in subjects if not missing_inputs(self.evaluator, each.row)] or subjects

    def failure(self, value: float, score: StoredScore, turn: int) -> Failure:
        metric, evidence = self.metric, read_evidence(score.evidence)
        if turn:
            evidence = {**evidence, "message": f"Turn {turn}: {evidence.get('message') or ''}"}
        return Failure(
            self.evaluator.spec.id, metric.key, value, self.limit, metric.higher_is_better, evidence=evidence
        )


def _require_known(limits: Mapping[str, float], checks: Sequence[_Check]) -> None:
    known = {
        name for each in checks for name in (each.evaluator.spec.id, f"{each.evaluator.spec.id}:{each.metric.key}")
    }
    unused = next((name for name in limits if name not in known), None)
    if unused is not None:
        raise UsageError(
            f"There is a limit for {unused!r}, which is not measured.",
            hint=f"Limits are for: {listing(sorted(known))}.",
            code=ErrorCode.CONFIG_OPTION,
        )


def _worst(
    checks: Sequence[_Check], scores: Sequence[Sequence[tuple[CheckedUnit, StoredScore]]]
) -> list[tuple[float, CheckedUnit, StoredScore]]:
    """Return of each check the worst value, the first of equal ones; refuse to decide where the instrument failed.

    Turns that a metric is not applicable to are left out, unless it is to none.
    """
    reasons: dict[str, str] = {}
    messages: list[str] = []
    found: list[tuple[float, CheckedUnit, StoredScore]] = []
    for each, lines in zip(checks, scores, strict=True):
        given = [(score.values[each.metric.key], subject, score) for subject, score in lines]
        values = [(value, subject, score) for value, subject, score in given if isinstance(value, float)]
        lost = [value for value, _, _ in given if isinstance(value, Unscored)]
        if values and not lost:
            found.append((min if each.metric.higher_is_better else max)(values, key=itemgetter(0)))
            continue
        value = lost[0] if lost else given[0][0]
        reasons[each.key] = str(value.reason) if isinstance(value, Unscored) else "not_applicable"
        message = getattr(value, "message", "")
        messages.append(f"{each.key}: {reasons[each.key]}{f' ({message})' if message else ''}")
    if reasons:
        raise NotMeasured(f"The answer could not be measured. {'; '.join(messages)}", reasons=reasons)
    return found


def _row(texts: AnswerTexts) -> Row:
    return Row(
        "answer",
        "answer",
        question=texts.question,
        expected_answers=texts.expected,
        retrieved_context=tuple(ContextChunk(text) for text in texts.context),
        actual_answer=texts.answer,
        condition=texts.condition,
    )


def _several(name: str, texts: str | Sequence[str] | None) -> tuple[str, ...]:
    if texts is None:
        return ()
    found = (texts,) if isinstance(texts, str) else tuple(texts) if isinstance(texts, Iterable) else (texts,)
    for each in found:
        _require_text(name, each)
    return found


def _require_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise UsageError(
            f"{name} is a {type(value).__name__}, not a text.",
            hint=f"Give {name}=str(…) to check.",
            code=ErrorCode.CONFIG_OPTION,
        )


@cache
def _session() -> str:
    """Return the name under which this process puts its judge calls on record."""
    return f"check-{secrets.token_hex(4)}"
