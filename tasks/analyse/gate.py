"""The gate: whether a run passes, by what it answers to the questions that its policy asks.

Each question passes, fails, or cannot be told; doubts keep it from being told: the instrument, too few rows, or what
labels leave open.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from leadline.evaluators.ground import count, listing, nouns, number, percent
from leadline.tasks.analyse.answer_shares import LEAST_CASES
from leadline.tasks.analyse.findings.finding import row_noun
from leadline.tasks.db import records, replace_lines, sql
from leadline.tasks.policy.policy import Policy
from leadline.tasks.policy.questions import DECIDED_BY_ROWS, OF_AGENTS, Question
from leadline.tasks.runs.run_facts import Answer, failing_severities
from leadline.tasks.statistics.label_correction import in_words, more_for_value
from leadline.tasks.statistics.statistics import FEW_SEEN, TRUSTING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The gate's decision, its reason in one sentence, and what the run answers to each question."""

    gate: Outcome
    reason: str
    answers: tuple[Answer, ...] = ()


def decide(
    connection: DuckDBPyConnection,
    policy: Policy,
    *,
    fail_on: str = "never",
    min_coverage: float | None = None,
    chosen: bool = False,
    run: str = "latest",
) -> Decision:
    """Decide whether a run passes.

    It fails if a question does: if a model has a problem at least as severe as ``fail_on`` that bears on it; problems
    of the instrument or of the data never make it fail. Else it is inconclusive if a question that is asked was not
    looked at or cannot be told. Else it passes. ``never`` decides as ``high`` does, since a report must not present a
    bad run as good; it only keeps the command's exit code at 0. A policy with the problems of H2O Sonar asks no
    questions: all problems count, and enough of everything must have been measured.

    Args:
        fail_on: ``high``, ``medium`` or ``never``.
        min_coverage: Least share of applicable rows that must be scored, per evaluator and model; the policy's for
            each metric if it is not given.
        chosen: Whether somebody chose the evaluators.
        run: The run's id, for the commands that would decide a question.
    """
    severities = failing_severities(str(fail_on))
    if policy.problems == "seed":
        return _by_all_problems(connection, policy, severities, min_coverage, run)
    answers = answer_questions(connection, policy, severities, min_coverage=min_coverage, chosen=chosen, run=run)
    outcome, reason = _decided(connection, answers, only=policy.only)
    return Decision(outcome, reason, tuple(answers))


def _decided(connection: DuckDBPyConnection, answers: Sequence[Answer], *, only: bool) -> tuple[Outcome, str]:
    failed = [answer for answer in answers if answer.outcome == "fail" and (answer.asked or not only)]
    if failed:
        return "fail", _because(failed)
    if not _scored(connection):
        return "inconclusive", "Nothing was scored."
    asked = [answer for answer in answers if answer.asked]
    if not asked:
        return "inconclusive", (
            "Scores only: what was measured has no threshold to be held against; give one with "
            "--param EVALUATOR.metric_threshold=NUMBER."
        )
    if open_ := [answer for answer in asked if answer.outcome != "pass"]:
        return "inconclusive", _because(open_)
    return "pass", _because(asked)


def _because(answers: Sequence[Answer]) -> str:
    return " ".join(f"{answer.question.capitalize()}: {answer.reason}" for answer in answers)


def _scored(connection: DuckDBPyConnection) -> bool:
    return bool(connection.execute("SELECT coalesce(sum(n_scored), 0) FROM aggregates").fetchall()[0][0])


def _by_all_problems(
    connection: DuckDBPyConnection, policy: Policy, severities: Sequence[str], min_coverage: float | None, run: str
) -> Decision:
    failing = records(
        connection,
        "SELECT description FROM problems WHERE NOT instrument AND list_contains(?, severity) ORDER BY problem_id",
        [list(severities)],
    )
    if failing:
        first = failing[0]["description"].split(". ")[0].rstrip(".")
        wanted = f"{severities[-1]} severity{' or worse' if len(severities) > 1 else ''}"
        return Decision("fail", f"{count(len(failing), 'problem')} of {wanted}, the first: {first}.")
    if not _scored(connection):
        return Decision("inconclusive", "Nothing was scored.")
    if doubt := next(doubts(connection, policy, min_coverage=min_coverage, run=run), ""):
        return Decision("inconclusive", doubt)
    return Decision("pass", f"No model has a problem of {severities[-1]} severity, and enough was scored.")


