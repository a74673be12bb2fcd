"""The summary of a run in sentences: verdict, reason, certainty, worst problems, changes, the model to choose.

The report's first screen, ``report.md``, ``report.json`` and the command line say the same since they all read it here.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from leadline.evaluators.ground import count, listing, nouns, percent, signed_percent
from leadline.tasks.analyse.changes import RowChange
from leadline.tasks.analyse.findings.flip_problems import CHANGED, HOW_TO_MEASURE, UNMEASURED
from leadline.tasks.analyse.findings.model_choice import RECOMMENDATION
from leadline.tasks.db import FlipCause, Problem, sql
from leadline.tasks.policy.questions import Question
from leadline.tasks.publish.facts import Facts, FlipRateLine
from leadline.tasks.runs.run_facts import Answer
from leadline.tasks.runs.run_sentences import coverage_line, gate_reason

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BEYOND = {CHANGED: "more than the judge's noise", UNMEASURED: f"{HOW_TO_MEASURE} does that"}


def flip_sentences(rate: FlipRateLine, cause: FlipCause | None = None) -> Iterator[str]:
    """Yield the sentences about a flip rate: the numbers, and for a metric that asks a judge what they say.

    Args:
        cause: The line of ``flip_causes`` of the same pairs, if there is one.
    """
    flips = rate.n_passed_to_failed + rate.n_failed_to_passed
    numbers = f"{percent(rate.rate)} of {count(rate.n_pairs, 'pair')} flip"
    if not rate.word:
        yield f"{numbers} ({percent(rate.ci_low)} to {percent(rate.ci_high)})."
        return
    if rate.net is None or rate.noise is None:
        yield f"{numbers} · the judge's own noise was not measured: {_BEYOND[UNMEASURED]}."
    else:
        net = _interval(rate.net, rate.net_low, rate.net_high)
        yield f"{numbers} · judge's own noise {percent(rate.noise)} · net {net}."
        if rate.word == CHANGED:
            yield f"{CHANGED.capitalize()}: {_BEYOND[CHANGED]}."
        else:
            yield f"{rate.word.capitalize()}: up to {percent(max(0.0, rate.net_high or 0.0))} could have changed."
    if flips:
        same = f"{flips - rate.n_flips_same_answer:,} of the {flips:,} have another answer"
        if rate.net_same_answer is not None:
            ends = _interval(rate.net_same_answer, rate.net_same_low, rate.net_same_high)
            same += f"; where the answer stayed, net {ends}: what the judge makes of the changed question"
        yield f"{same}."
    if cause is not None and rate.net is not None:
        answer = _interval(cause.answer, cause.answer_low, cause.answer_high)
        judge = _interval(cause.judge, cause.judge_low, cause.judge_high)
        yield (
            f"Of the net {signed_percent(rate.net)}: {answer} since the answer changed, {judge} since the judge reads "
            "the changed question otherwise."
        )


def _interval(value: float, low: float | None, high: float | None) -> str:
    ends = "" if low is None or high is None else f" ({signed_percent(low)} to {percent(max(0.0, high))})"
    return f"{signed_percent(value)}{ends}"


WORST: Final = 3
MOST_NAME: Final = 80
"""Characters of a model's name that stand in the summary."""
MOST_CASES: Final = 5
"""Changed cases that the summary names."""
MOST_WARNINGS: Final = 3
"""Warnings on the dataset that the summary repeats."""
MOST_TEXT: Final = 320
"""Characters of a question or an answer that stand in the summary."""

