"""A policy in words: what must, what should, and what is only information."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from leadline.evaluators.core import Metric, Spec, all_evaluators
from leadline.evaluators.ground import count, number, percent
from leadline.tasks.policy.policy import Policy, Role, Rule
from leadline.tasks.policy.questions import IN_WORDS

HEADINGS: Final = {
    Role.MUST: "Must: the gate fails when more answers of a model fail than are tolerated.",
    Role.SHOULD: "Should: the gate fails when a model's value surely misses its threshold.",
    Role.INFORMATION: "Information: never blocks.",
}
_CERTAIN: Final = "Should: the gate passes only when a model's value surely meets its threshold."
_SEED: Final = "Should: the gate fails by the severity of a missed threshold, and of each flipped case."


def in_words(policy: Policy) -> Iterator[str]:
    """Yield the lines that say what a policy asks of each evaluator's metrics; those alike share a line."""
    yield f"{policy.name} ({policy.digest})"
    if policy.description:
        yield policy.description
    if policy.asks:
        yield f"Asks: {' '.join(IN_WORDS[question] for question in policy.asks)}"
    for role, lines in _lines(policy).items():
        yield ""
        yield _heading(policy, role)
        for limits, names in lines.items():
            yield f"  {', '.join(names)}{f': {limits}' if limits else ''}"


def differences(policy: Policy, usual: Policy) -> Iterator[str]:
    """Yield the lines of a policy on the metrics of which it asks something else than another policy, by role."""
    known = {
        (role, limits, name)
        for role, lines in _lines(usual).items()
        for limits, names in lines.items()
        for name in names
    }
    for role, lines in _lines(policy).items():
        heading = _heading(policy, role)
        other = {
            limits: kept
            for limits, names in lines.items()
            if (kept := [name for name in names if (role, limits, name) not in known])
        }
        if other or heading != _heading(usual, role):
            yield ""
            yield heading
            for limits, names in other.items():
                yield f"  {', '.join(names)}{f': {limits}' if limits else ''}"


def _heading(policy: Policy, role: Role) -> str:
    if role is Role.SHOULD and policy.problems == "seed":
        return _SEED
    return _CERTAIN if role is Role.SHOULD and policy.certain else HEADINGS[role]


def _lines(policy: Policy) -> dict[Role, dict[str, list[str]]]:
    """Return the names of the metrics by role and by their limits in words."""
    found: dict[Role, defaultdict[str, list[str]]] = {role: defaultdict(list) for role in Role}
    for id_, kind in all_evaluators().items():
        spec = kind.spec
        for metric in kind().metrics:
            rule = policy.rule(spec, metric)
            if metric.primary:
                found[rule.role][_limits(rule, spec, metric)].append(id_)
            elif rule.role is not Role.INFORMATION:
                found[rule.role][_limits(rule, spec, metric)].append(f"{id_}:{metric.key}")
    return {role: dict(lines) for role, lines in found.items() if lines}


def _limits(rule: Rule, spec: Spec, metric: Metric) -> str:
    """Return a rule's limits in words, ``""`` for information."""
    if rule.role is Role.INFORMATION:
        return ""
    limit = metric.threshold if rule.threshold is None else rule.threshold
    if limit is None:
        return "no threshold, so it cannot fail; give it one to let it block"
    side = "at least" if metric.higher_is_better else "at most"
    if rule.role is Role.MUST:
        allowed = [count(rule.tolerance_rows, "answer")] if rule.tolerance_rows else []
        allowed += [f"{percent(rule.tolerance_share)} of the answers"] if rule.tolerance_share else []
        at_most = f"at most {' or '.join(allowed)}" if allowed else "no answer"
        passing = "" if metric.share else f" ({side} {number(limit)} passes)"
        parts = [f"{at_most} may fail{passing}", *["surely"] * rule.surely]
    else:
        parts = [f"{side} {percent(limit) + ' of the answers' if metric.share else number(limit)}"]
        if rule.min_pass_share and not metric.share and not metric.dataset_level:
            parts[0] += f" on average and for {percent(rule.min_pass_share)} of the answers"
    if rule.proof == "estimate" and rule.right_that_pass[1]:
        (passed, good), (failed, bad) = rule.right_that_pass, rule.wrong_that_fail
        parts.append(f"passes {percent(passed / good)} of right and fails {percent(failed / bad)} of wrong answers")
    if rule.min_rows > 1:
        parts.append(f"from {count(rule.min_rows, 'row')} on")
    if rule.min_coverage > 0:
        parts.append(f"{percent(rule.min_coverage)} of the rows must be scored")
    if rule.slices:
        parts.append(f"within each {' and each '.join(rule.slices)} too")
    if rule.weight != 1:
        parts.append(f"a failing answer weighs {number(rule.weight)} times an ordinary wrong one")
    if spec.judge:
        parts.append("a judge decides")
    return "; ".join(parts)


def as_toml(policy: Policy) -> str:
    """Return a policy as a file that can be edited and named with ``--policy``; it stands on its own."""
    lines = [
        f"name = {_quoted(policy.name)}",
        f"description = {_quoted(policy.description)}",
        f"base = {_quoted('sonar')}",
        f"problems = {_quoted(policy.problems)}",
        f"asks = {_value([str(question) for question in policy.asks])}",
        f"good_share = {policy.good_share}",
        f"only = {_value(policy.only)}",
        f"certain = {_value(policy.certain)}",
    ]
    for name, settings in policy.rules.items():
        lines += ["", f"[rules.{_quoted(name)}]"]
        lines += [f"{key} = {_value(value)}" for key, value in settings.items()]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(each) for each in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return _quoted(str(value)) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    """Return a TOML basic string: JSON's escapes are among TOML's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