_GOOD: Final[Mapping[Question, str]] = {
    Question.RIGHT: "right",
    Question.GROUNDED: "supported by what was retrieved",
}
_NOTHING: Final[Mapping[Question, str]] = {
    Question.SAFE: "Nothing looked for leaks or unsafe answers",
    Question.RIGHT: "Nothing says whether the answers are right",
    Question.GROUNDED: "Nothing compared the answers with what was retrieved",
    Question.GOAL: "Nothing looked at goals and at the tools that were called",
    Question.FORM: "No form was asked for",
    Question.FAST: "No limit on time or cost was set",
}
_REMEDIES: Final[Mapping[Question, str]] = {
    Question.SAFE: "--suite privacy, and --suite safety with a judge",
    Question.RIGHT: "leadline labels sample {run} --question right -n 30, or --judge MODEL",
    Question.GROUNDED: "--judge MODEL, or weights (leadline evaluators models)",
    Question.GOAL: "expected_tool_calls in the dataset and -e tool_call_f1, or --judge MODEL -e goal_accuracy",
    Question.FORM: "-e json_schema, -e format or -e regex with what is asked for",
    Question.FAST: "--param latency.metric_threshold=SECONDS -e latency",
}
_NEEDS_CONTEXT: Final = "a column retrieved_context in the dataset"
_LACKS_CONTEXT: Final = "No answer has a retrieved context"
_LACKS_REFERENCE: Final = "no expected answers, conditions or labels"