_VERDICTS: Final = {
    "pass": "The run passes its gate.",
    "fail": "The run fails its gate.",
    "inconclusive": "Whether the run passes its gate cannot be told.",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a text; ``marked`` if a check failed because of it."""

    text: str
    marked: bool = False


@dataclass(frozen=True, slots=True)
class SummaryExample:
    """The answer that shows a problem best.

    Attributes:
        expected: The expected answer, with what is missing marked; empty for problems that it has no part in.
        answer: The answer around what is wrong with it, in pieces; empty where there is none.
        reason: What the evaluator says about it, or "".
    """

    case: str
    model: str
    question: str
    expected: tuple[Piece, ...]
    answer: tuple[Piece, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class WorstProblem:
    """One of the worst problems, with an example where it names answers."""

    severity: str
    fault: str
    model: str
    description: str
    actions: str
    n_rows: int
    example: SummaryExample | None

    @property
    def headline(self) -> str:
        """The first sentence of the description."""
        return self.description.split(". ")[0].rstrip(".…")


@dataclass(frozen=True, slots=True)
class Summary:
    """Sentences and examples that a reader must see first.

    Attributes:
        verdict: The gate's verdict and the models with problems of high severity, in sentences.
        questions: What the run answers to each question that a person asks.
        why: The gate's reason, "" where the questions say it.
        policy: The policy that judged, or "".
        sure: Sentences on coverage and intervals, and warnings on the dataset.
        changes: What changed since the baseline in a sentence, or "" where nothing was to be compared.
        broken: Keys of the first cases that passed in the baseline and now fail.
        fixed: Keys of the first cases that failed in the baseline and now pass.
        worst: The worst problems of models; without any those of the instrument or the data.
        recommendation: Which model to choose, or "".
    """

    verdict: str
    questions: tuple[Answer, ...]
    why: str
    policy: str
    sure: tuple[str, ...]
    changes: str
    broken: tuple[str, ...]
    fixed: tuple[str, ...]
    worst: tuple[WorstProblem, ...]
    recommendation: str

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON, without answers: they may be the secret that leaked."""
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "questions": [{**asdict(each), "words": each.words, "shown": each.shown} for each in self.questions],
            "worst": [
                {
                    **{name: getattr(problem, name) for name in problem.__dataclass_fields__},
                    "example": problem.example and {"case": problem.example.case, "model": problem.example.model},
                }
                for problem in self.worst
            ],
        }


def summarize(connection: DuckDBPyConnection, facts: Facts) -> Summary:
    """Put a run into sentences."""
    changed = facts.changes.models if facts.changes else ()
    recommended = next((item.description for item in facts.insights if item.type == RECOMMENDATION), "")
    return Summary(
        verdict=_verdict(facts),
        questions=facts.questions,
        why=_shortened(gate_reason(facts), 2 * MOST_TEXT),
        policy=_policy(facts),
        sure=(*_sure(facts), *_warnings(facts)),
        changes=_shortened(_sentence(facts.changes.summary), 2 * MOST_TEXT) if facts.changes else "",
        broken=_cases(row for model in changed for row in model.broken),
        fixed=_cases(row for model in changed for row in model.fixed),
        worst=_worst(connection, facts),
        recommendation=_shortened(recommended, 2 * MOST_TEXT),
    )


def _verdict(facts: Facts) -> str:
    grave = {p.model_id for p in facts.problems if p.severity == "high" and not p.instrument}
    bad = [_shortened(model.label, MOST_NAME) for model in facts.models if model.id in grave]
    good = [_shortened(model.label, MOST_NAME) for model in facts.models if model.id not in grave]
    sentence = _VERDICTS[facts.gate]
    if bad and not good and len(bad) > 1:
        return f"{sentence} Each of its {len(bad)} models has problems of high severity."
    if bad and good:
        have = nouns(len(bad), "has", "have")
        return f"{sentence} {listing(bad, most=4)} {have} problems of high severity, {listing(good, most=4)} none."
    return sentence


def _policy(facts: Facts) -> str:
    policy = facts.record.get("policy")
    if not isinstance(policy, dict) or not policy.get("name"):
        return ""
    return f"Judged by the policy {policy['name']}."


