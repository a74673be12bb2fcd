"""Scoring in waves: after each the run looks whether the rest could still change what is asked, and stops if not."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leadline.flows.dispatch.lanes import Lanes
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.steps import EvaluationSteps, Finished
from leadline.flows.shared.judge_access import Retries
from leadline.tasks import pipeline
from leadline.tasks.runs.baseline import NONE, find_baseline
from leadline.tasks.stopping.looks import Look
from leadline.tasks.stopping.waves import wave_of
from leadline.tasks.store.store import Run, Store
from leadline.tasks.wave_steps import StopQuestions, end_waves, look_after


@dataclass(frozen=True, slots=True)
class Scoring:
    """The way in which chunks are scored.

    Attributes:
        steps: Runs the steps.
        lanes: The lanes, not yet entered.
        retries: Decides about further attempts of the judge lane.
        finished: Takes note of each chunk's end.
    """

    steps: EvaluationSteps
    lanes: Lanes
    retries: Retries
    finished: Finished


def against_of(config: EvaluateConfig) -> str | None:
    """Return the baseline of a request; a run that stops for its gate alone is not compared unless that was asked."""
    return NONE if config.stop_when == "decided" and config.against is None else config.against


def asked_of(store: Store, run: Run, config: EvaluateConfig) -> StopQuestions:
    """Return what must be decided before judging may stop.

    Args:
        config: The request.
    """
    asked = StopQuestions(config.fail_on.value, config.min_coverage)
    if config.against in (None, NONE):
        return asked
    found = find_baseline(store, run, config.against)
    return replace(asked, against=found.run.id if found.run else None, no_baseline=found.note)


def score_in_waves(
    store: Store, run: Run, config: EvaluateConfig, planned: pipeline.Planned, scoring: Scoring
) -> pipeline.Planned:
    """Score wave by wave until the outcome is decided; lanes that ask no judge are scored whole beside the first.

    A wave is looked at only when all its chunks have ended.

    Returns:
        The plan without what was not judged.

    Args:
        config: The request.
        planned: The run's plan.
        scoring: How chunks are scored.
    """
    asked, look, wave = asked_of(store, run, config), None, 0
    with scoring.lanes:
        for wave in range(planned.waves):
            chunks = [chunk for chunk in planned.chunks if wave_of(chunk.part) == wave]
            scoring.steps.score(chunks, scoring.lanes, scoring.retries, scoring.finished)
            if wave == planned.waves - 1:
                break
            look = _look(store, run, wave, asked, scoring.steps)
            if look.decision != "open":
                break
    scoring.steps.step("end waves", end_waves, store, run, wave, planned.waves, look, asked)
    judged = tuple(chunk for chunk in planned.chunks if wave_of(chunk.part) <= wave)
    left = sum(chunk.scores for chunk in planned.chunks) - sum(chunk.scores for chunk in judged)
    return replace(planned, chunks=judged, to_compute=planned.to_compute - left)


def _look(store: Store, run: Run, wave: int, asked: StopQuestions, steps: EvaluationSteps) -> Look:
    look = steps.step("look", look_after, store, run, wave, asked)
    told = ", ".join(look.open) or look.decision
    steps.log.info("After wave %d: %s", wave + 1, f"open: {told}" if look.decision == "open" else told)
    return look
