"""The outcome of a check: what its evaluation came to, and what that means for the job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from leadline.evaluators.ground.text import count, listing
from leadline.flows.evaluate.config import EvaluateResult
from leadline.flows.shared.settings import FailOn
from leadline.plugins.ci.change_facts import ChangeFacts
from leadline.plugins.ci.config import CheckConfig
from leadline.tasks.runs.tally import failing_severities

Verdict: TypeAlias = Literal["pass", "fail", "inconclusive", "error"]

FAILED: Final = 1


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """Outcome of one check.

    Attributes:
        name: The check; "" if it is the only one.
        dataset: Its dataset, as it is named in the file.
        verdict: What it came to.
        reason: Why, in a sentence.
        base: Which run it was compared with, or why with none; "" where that was not got to.
        exit_code: What the job leaves with on account of it.
        result: The evaluation's; ``None`` where there is none.
        facts: What the run found; ``None`` as above.
        tag: The tag that the run got, or "".
        report: Address of the report for a browser, or "".
    """

    name: str
    dataset: str
    verdict: Verdict
    reason: str
    base: str = ""
    exit_code: int = 0
    result: EvaluateResult | None = None
    facts: ChangeFacts | None = None
    tag: str = ""
    report: str = ""


def decide(config: CheckConfig, result: EvaluateResult, facts: ChangeFacts) -> tuple[Verdict, str]:
    """Return what a check comes to and why: the gate's decision, or that on the changes alone.

    Args:
        result: Its evaluation.
        facts: What the run found.
    """
    return _of_changes(config, result, facts) if config.only_changes else (result.gate, result.gate_reason)


def exit_code(config: CheckConfig, verdict: Verdict) -> int:
    """Return what the job leaves with: 0, or 1 for a verdict that fails it.

    Args:
        verdict: What it came to; no error.
    """
    if config.fail_on == FailOn.NEVER:
        return 0
    return FAILED if verdict == "fail" or (verdict == "inconclusive" and config.inconclusive == "fail") else 0


def _of_changes(config: CheckConfig, result: EvaluateResult, facts: ChangeFacts) -> tuple[Verdict, str]:
    """Decide on what is worse than in the run that was compared with, by the severities that ``fail_on`` names."""
    severities = failing_severities(str(config.fail_on))
    bad = [severity for severity in facts.regressions if severity in severities]
    if bad:
        whose = listing(facts.worse) if facts.worse else count(len(bad), "model")
        return "fail", f"Newly broken answers of {whose} are a problem of {bad[0]} severity."
    if not result.scored:
        return "inconclusive", "Nothing was scored."
    if facts.note:
        return "inconclusive", f"{facts.note[:1].upper()}{facts.note[1:]}."
    if not facts.compared:
        return "pass", "There is nothing to compare with, and only what is worse fails this check."
    return "pass", f"Nothing that is worse than before is a problem of {severities[-1]} severity."