def _sure(facts: Facts) -> Iterator[str]:
    if facts.coverage is None:
        yield coverage_line(facts)
        return
    if facts.stopping:
        yield facts.stopping
    yield coverage_line(facts)
    asked = [(metric, item) for (id_, _), item in facts.aggregates.items() if (metric := facts.metric(id_))]
    by_judge = [(metric, item) for metric, item in asked if metric.id not in facts.decided_by_people]
    should = [item for metric, item in by_judge if metric.primary and metric.role == "should" and item.verdict]
    yield from _how_clear("with a threshold", "it", "answers", [item.verdict for item in should])
    by_people = [
        key
        for key in facts.aggregates
        if key[0] in facts.decided_by_people and (metric := facts.metric(key[0])) and metric.primary
    ]
    verdicts = [found.verdict if (found := facts.corrections.get(key)) else None for key in by_people]
    yield from _how_clear("corrected by people's labels", "what is asked for", "labels", verdicts)
    widths = [
        (high - low) / 2 for item in should if (low := item.ci_low) is not None and (high := item.ci_high) is not None
    ]
    if widths and (width := statistics.median(widths)) < 1:
        yield f"A typical mean is known to within ±{width:.2g} (95 % interval)."
    spotless = [
        1 - item.pass_low
        for metric, item in asked
        if metric.primary and metric.role == "must" and item.n_pass == item.n_scored and item.pass_low is not None
    ]
    if spotless:
        rate = percent(statistics.median(spotless))
        yield f"Where no answer fails a check, up to {rate} of other answers may still fail it."


def _how_clear(which: str, limit: str, few: str, verdicts: Sequence[str | None]) -> Iterator[str]:
    """Yield how many means are surely on one side of what is asked for.

    Args:
        which: Tells these means from others.
        limit: The place of which they are on one side.
        few: More of these would tell.
        verdicts: The verdict of each; ``None`` where nothing could be told.
    """
    if len(verdicts) == 1:
        [verdict] = verdicts
        clear = {"pass": f"surely satisfies {limit}", "fail": f"surely misses {limit}"}
        yield f"The mean {which} {clear.get(str(verdict), f'cannot be told from {limit} with so few {few}')}."
    elif verdicts:
        good, bad = verdicts.count("pass"), verdicts.count("fail")
        open_ = len(verdicts) - good - bad
        yield (
            f"Of {len(verdicts):,} means {which}, {good:,} surely {nouns(good, 'satisfies', 'satisfy')} {limit} and "
            f"{bad:,} surely {nouns(bad, 'misses', 'miss')} it"
            + (f"; {open_:,} cannot be told with so few {few}." if open_ else ".")
        )


def _warnings(facts: Facts) -> Iterator[str]:
    """Yield what reading the dataset warned of: a column that was not used leaves checks out."""
    warnings = facts.record.get("dataset_warnings")
    found = [str(warning) for warning in warnings] if isinstance(warnings, list) else []
    for warning in found[:MOST_WARNINGS]:
        yield _sentence(_shortened(warning))
    if len(found) > MOST_WARNINGS:
        yield f"{count(len(found) - MOST_WARNINGS, 'further warning')} on the dataset: see Instrument."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")


def _cases(rows: Iterable[RowChange]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.case for row in rows))[:MOST_CASES]


def _worst(connection: DuckDBPyConnection, facts: Facts) -> tuple[WorstProblem, ...]:
    ranked = [p for p in facts.problems if not p.instrument] or list(facts.problems)
    worst = ranked[:WORST]
    examples = _examples(connection, facts, worst)
    return tuple(
        WorstProblem(
            severity=problem.severity,
            fault=problem.fault,
            model=_shortened(model.label, MOST_NAME) if (model := facts.model(problem.model_id)) else "",
            description=_sentences(problem.description),
            actions=_sentences(problem.actions),
            n_rows=len(problem.row_ids),
            example=examples.get(position),
        )
        for position, problem in enumerate(worst)
    )


