"""Problems of the instrument: what could not be measured and why, settings without sense, and judges that changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leadline.evaluators.data import Reason, Severity
from leadline.evaluators.ground import count, listing, number, percent, quoted
from leadline.evaluators.judge_client.reply_parsing import NOT_ASKED
from leadline.tasks.analyse.findings.finding import MOST_ROWS, RETRIEVAL, Finding, RunView
from leadline.tasks.analyse.findings.severity import by_coverage
from leadline.tasks.analyse.pair_records import PositionBias, ShareOfPairs, position_bias, read_pairs
from leadline.tasks.db import records, sql
from leadline.tasks.policy.policy import Role

REACHABLE: Final[Mapping[str, tuple[float, float]]] = {"perplexity": (1.0, float("inf"))}
"""Values that a metric can really take, by key, where its declared range is wider: exp of a mean loss is at least 1."""

_REASONS: Final[Mapping[str, tuple[str, str]]] = {
    Reason.MODEL_UNAVAILABLE: (
        "what it runs on this machine is missing or does not work here",
        "Do what the message above says, or choose another model or --device, and run again: only these rows are "
        "computed.",
    ),
    Reason.TIMEOUT: ("they took too long", "Run again; if it stays so, look at the longest answers."),
    Reason.EVALUATOR_ERROR: (
        "the evaluator failed on them",
        "Report the message above with the row's text to whoever keeps the evaluator.",
    ),
    Reason.UNSCORABLE: ("no score is defined for them", "Read the rows named; their text leaves nothing to measure."),
    Reason.JUDGE_UNAVAILABLE: (
        "the judge did not answer",
        "Check the judge's address, key and limits, then run again.",
    ),
    Reason.JUDGE_REFUSED: (
        "the judge refused the calls, and would again",
        "Check the judge's key, model name and context length, then run again, or choose another judge.",
    ),
    Reason.JUDGE_UNPARSEABLE: (
        "the judge's reply could not be understood",
        "Read the raw replies, then choose a judge that keeps to the format asked for.",
    ),
    Reason.JUDGE_TRUNCATED: (
        "the judge's reply was cut off",
        "Raise the judge's limit of output tokens, then run again.",
    ),
    Reason.BUDGET: ("the budget was spent", "Raise the budget and run again: only these rows are computed."),
    Reason.OUT_OF_MEMORY: ("memory ran out", "Run again on a machine with more memory, or on the CPU."),
    Reason.QUARANTINED: (
        "the judge failed canaries, rows with known verdicts, so it was not asked about them",
        "Look at the judge (leadline judges calls lists its replies), then run again: only these rows are judged.",
    ),
    Reason.WORKER_LOST: ("the process that was to score them was lost", "Run again: only these rows are computed."),
}
_NO_PRICE: Final = (
    "the price of the judge's calls is unknown, so that a limit of cost allows none",
    "Give the judge's input_cost_per_token and output_cost_per_token in leadline.toml, or limit calls instead "
    "(--max-calls), and run again: only these rows are computed.",
)
ACCEPT: Final = "leadline judges accept"
"""Begins the command that lets rows be put to a judge that changed; every message about it names the command."""

_CHANGED: Final = (
    "the judge is not the one that was enrolled any more, so it was not asked about them",
    "Accept the change with the command above, or choose another judge, then run again: only these rows are judged.",
)
_NO_CLASS: Final = (
    "no reply was one of the words that it was asked for, so it was not asked any further",
    "If prompt or classes are yours, let both name the same words and run again: replies that there are cost nothing. "
    "Else choose a judge that keeps to the format asked for.",
)
_NOT_THE_MODEL: Final = frozenset({"evaluation", "dataset"})  # types of flags that are not a model's fault
_UNKNOWN: Final = ("no reason was given", "Run again; if it stays so, look at the run's log.")


def unscored_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each evaluator and reason that left rows unscored; host errors are problems of the data.

    One model that is missing on this machine can stop several evaluators: that is one problem.
    """
    groups: defaultdict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for line in records(view.connection, sql("problems/unscored").format(most=MOST_ROWS, not_asked=NOT_ASKED)):
        if line["reason"] == Reason.HOST_ERROR or view.evaluators[line["evaluator_id"]]["error"]:
            continue
        whose = line["message"] if line["reason"] == Reason.MODEL_UNAVAILABLE else line["evaluator_id"]
        groups[line["reason"], whose].append(line)
    for (reason, _), lines in groups.items():
        yield _unscored_problem(view, reason, lines)


