"""An evaluation as a command runs it: checked first, on a Prefect API where there is one, and stoppable by Ctrl-C."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from leadline.evaluators.ground.text import count, nouns
from leadline.flows.command.output import clean
from leadline.flows.command.running import on_an_api, stoppable
from leadline.flows.command.session import Session, check_ledger, say
from leadline.tasks.ground.timeline import in_step

if TYPE_CHECKING:
    from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult


def evaluated(session: Session, config: EvaluateConfig) -> EvaluateResult:
    """Check and run an evaluation, and say how it goes.

    Args:
        session: The global options.
        config: The request.
    """
    with stoppable("Interrupted. Finished chunks are kept: the same command goes on from there."):
        found: EvaluateResult = on_an_api(
            session,
            lambda: _run(config),
            direct=lambda: _run_directly(config),
            first=lambda: _check(config),
        )
        return found


def _run(config: EvaluateConfig) -> EvaluateResult:
    with in_step("imports"):
        from leadline.flows.evaluate.flow import evaluate as flow
    from leadline.flows.prefect.prefect_steps import recorded_flow

    return recorded_flow(flow, config, _run_directly)


def _run_directly(config: EvaluateConfig) -> EvaluateResult:
    from leadline.flows.evaluate.run import run_evaluation as run
    from leadline.flows.evaluate.steps import DirectSteps

    return run(config, DirectSteps())


def _check(config: EvaluateConfig) -> None:
    """Refuse what the flow would refuse, before anything is run."""
    from leadline.flows.evaluate.prepare import prepare

    with in_step("checks"):
        prepared = prepare(config, check_key=True)
    if prepared.settings.judges:
        check_ledger(config.store)
    for warning in prepared.loaded.column_warnings:
        say(f"Warning: {clean(warning)}.")
    say_left_out(prepared.applicable().left_out)


def say_left_out(left_out: Mapping[str, str]) -> None:
    """Say how many evaluators do not run although nobody excluded them, and which of them a command would bring."""
    from leadline.tasks.plan.selection import NO_JUDGE, NOT_HERE

    if not left_out:
        return
    absent = sum(why.endswith(NOT_HERE) for why in left_out.values())
    judged = sum(why == NO_JUDGE for why in left_out.values())
    lacks = [f"{judged} for want of a judge (--judge MODEL)"] * bool(judged)
    lacks += [f"{absent} for want of weights (leadline models lists them)"] * bool(absent)
    number_left = f"{count(len(left_out), 'evaluator')} {nouns(len(left_out), 'is', 'are')} left out"
    say(f"{', '.join([number_left, *lacks])}. leadline plan says why each is.")