def _examples(connection: DuckDBPyConnection, facts: Facts, problems: Sequence[Problem]) -> dict[int, SummaryExample]:
    """Return the example of each problem that names rows, by the problem's position."""
    wanted = [(position, p, p.row_ids[0]) for position, p in enumerate(problems) if p.row_ids]
    row_ids = [row_id for _, _, row_id in wanted]
    texts = {line[0]: line for line in connection.execute(sql("publish/summary_rows"), [row_ids]).fetchall()}
    evidence = connection.execute(sql("publish/summary_evidence"), [row_ids]).fetchall()
    found = {}
    for position, problem, row_id in wanted:
        if row_id not in texts:
            continue
        _, case, model_id, question, answer, expected = texts[row_id]
        pointing = [
            (evaluator, _object(text))
            for row, evaluator, text, failed in evidence
            if row == row_id and (failed if problem.evaluator_id is None else evaluator == problem.evaluator_id)
        ]
        said = next((e for e in pointing if e[1].get("message")), None)
        marks = next((spans for item in pointing if (spans := _offending(facts, *item))), [])
        missing = next((lacking for _, item in pointing if (lacking := _spans(item, "expected_answer"))), [])
        nearest = missing[0].get("index", 0) if missing else 0
        model = facts.model(model_id)
        found[position] = SummaryExample(
            case=case,
            model=_shortened(model.label, MOST_NAME) if model else "",
            question=_shortened(question or ""),
            expected=_pieces(expected[nearest], [(span["start"], span["end"]) for span in missing])
            if problem.question == Question.RIGHT and nearest < len(expected or ())
            else (),
            answer=_pieces(answer or "", marks),
            reason=_shortened(str(said[1]["message"])) if said else "",
        )
    return found


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _offending(facts: Facts, evaluator_id: int, evidence: dict[str, Any]) -> list[tuple[int, int]]:
    """Return the stretches of the answer that an evaluator objects to: without a value, or with one that fails."""
    evaluator = facts.evaluator(evaluator_id)
    metric = evaluator.primary if evaluator else None
    return sorted(
        (span["start"], span["end"])
        for span in _spans(evidence, "actual_answer")
        if metric is None or not isinstance(value := span.get("value"), int | float) or not metric.passes(value)
    )


def _spans(evidence: dict[str, Any], source: str) -> list[dict[str, Any]]:
    """Return the stretches of a text that evidence points at, without those that are no stretches."""
    spans = evidence.get("spans")
    return [
        span
        for span in (spans if isinstance(spans, list) else ())
        if isinstance(span, dict) and span.get("source") == source
        if type(start := span.get("start")) is int and type(end := span.get("end")) is int and 0 <= start < end
    ]


def _pieces(text: str, spans: Sequence[tuple[int, int]]) -> tuple[Piece, ...]:
    """Cut a text into marked and other pieces, at most :data:`MOST_TEXT` characters around the first mark."""
    first = spans[0][0] if spans else 0
    start = 0 if len(text) <= MOST_TEXT else max(0, min(first - MOST_TEXT // 3, len(text) - MOST_TEXT))
    end = min(len(text), start + MOST_TEXT)
    pieces = [Piece("…")] if start else []
    at = start
    for left, right in spans:
        left, right = max(left, at), min(right, end)
        if left >= right:
            continue
        pieces += [Piece(text[at:left])] if left > at else []
        pieces.append(Piece(text[left:right], marked=True))
        at = right
    rest = text[at:end] + ("…" if end < len(text) else "")
    return (*pieces, Piece(rest)) if rest else tuple(pieces)


def _shortened(text: str, most: int = MOST_TEXT) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _sentences(text: str) -> str:
    """Return the first sentences of a text, as many as fit; the beginning of the first if even that is too long."""
    if len(text) <= MOST_TEXT:
        return text
    end = text.rfind(". ", 0, MOST_TEXT)
    return text[: end + 1] if end > 0 else _shortened(text)