def _unscored_problem(view: RunView, reason: str, lines: Sequence[Mapping[str, Any]]) -> Finding:
    evaluators = list(dict.fromkeys(line["evaluator_id"] for line in lines))
    models = list(dict.fromkeys(line["model_id"] for line in lines))
    coverage = min(_coverage(view, evaluator_id, model_id) for evaluator_id in evaluators for model_id in models)
    rows = sorted({row for line in lines for row in line["row_ids"]})[:MOST_ROWS]
    n = sum(line["n"] for line in lines)
    names = [view.evaluator_name(evaluator_id) for evaluator_id in evaluators]
    message = next((line["message"] for line in lines if line["message"]), None)
    unpriced = reason == Reason.BUDGET and "price is unknown" in (message or "")
    changed = reason == Reason.QUARANTINED and ACCEPT in (message or "")
    stopped = reason == Reason.JUDGE_UNPARSEABLE and (message or "").startswith(NOT_ASKED)
    special = _NO_PRICE if unpriced else _CHANGED if changed else _NO_CLASS if stopped else None
    why, action = special or _REASONS.get(reason, _UNKNOWN)
    parts = [f"{listing(names)} could not score {count(n, 'row')} ({reason}): {why}."]
    parts.append(f"Coverage is down to {percent(coverage)}; the rows are left out of every mean, not counted as 0.")
    if message:
        parts.append(f"Message: {' '.join(message.split())[:500]}")
    single = evaluators[0] if len(evaluators) == 1 else None
    return Finding(
        type="evaluation",
        kind="unscored",
        severity=Severity.HIGH if reason == Reason.QUARANTINED else by_coverage(coverage),
        fault="instrument",
        evaluator_id=single,
        model_id=models[0] if len(models) == 1 else None,
        description=" ".join(parts),
        actions=action,
        attrs=view.attrs(
            evaluator_id=single,
            **view.several(evaluators),
            model_names=[view.model_name(model_id) for model_id in models],
            reason=reason,
            n_unscored=n,
            coverage=coverage,
            message=message or "",
        ),
        row_ids=rows,
    )


def _coverage(view: RunView, evaluator_id: int, model_id: int) -> float:
    """Return the least share of rows scored over an evaluator's metrics; 1 where nothing was to be scored."""
    shares = [1.0]
    for metric in view.metrics_of(evaluator_id):
        aggregate = view.aggregates.get((metric["metric_id"], model_id))
        if aggregate and (wanted := aggregate["n_scored"] + aggregate["n_unscored"]):
            shares.append(aggregate["n_scored"] / wanted)
    return min(shares)


def crash_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each evaluator that could not run at all."""
    for evaluator_id, evaluator in view.evaluators.items():
        if evaluator["error"]:
            yield view.finding(
                type="evaluation",
                kind="crash",
                severity=Severity.HIGH,
                fault="instrument",
                description=f"{view.evaluator_name(evaluator_id)} could not run; the other evaluators did. "
                f"Message: {' '.join(str(evaluator['error']).split())[:500]}",
                actions="Mend what the message names, then run again: only this evaluator is computed.",
                evaluator_id=evaluator_id,
                message=evaluator["error"],
            )


def few_cases_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem where fewer rows were scored than the evaluator's parameter ``min_test_cases`` asks for."""
    for evaluator_id, evaluator in view.evaluators.items():
        wanted = evaluator["params"].get("min_test_cases") or 0
        metric = view.primary(evaluator_id)
        if metric is None or not wanted:
            continue
        for model_id in view.models:
            aggregate = view.aggregates.get((metric["metric_id"], model_id))
            n = aggregate["n_scored"] if aggregate else 0
            if n < wanted:
                yield view.finding(
                    type="accuracy",
                    kind="few_cases",
                    severity=Severity.HIGH,
                    fault="instrument",
                    description=f"{view.evaluator_name(evaluator_id)} scored {count(n, 'row')} of model "
                    f"{view.model_name(model_id)}; {wanted:,} were asked for to trust its result.",
                    actions="Add test cases, or lower min_test_cases.",
                    metric=metric,
                    model_id=model_id,
                    n_scored=n,
                    min_test_cases=wanted,
                    avid="P0100",
                )


