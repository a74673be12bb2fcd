"""Insights: which model to choose, what it costs, and what the cases and checks reveal; at most a dozen.

Those on cases and checks are here: which cases say too much or too little, which checks contradict each other.
``docs/mechanisms/problems-and-insights.md`` lists all kinds with their triggers and attributes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from leadline.evaluators.data import RowField
from leadline.evaluators.ground import count, listing, nouns, number, percent, quoted
from leadline.tasks.analyse.findings import comparisons, model_choice
from leadline.tasks.analyse.findings.finding import Finding, RunView, lines, merge
from leadline.tasks.analyse.findings.severity import misses
from leadline.tasks.analyse.findings.slice_problems import (
    Group,
    against,
    found_slices,
    grouped,
    others_in_words,
    slice_attrs,
    worst_rows,
)
from leadline.tasks.analyse.slices import PERTURBATION, RETRIEVAL, slice_in_words
from leadline.tasks.db import records, replace_lines, show_row_scores, show_turn_means, sql
from leadline.tasks.policy.policy import Policy, ProblemStyle, Role

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def hardest_cases(view: RunView) -> Iterator[Finding]:
    """Yield, for each evaluator, the test case that most models fail on its primary metric."""
    metrics = [metric["metric_id"] for id_ in view.evaluators if (metric := view.primary(id_))]
    for line in records(view.connection, sql("insights/hardest"), [metrics]):
        metric = view.metrics[line["metric_id"]]
        evaluator_id = metric["evaluator_id"]
        question = quoted(line["question"]) if line["question"] else f"case {quoted(line['case_key'])}"
        alike = f" {count(line['n_alike'] - 1, 'other case')} did as badly." if line["n_alike"] > 1 else ""
        yield view.finding(
            type="weak-point",
            description=f"The most difficult test case for {view.evaluator_name(evaluator_id)}: {question}. "
            f"{line['n_failed']} of {count(line['n_models'], 'model')} failed it.{alike}",
            actions="Read what the models answered: the question may be unclear, or lie outside of what they know.",
            row_ids=line["row_ids"],
            metric=metric,
            n_failed=line["n_failed"],
            n_models=line["n_models"],
            n_alike=line["n_alike"],
        )


def least_grounded_sentences(view: RunView) -> Iterator[Finding]:
    """Yield, for each model whose groundedness misses its threshold, the sentence with the least support."""
    for line in records(view.connection, sql("insights/least_grounded")):
        metric = view.primary(line["evaluator_id"])
        aggregate = view.aggregates.get((metric["metric_id"], line["model_id"])) if metric else None
        if metric and aggregate and misses(metric, aggregate):
            yield _least_grounded(view, metric, line, "The least grounded sentence of")


MOST_CASES: Final = 200
"""Cases that every model fails, and questions asked several times, that are looked at one by one."""
NAMED: Final = 3
"""Questions that an insight names."""
ALIKE: Final = 85.0
"""Likeness of two answers, in percent of RapidFuzz's token set ratio, from which models give the same answer."""
MOST_SLICES: Final = 2
LEAST_ROWS: Final = 20
"""Rows judged by two checks from which their verdicts are compared."""
MOST_ROWS_COMPARED: Final = 20_000
MOST_CHECKS: Final = 12
LOW_KAPPA: Final = 0.4
"""Agreement of two checks beyond chance (Cohen's kappa) below which it is called poor (Landis and Koch, 1977)."""
NOTABLE_DISAGREEMENT: Final = 0.1
"""Share of rows with opposite verdicts from which it is worth a sentence."""
EASY: Final = 0.2
"""Share of cases that every model answers soundly from which it is worth a sentence."""


def surprising_slices(view: RunView) -> Iterator[Finding]:
    """Yield slices that stand out and are no problem: surely better ones, and those by retrieval and perturbation.

    One per column is enough, since where one value is worse, the others are better; the worse one if there is any. That
    all other rows of a slice with a problem are better would say the same twice.
    """
    found = found_slices(view)
    worse = [line for line in found if line["worse"]]
    lines = [
        line
        for line in found
        if line["slice_column"] in (PERTURBATION, RETRIEVAL)
        or not (line["worse"] or any(_complement(line, other) for other in worse))
    ]
    by_column: dict[str, Group] = {}
    for group in grouped(view, sorted(lines, key=lambda line: not line["worse"])):
        by_column.setdefault(group.first["slice_column"], group)
    for group in list(by_column.values())[:MOST_SLICES]:
        line = group.first
        who = "All models together do" if line["model_id"] is None else f"{view.model_name(line['model_id'])} does"
        how = "worse" if line["worse"] else "better"
        where = slice_in_words(line["slice_column"], line["slice_value"])
        metric = view.metrics[line["metric_id"]]
        yield view.finding(
            type="slice",
            harm=1.0 + line["n_scored"] / max(1, len(view.models)) / 1e6,
            description=" ".join(
                [
                    f"{who} {how} on {where}: {against(view, line)}.",
                    *others_in_words(view, group),
                ]
            ),
            actions=_slice_advice(line),
            row_ids=worst_rows(view, line, best=not line["worse"])[:50],
            metric=metric,
            model_id=line["model_id"],
            **slice_attrs(view, group),
        )