def answer_questions(
    connection: DuckDBPyConnection,
    policy: Policy,
    severities: Sequence[str],
    *,
    min_coverage: float | None = None,
    chosen: bool = False,
    run: str = "latest",
) -> list[Answer]:
    """Answer the questions that a run can be asked, fill the table ``verdicts``, and return the answers in their order.

    Args:
        severities: Severities of models' problems that fail a question.
        min_coverage: Least share of applicable rows that must be scored; ``None`` for the policy's.
        chosen: Whether somebody chose the evaluators, so that only what these measure can be asked.
        run: The run's id, for the commands that would decide a question.
    """
    facts = _Facts.of(connection, severities)
    asked = _asked(facts, policy, chosen=chosen)
    answers = []
    for question in Question:
        outcome, reason, remedy = _answer(connection, facts, policy, question, min_coverage, run)
        if question in OF_AGENTS and question not in asked and outcome == "not looked at":
            continue
        answers.append(Answer(question, question in asked, outcome, reason, remedy))
    replace_lines(connection, "verdicts", [asdict(answer) for answer in answers])
    return answers


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts about a run's questions.

    Attributes:
        failing: The problems that fail a question, worst first.
        shares: Lines of ``answer_shares`` by question.
        measured: By question, whether some metric that can block measured it, may show that answers are good, and was
            named.
        noun: What a row of the run is called.
    """

    failing: Mapping[str, list[Mapping[str, Any]]]
    shares: Mapping[str, list[Mapping[str, Any]]]
    measured: Mapping[str, Mapping[str, Any]]
    noun: str

    @classmethod
    def of(cls, connection: DuckDBPyConnection, severities: Sequence[str]) -> _Facts:
        problems = records(connection, sql("verdict/failing"), [list(severities)])
        shares = records(
            connection, "SELECT * FROM answer_shares JOIN models USING (model_id) ORDER BY ci_low, model_id"
        )
        measured = records(connection, sql("verdict/measured"), {"by_rows": list(DECIDED_BY_ROWS)})
        return cls(
            {question: [line for line in problems if line["question"] == question] for question in Question},
            {question: [line for line in shares if line["question"] == question] for question in Question},
            {line["question"]: line for line in measured},
            row_noun(connection),
        )

    def answerable(self, question: Question) -> bool:
        """Return whether something in the dataset, or a metric, could answer a question."""
        found = self.measured.get(question)
        return bool(self.shares[question]) or bool(found and found["provable"])

    def said(self, question: Question, what: str) -> bool:
        """Return whether some metric of a question is what :attr:`measured` says."""
        found = self.measured.get(question)
        return bool(found and found[what])


def _asked(facts: _Facts, policy: Policy, *, chosen: bool) -> set[Question]:
    """Return the questions that must be decided."""
    if policy.only:
        return set(policy.asks)
    if chosen:
        named = {question for question in Question if facts.said(question, "named")}
        covered = {question for question in policy.asks if facts.said(question, "measured")}
        return (named | covered) or {question for question in Question if facts.said(question, "measured")}
    asked = {question for question in policy.asks if question is Question.SAFE or facts.answerable(question)}
    instead = Question.RIGHT in policy.asks and Question.RIGHT not in asked and facts.shares[Question.GROUNDED]
    return asked | {Question.GROUNDED} if instead else asked


def _answer(
    connection: DuckDBPyConnection,
    facts: _Facts,
    policy: Policy,
    question: Question,
    min_coverage: float | None,
    run: str,
) -> tuple[Outcome | Literal["not looked at"], str, str]:
    """Return the outcome of a question, its reason, and what would decide it."""
    if failing := facts.failing[question]:
        return "fail", _headline(failing), ""
    remedy = _REMEDIES[question].format(run=run)
    if question is Question.GROUNDED and not facts.shares[question]:
        remedy = _NEEDS_CONTEXT
    labelled = any(line["n_labels"] for line in facts.shares[question])
    if not facts.said(question, "measured") and not labelled:
        return "not looked at", _unlooked(facts, question), remedy
    doubt = "" if labelled else next(doubts(connection, policy, question, min_coverage, run), "")
    doubt = doubt or _undecided(facts, question)
    if doubt:
        return "inconclusive", doubt, remedy if question in DECIDED_BY_ROWS else ""
    return "pass", _passing(connection, facts, question), ""


def _headline(failing: list[Mapping[str, Any]]) -> str:
    first = str(failing[0]["description"]).split(". ")[0].rstrip(".")
    more = f" ({count(len(failing) - 1, 'more problem')})" if len(failing) > 1 else ""
    return f"{first}{more}."


def _unlooked(facts: _Facts, question: Question) -> str:
    if question is Question.GROUNDED and not facts.shares[question]:
        return f"{_LACKS_CONTEXT}."
    lacks = question is Question.RIGHT and not facts.shares[question]
    return f"{_NOTHING[question]}{f': {_LACKS_REFERENCE}' if lacks else ''}."


def _undecided(facts: _Facts, question: Question) -> str:
    """Return why rows do not decide a question that they should, ``""`` if they do or something else does."""
    if question not in DECIDED_BY_ROWS:
        return ""
    shares = facts.shares[question]
    open_ = next((line for line in shares if line["n_decided"] and line["outcome"] != "pass"), None)
    if open_:
        return _open_in_words(open_, _GOOD[question], facts.noun, several=len(shares) > 1)
    if any(line["n_decided"] for line in shares) or facts.said(question, "provable"):
        return ""
    return f"What was looked at can show answers that are off, never that they are {_GOOD[question]}."


def _open_in_words(line: Mapping[str, Any], good: str, noun: str, *, several: bool) -> str:
    if line["n_labels"]:
        return f"{_labelled_in_words(line, good)} Label more, or look at what is wrong."
    unknown = line["n_asked"] - line["n_decided"]
    look = "are" if line["exact"] else "look"
    of_model = f" of {line['model_key']}" if several else ""
    said = f"{line['n_good']:,} of {count(line['n_decided'], noun)}{of_model} {look} {good}"
    if unknown:
        said += f", and nothing here can decide {count(unknown, 'other')}"
    interval = f"{percent(line['ci_low'])} to {percent(line['ci_high'])}"
    said += f": {interval} of them may be, {percent(line['wanted'])} should surely be."
    few = line["n_cases"] < LEAST_CASES
    return f"{said} From {count(line['n_cases'], 'distinct case')} no share can be told." if few else said


def _labelled_in_words(line: Mapping[str, Any], good: str) -> str:
    return (
        f"People call {line['n_good']:,} of {count(line['n_labels'], 'answer')} of {line['model_key']} {good}: "
        f"{percent(line['value'])} of all are ({percent(line['ci_low'])} to {percent(line['ci_high'])}); "
        f"{percent(line['wanted'])} should be."
    )


def _passing(connection: DuckDBPyConnection, facts: _Facts, question: Question) -> str:
    decided = [line for line in facts.shares[question] if line["n_decided"]]
    if decided:
        worst = decided[0]
        if worst["n_labels"]:
            return _labelled_in_words(worst, _GOOD[question])
        several = f" of {worst['model_key']}, the least sure," if len(decided) > 1 else ""
        look = nouns(worst["n_good"], "is", "are") if worst["exact"] else nouns(worst["n_good"], "looks", "look")
        said = f"{worst['n_good']:,} of {count(worst['n_decided'], facts.noun)}{several} {look} {_GOOD[question]}"
        if worst["n_cases"] < LEAST_CASES:
            return f"{said}; of others so few say nothing."
        return (
            f"{said}: {percent(worst['ci_low'])} to {percent(worst['ci_high'])} of all such {facts.noun}s are, "
            f"{percent(worst['wanted'])} should be."
        )
    lines = records(connection, sql("verdict/passing"), {"question": question})
    if lines and lines[0]["role"] == "should":
        first = lines[0]
        said = f"{first['name']} of {first['model_key']} is {number(first['value'])}"
        return f"{said}; {number(first['threshold'])} is asked for."
    rows = sum(
        max(each["n_scored"] for each in lines if each["model_key"] == key)
        for key in {line["model_key"] for line in lines}
    )
    names = listing(dict.fromkeys(line["evaluator"] for line in lines), most=4)
    found = "Nothing bad was found" if question is Question.SAFE else "What must hold does"
    unlooked = _unlooked_for(connection, facts.noun) if question is Question.SAFE else ""
    return f"{found} in {count(rows, facts.noun)}, by {names}.{unlooked}"


def _unlooked_for(connection: DuckDBPyConnection, noun: str) -> str:
    """Return what the search for personal data leaves out, and what it found and set aside."""
    line = records(connection, sql("verdict/unlooked"))[0]
    names = " Names and postal addresses were not looked for." if line["without_names"] else ""
    aside = f" Contacts that are public, expected or examples were set aside in {count(line['set_aside'], noun)}."
    return names + (aside if line["set_aside"] else "")


MOST_NAMES: Final = 3
"""Evaluators that a reason names."""


def doubts(
    connection: DuckDBPyConnection,
    policy: Policy,
    question: str | None = None,
    min_coverage: float | None = None,
    run: str = "latest",
) -> Iterator[str]:
    """Yield what keeps a run from being decided, each in a sentence, the gravest first.

    Args:
        question: Only of this question; ``None`` for all that was measured.
        min_coverage: Least share of applicable rows that must be scored, per evaluator and model; the policy's for
            each metric if it is not given.
    """
    asked = {"question": question}
    if crashed := records(connection, sql("gate/crashed"), asked):
        yield f"{count(len(crashed), 'evaluator')} could not run, the first: {crashed[0]['name']}."
    if silent := records(connection, sql("gate/named_without_scores"), asked):
        names = listing((line["evaluator"] for line in silent), most=MOST_NAMES)
        yield f"{names} {'was' if len(silent) == 1 else 'were'} asked for by name and measured nothing."
    if poor := records(connection, sql("gate/poor_coverage"), {"least": min_coverage, **asked}):
        yield (
            f"{poor[0]['name']} could score only {percent(poor[0]['coverage'])} of the rows of model "
            f"{poor[0]['model_key']}; {percent(poor[0]['least'])} were asked for."
        )
    corrected = records(connection, sql("gate/corrected"), asked)
    if open_ := [why for line in corrected if (why := _uncorrected(line, run, certain=policy.certain))]:
        yield f"{open_[0]}{_more(len(open_))}."
    if policy.problems == "grouped":
        unsure = records(connection, sql("gate/unsure"), {"certain": policy.certain, **asked})
        if unsure:
            yield _unsure(unsure, row_noun(connection))
        # Too few rows to tell of a slice that the policy names, or no such column.
        yield from (line["description"] for line in records(connection, sql("gate/open_slices"), asked))


def _more(n: int) -> str:
    return f" ({count(n - 1, 'more such metric')})" if n > 1 else ""


def _unsure(unsure: list[dict[str, Any]], noun: str) -> str:
    first, more = unsure[0], _more(len(unsure))
    rows, share = count(first["n_scored"], noun), first["pass_share"]
    if first["role"] == "must" and first["surely"]:
        failed = first["n_scored"] - first["n_pass"]
        return (
            f"{failed:,} of {rows} of model {first['model_key']} may fail {first['name']}, whose own errors could "
            f"explain that{more}: look at the {noun}s that its problem names."
        )
    if first["role"] == "should" and not first["is_share"] and share is not None and share < first["min_pass_share"]:
        return (
            f"{percent(share)} of the {noun}s of model {first['model_key']} satisfy {first['name']}, "
            f"{percent(first['min_pass_share'])} should, which {rows} cannot decide{more}."
        )
    few = f": {FEW_SEEN}" if first["verdict"] == "inconclusive" and first["ci_method"] == TRUSTING else ""
    return (
        f"{first['name']} of model {first['model_key']} is {number(first['value'])} against a threshold of "
        f"{number(first['threshold'])}, which {rows} cannot decide{few}{more}."
    )


def _uncorrected(line: Mapping[str, Any], run: str, *, certain: bool) -> str:
    """Return why a value that people's labels correct decides nothing, ``""`` where it decides."""
    metric = f"{line['evaluator']}.{line['metric']}"
    if line["state"] != "valid":
        rows = count(line["to_judge"], "labelled row")
        have, more = line["n_certified"] or 0, line["more_labels"]
        draw = f"leadline labels sample {run} --metric {metric} --n {have + (more or max(100, have))}"
        certify = f"leadline judges certify {run} --metric {metric}"
        why = _WITHOUT_CERTIFICATE[line["state"]].format(draw=draw, certify=certify, rows=rows, more=in_words(more))
        return f"{line['name']} is decided by people's labels, and {why}"
    metric += f" --model {shlex.quote(line['model_key'])}"
    if line["value"] is None or line["method"] == "rogan-gladen":
        return (
            f"{line['name']} is decided by people's labels, and none is of this run's answers of model "
            f"{line['model_key']}: leadline labels sample {run} --metric {metric}"
        )
    if line["verdict"] == "pass" or (not certain and line["value"] >= line["wanted"]):
        return ""
    have, end = line["n_labels"], line["ci_low"] if line["value"] >= line["wanted"] else line["ci_high"]
    more = more_for_value(have, line["value"], end, line["wanted"])
    if more is None or have + more > line["judged"]:
        do = f"more labels than this run has rows ({line['judged']:,}) would, so run more cases and label those"
    else:
        rows = f"--metric {metric} --n {have + more}"
        do = f"{in_words(more)} would: leadline labels sample {run} {rows}"
    return (
        f"{line['name']} of model {line['model_key']}, corrected by {count(line['n_labels'], 'label')}, is "
        f"{percent(line['value'])} ({percent(line['ci_low'])} to {percent(line['ci_high'])}) against "
        f"{percent(line['wanted'])} asked for, which these labels cannot decide: {do}"
    )


_WITHOUT_CERTIFICATE: Final[Mapping[str, str]] = {
    "none": "there are none: {draw}",
    "few": "there are too few to certify its judge, {more} are wanted: {draw}",
    "not drawn": "those that there are were not drawn at random: {draw}",
    "open": "they cannot tell yet whether its judge tells good from bad, {more} would: {draw}",
    "failed": "its judge hardly tells what they call good from bad: mend the prompt, or take another judge",
    "stale": "its judge's certificate was earned with another prompt or judge: {certify} ({rows} to judge)",
}
"""What there is to say, and to do, by the state of a certificate."""