def unreachable_problems(view: RunView) -> Iterator[Finding]:
    """Yield a note for each evaluator with thresholds that every value, or no value, of its metric satisfies.

    Under a policy that groups problems, thresholds that decide nothing are left out.
    """
    seed = view.policy.problems == "seed"
    for evaluator_id in view.evaluators:
        found = [
            (metric, why)
            for metric in view.metrics_of(evaluator_id)
            if (seed or view.role(metric["metric_id"]) is not Role.INFORMATION) and (why := _unreachable(metric))
        ]
        for why in dict.fromkeys(why for _, why in found):
            metrics = [metric for metric, reason in found if reason == why]
            limits = listing(f"{metric['name']} ({number(metric['threshold'])})" for metric in metrics)
            yield view.finding(
                type="evaluation",
                kind="unreachable_threshold",
                severity=Severity.LOW,
                fault="instrument",
                description=f"The threshold of {view.evaluator_name(evaluator_id)} lies where {why} value of the "
                f"metric satisfies it, so passing says nothing: {limits}.",
                actions="Set metric_threshold to a value that separates good from bad answers.",
                metric=metrics[0],
                metric_ids=[metric["metric"] for metric in metrics],
            )


def _unreachable(metric: Mapping[str, Any]) -> str | None:
    """Return ``"no"`` or ``"every"`` for a threshold that no, or every, value satisfies; ``None`` for a useful one."""
    threshold = metric["threshold"]
    if threshold is None:
        return None
    low, high = REACHABLE.get(metric["metric"], (metric["low"], metric["high"]))
    if metric["higher_is_better"]:
        return "no" if threshold > high else "every" if threshold <= low else None
    return "no" if threshold < low else "every" if threshold >= high else None


def flag_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for the flags of each evaluator: by model, or for all models together if none is at fault.

    Under a policy that groups problems, flags of rows that another problem of the evaluator names are left to it: those
    that could not be scored, and those that fail a metric that must or should be good.
    """
    groups: defaultdict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    elsewhere = sql("problems/flags_named_elsewhere") if view.policy.problems == "grouped" else "false"
    for line in records(view.connection, sql("problems/flags").format(most=MOST_ROWS, elsewhere=elsewhere)):
        if line["type"] == RETRIEVAL and view.checks_contexts(line["evaluator_id"]):
            continue  # retrieval_problems reports it, with the metric
        whose = None if line["type"] in _NOT_THE_MODEL else line["model_id"]
        groups[line["evaluator_id"], line["type"], line["severity"], whose].append(line)
    for (evaluator_id, type_, severity, model_id), lines in groups.items():
        commonest = max(lines, key=lambda line: int(line["n"]))["message"]
        several = len({line["message"] for line in lines}) > 1 or any(line["n_messages"] > 1 for line in lines)
        n = sum(line["n"] for line in lines)
        who = f" of model {view.model_name(model_id)}" if model_id is not None else ""
        yield view.finding(
            type=type_,
            kind="flag",
            severity=Severity(severity),
            fault="model" if model_id is not None else "instrument",
            description=f"{count(n, 'row')}{who}: {quoted(commonest, most=400)[1:-1]}"
            f"{' (the commonest of several messages)' if several else ''}",
            actions="Read the rows named.",
            row_ids=sorted(row for line in lines for row in line["row_ids"])[:MOST_ROWS],
            evaluator_id=evaluator_id,
            model_id=model_id,
            model_names=[view.model_name(line["model_id"]) for line in lines],
            n_rows=n,
            message=commonest,
        )


def judge_change_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each judge of the run that changed or is suspected to have, and for each sign of it."""
    for name, judge in view.judges.items():
        if judge["state"] == "changed":
            yield _judge_problem(
                view,
                name,
                judge,
                Severity.HIGH,
                f"The judge {name} is not the one that was enrolled any more: {judge['in_words']}. "
                + _scores_of(judge),
                f"Look at what it says now, then accept the change: {ACCEPT} {name}. Rows are then judged anew, apart "
                "from those of before. An alarm says that it changed, not that it is worse: people's labels tell that.",
            )
        elif judge["state"] == "suspect":
            yield _judge_problem(
                view,
                name,
                judge,
                Severity.MEDIUM,
                f"The judge {name} may have changed since it was enrolled: its replies to the probes leave it open. "
                f"{judge['in_words'].capitalize()}.",
                f"Check it again tomorrow: leadline judges check {name}",
            )
        for sign in judge["signs"]:
            yield _judge_problem(
                view,
                name,
                judge,
                Severity(sign["severity"]),
                f"The judge {name} shows a sign of change beside its verdicts: {sign['text']}.",
                f"Its verdicts on the probes say whether that matters: leadline judges check {name}",
            )