def _complement(line: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether a slice has all rows that another one of its column lacks."""
    same = all(line[name] == other[name] for name in ("slice_column", "metric_id", "model_id"))
    return same and math.isclose(line["rest_value"], other["value"], rel_tol=1e-9, abs_tol=1e-12)


def _slice_advice(line: Mapping[str, Any]) -> str:
    if line["slice_column"] == RETRIEVAL:
        return "Improve the retrieval first: the answers follow it."
    if not line["worse"]:
        return "Look at what these answers have that the others lack; a mean over all hides the difference."
    return "Make the system robust to such input, or turn it back before it is asked."


def cases_failed_by_all(view: RunView) -> Iterator[Finding]:
    """Yield the cases on which every model fails the same check; where answers agree the reference may be wrong."""
    lines = records(view.connection, sql("insights/failed_by_all"), {"most": MOST_CASES})
    if not lines:
        return
    suspects = [line for line in lines if line["expected_answers"] and _agree(line["answers"])]
    named = suspects or lines
    cases = count(len(lines), "case")
    text = f"Every model fails the same check on {cases if len(lines) < MOST_CASES else f'at least {cases}'}"
    text += f", such as {listing(map(_name, named[:NAMED]))}."
    if suspects:
        many = f"On {'one' if len(suspects) == 1 else f'{len(suspects):,}'} of them" if len(lines) > 1 else "On it"
        text += f" {many} the models give nearly the same answer, and it is not the expected one."
    yield view.finding(
        type="weak-point",
        harm=2.0 if suspects else 1.2,
        description=text,
        actions="Check the expected answers of these cases first: where models agree with each other, the reference "
        "may be wrong or incomplete."
        if suspects
        else "Read them: the question may be unclear, the reference wrong, or what it asks missing from the documents.",
        row_ids=[line["row_ids"][0] for line in [*suspects, *(each for each in lines if each not in suspects)]],
        n_cases=len(lines),
        n_suspects=len(suspects),
        metric_ids=_metric_keys(view, named),
        model_names=[],
    )


def _name(line: Mapping[str, Any]) -> str:
    return quoted(line["question"], most=90) if line["question"] else f"case {quoted(line['case_key'], most=60)}"


def _metric_keys(view: RunView, lines: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(view.metrics[metric_id]["metric"] for line in lines for metric_id in line["metric_ids"]))


def _agree(answers: Sequence[str | None]) -> bool:
    """Return whether all answers say nearly the same words, and more than a refusal's few."""
    from rapidfuzz.fuzz import token_set_ratio  # few runs have cases that every model fails

    texts = [" ".join(re.findall(r"\w+", (answer or "").casefold())) for answer in answers]
    return all(texts) and all(token_set_ratio(a, b) >= ALIKE for a, b in combinations(texts[:6], 2))


def cases_passed_by_all(view: RunView) -> Iterator[Finding]:
    """Yield how many cases every model passes on every check: they tell models apart no more."""
    (line,) = records(view.connection, sql("insights/passed_by_all"))
    if not line["n_cases"] or line["n_easy"] < EASY * line["n_cases"]:
        return
    yield view.finding(
        type="easy-cases",
        harm=0.5 * line["n_easy"] / line["n_cases"],
        description=f"{line['n_easy']:,} of {count(line['n_cases'], 'case')} "
        f"({percent(line['n_easy'] / line['n_cases'])}) are passed by every model on every check of the policy: they "
        "guard against a relapse, but say nothing on which model is better.",
        actions="Add harder cases, such as variants of those that some model fails.",
        row_ids=line["row_ids"],
        n_easy=line["n_easy"],
        n_cases=line["n_cases"],
    )


def failing_turns(view: RunView) -> Iterator[Finding]:
    """Yield, where conversations have several turns, from which turn on they fail a check of the policy."""
    metrics = [
        metric["metric_id"]
        for id_ in view.evaluators
        if (metric := view.primary(id_)) and view.role(metric["metric_id"]) != Role.INFORMATION
    ]
    names = {"metrics": metrics, "most": MOST_TURN_INSIGHTS}
    for line in records(view.connection, sql("insights/failing_turns"), names):
        metric, share = view.metrics[line["metric_id"]], line["n_failed"] / line["n_conversations"]
        one = line["n_failed"] == 1
        where = f"at turn {line['turn']}" if one else f"in half of them at turn {line['turn']} or before"
        ends = nouns(line["n_to_end"], "fails", "fail")
        lasting = f"; {line['n_to_end']:,} of them {ends} from there to the end" if line["n_to_end"] and not one else ""
        yield view.finding(
            type="weak-point",
            harm=share,
            description=f"{view.model_name(line['model_id'])} fails {metric['name']} in {line['n_failed']:,} of "
            f"{count(line['n_conversations'], 'conversation')} of several turns ({percent(share)}), {where}{lasting}.",
            actions="Read these conversations from the turn that is marked: what was said before it is what differs.",
            row_ids=line["row_ids"],
            metric=metric,
            model_id=line["model_id"],
            by_turn=[list(turn) for turn in line["by_turn"]],
        )


def same_questions(view: RunView) -> Iterator[Finding]:
    """Yield questions that several cases ask: with different expected answers, and as plain duplicates."""
    lines = records(view.connection, sql("insights/same_questions"), {"most": MOST_CASES})
    for contradictory, type_, value in ((True, "contradiction", 3.0), (False, "duplicates", 0.1)):
        found = [line for line in lines if line["contradictory"] is contradictory]
        if not found:
            continue
        names = listing((quoted(line["question"], most=90) for line in found[:NAMED]), most=NAMED)
        questions, cases = found[0]["n_questions"], found[0]["n_cases"]
        text = f"{count(questions, 'question')} {nouns(questions, 'stands', 'stand')} in several cases "
        text += (
            f"({cases:,} in all) with different expected answers: {names}. No answer can satisfy all of them."
            if contradictory
            else f"({cases:,} in all) with nothing to tell them apart: {names}. They weigh more than others in means."
        )
        yield view.finding(
            type=type_,
            harm=value,
            fault="data",
            description=text,
            actions="Settle which answer is right, and keep one case of each."
            if contradictory
            else "Keep one case of each, or say in the metadata why they are asked again.",
            row_ids=[row for line in found for row in line["row_ids"]][:MOST_CASES],
            n_questions=questions,
            n_cases=cases,
        )


def disagreeing_checks(view: RunView) -> Iterator[Finding]:
    """Yield the two checks of the same thing whose verdicts on the same answers are most at odds."""
    groups: dict[str, list[int]] = {}
    for metric_id, metric in view.metrics.items():
        kind = _what_it_checks(view, metric["evaluator_id"])
        if kind and view.role(metric_id) is not Role.INFORMATION and metric["threshold"] is not None:
            groups.setdefault(kind, []).append(metric_id)
    found = [pair for metrics in groups.values() if len(metrics) > 1 for pair in _pairs(view, metrics[:MOST_CHECKS])]
    if found:
        yield _disagreement(view, min(found, key=lambda pair: (pair["kappa"], -pair["share"])))


def _what_it_checks(view: RunView, evaluator_id: int) -> str:
    """Return what an evaluator compares the answer with; evaluators of the same should agree."""
    spec = view.spec(evaluator_id)
    inputs = set(view.required(evaluator_id))
    if spec is None or RowField.ACTUAL_ANSWER not in inputs:
        return ""
    if inputs & {RowField.EXPECTED_ANSWER, RowField.CONDITION}:
        return "reference"
    return "context" if RowField.RETRIEVED_CONTEXT in inputs and spec.family != "privacy" else ""


def _pairs(view: RunView, metrics: Sequence[int]) -> list[dict[str, Any]]:
    (n_rows,) = view.connection.execute("SELECT count(*) FROM rows").fetchall()[0]
    statement = sql("insights/verdict_pairs").format(step=max(1, -(-n_rows // MOST_ROWS_COMPARED)))
    out = []
    for pair in records(view.connection, statement, {"metrics": list(metrics)}):
        n = pair["n"]
        share = (pair["n_only_one"] + pair["n_only_other"]) / n
        one, other = pair["n_one"] / n, pair["n_other"] / n
        chance = one * other + (1 - one) * (1 - other)
        kappa = (1 - share - chance) / (1 - chance) if chance < 1 else 1.0
        same = view.metrics[pair["one"]]["evaluator_id"] == view.metrics[pair["other"]]["evaluator_id"]
        if n >= LEAST_ROWS and share >= NOTABLE_DISAGREEMENT and kappa < LOW_KAPPA and not same:
            out.append(pair | {"share": share, "kappa": kappa})
    return out


def _disagreement(view: RunView, pair: Mapping[str, Any]) -> Finding:
    ids = [view.metrics[pair[name]]["evaluator_id"] for name in ("one", "other")]
    one, other = (view.evaluator_name(evaluator_id) for evaluator_id in ids)
    if pair["n_only_other"] > pair["n_only_one"]:
        one, other = other, one
        rows, n_first, n_second = pair["rows_only_other"], pair["n_only_other"], pair["n_only_one"]
    else:
        rows, n_first, n_second = pair["rows_only_one"], pair["n_only_one"], pair["n_only_other"]
    correlation = pair["correlation"]
    linked = "" if correlation is None else f", correlation of the scores {number(round(correlation, 2))}"
    return view.finding(
        type="disagreement",
        harm=0.6 + pair["share"],
        fault="instrument",
        description=f"{one} and {other} contradict each other on {percent(pair['share'])} of "
        f"{count(pair['n'], view.noun)}: {n_first:,} pass only {one}, {n_second:,} only {other}. Beyond chance they "
        f"agree weakly (Cohen's kappa {number(round(pair['kappa'], 2))}{linked}).",
        actions=f"Read some of these {view.noun}s and decide which check to trust; move its threshold, or give the "
        "other one the role information in the policy.",
        row_ids=rows,
        **view.several(ids),
        n_rows=pair["n"],
        share=pair["share"],
        kappa=pair["kappa"],
        correlation=correlation,
    )


def least_grounded_sentence(view: RunView) -> Iterator[Finding]:
    """Yield the sentence of an answer with the least support in its contexts, if it is below the threshold."""
    found = []
    for line in records(view.connection, sql("insights/least_grounded")):
        metric = view.primary(line["evaluator_id"])
        if metric and metric["threshold"] is not None and line["value"] < metric["threshold"]:
            found.append((line["value"], metric, line))
    if found:
        _, metric, line = min(found, key=lambda each: each[0])
        yield _least_grounded(view, metric, line, "The least grounded sentence of all is one of", harm=0.4)


def _least_grounded(
    view: RunView, metric: Mapping[str, Any], line: Mapping[str, Any], begin: str, harm: float = 0.0
) -> Finding:
    closest = f" Closest in the context: {quoted(line['closest'])}." if line["closest"] else ""
    return view.finding(
        type="grounding",
        harm=harm,
        description=f"{begin} {view.model_name(line['model_id'])} ({number(line['value'])}): "
        f"{quoted(line['sentence'], most=300)}.{closest}",
        actions="Check the sentence against the retrieved context; the model may have made it up.",
        row_ids=[line["row_id"]],
        metric=metric,
        model_id=line["model_id"],
        sentence=line["sentence"],
        sentence_value=line["value"],
        closest=line["closest"] or "",
    )


_Source: TypeAlias = Callable[[RunView], Iterator[Finding]]

SOURCES: Final[Mapping[ProblemStyle, tuple[_Source, ...]]] = {
    "seed": (
        comparisons.best_and_worst,
        comparisons.retrieval_comparisons,
        comparisons.usage_comparisons,
        hardest_cases,
        least_grounded_sentences,
    ),
    "grouped": (
        model_choice.recommendation,  # before cases_passed_by_all, which reads the rows that it finds sound
        model_choice.trade_offs,
        comparisons.preferred_model,
        surprising_slices,
        failing_turns,
        same_questions,
        cases_failed_by_all,
        cases_passed_by_all,
        disagreeing_checks,
        least_grounded_sentence,
        model_choice.dearest_and_slowest,
    ),
}
"""What looks for insights, by the style of the policy."""
_COMPARING: Final = frozenset(
    {
        comparisons.best_and_worst,
        comparisons.retrieval_comparisons,
        comparisons.usage_comparisons,
        comparisons.preferred_model,
        model_choice.recommendation,
        model_choice.trade_offs,
        cases_passed_by_all,
    }
)
"""Those of them that a run of one model has nothing for."""
MOST_TURN_INSIGHTS: Final = 3
"""Metrics and models of which is told from which turn on they fail."""
MOST_INSIGHTS: Final = 12
"""Most insights of a run, apart from the seed's style."""


def find_insights(connection: DuckDBPyConnection, policy: Policy) -> int:
    """Fill the table ``insights`` and return their number: the recommendation first, then by value.

    In the seed's style they stand by type, then by evaluator.
    """
    show_row_scores(connection)
    show_turn_means(connection)
    view = RunView(connection, policy)
    sources = [source for source in SOURCES[policy.problems] if len(view.models) > 1 or source not in _COMPARING]
    found = merge(insight for source in sources for insight in source(view))
    if policy.problems == "seed":
        found.sort(key=lambda insight: (insight.type, -1 if insight.evaluator_id is None else insight.evaluator_id))
    else:
        found = sorted(found, key=lambda insight: -insight.harm)[:MOST_INSIGHTS]
    numbered = enumerate(lines(connection, found))
    return replace_lines(connection, "insights", [{"insight_id": number, **columns} for number, columns in numbered])