def _scores_of(judge: Mapping[str, Any]) -> str:
    """Say what the scores of a judge that changed are worth."""
    if not judge["stopped"]:
        return "Its scores of this run are not to be compared with those of before."
    if judge.get("reused"):
        reused = count(judge["reused"], "score")
        return f"Rows were not put to it, but {reused} of earlier runs, reused here, may be from after the change."
    return "Rows were not put to it."


def _judge_problem(
    view: RunView, name: str, judge: Mapping[str, Any], severity: Severity, description: str, actions: str
) -> Finding:
    return view.finding(
        type="evaluation",
        kind="judge_changed",
        severity=severity,
        fault="instrument",
        description=description,
        actions=actions,
        judge=name,
        judge_state=judge["state"],
        judge_epoch=judge["epoch"],
    )


def position_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each judge that prefers a place, or contradicts itself when answers change places.

    It is a fault of the instrument: such pairs are ties, and no model's.
    """
    for evaluator_id in view.evaluators:
        if not view.compares_models(evaluator_id):
            continue
        found = position_bias(read_pairs(view.connection, evaluator_id))
        if found is not None and (found.preferred or found.contradicts):
            yield _position_problem(view, evaluator_id, found)


def _position_problem(view: RunView, evaluator_id: int, found: PositionBias) -> Finding:
    name, pairs = view.evaluator_name(evaluator_id), count(round(found.asked), "pair")
    changed = f"{_amount(found.first + found.second + found.mixed)} got another verdict when the answers changed places"
    if found.preferred:
        what = f"The judge of {name} prefers whichever answer comes {found.preferred}"
        favoured = (found.first, found.second) if found.preferred == "first" else (found.second, found.first)
        decided = (
            f": in {_amount(favoured[0])} that answer was preferred both times, in {_amount(favoured[1])} the other"
        )
        sure = f"The difference is {_interval(found.bias)} of the pairs"
    else:
        what = f"The judge of {name} contradicts itself when answers change places"
        decided = (
            f": in {_amount(found.first)} the first was preferred both times, in {_amount(found.second)} the second"
        )
        sure = f"The share of such pairs is {_interval(found.inconsistent)}"
    return view.finding(
        type="evaluation",
        kind="position_bias" if found.preferred else "judge_inconsistent",
        severity=Severity.MEDIUM,
        fault="instrument",
        description=f"{what}. Of {pairs} of answers, {changed}{decided}. {sure}. They count as ties and so favour no "
        "model, but they tell nothing of the models either.",
        actions="Take a judge that reads both answers before it decides (a larger one, or one that reasons), or say in "
        "the parameter criteria what makes an answer better. More cases make up for the ties.",
        evaluator_id=evaluator_id,
        n_pairs=found.asked,
        n_first=found.first,
        n_second=found.second,
        n_mixed=found.mixed,
        bias=found.bias.value,
        bias_low=found.bias.low,
        bias_high=found.bias.high,
        inconsistent=found.inconsistent.value,
        inconsistent_low=found.inconsistent.low,
        inconsistent_high=found.inconsistent.high,
    )


def _amount(number: float) -> str:
    return f"{number:,.4g}" if number < 10_000 else f"{number:,.0f}"


def _interval(share: ShareOfPairs) -> str:
    """Return a share with its interval, which does not hold 0, without its sign."""
    low, high = sorted((abs(share.low), abs(share.high)))
    return f"{percent(abs(share.value))} (95 % interval {percent(low)} to {percent(high)})"
