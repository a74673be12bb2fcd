"""The job of evaluating: a file of answers becomes a scored, explained report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from leadline.evaluators.ground import count, nouns
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.prepare import Prepared, prepare
from leadline.flows.evaluate.run import record_time, run_evaluation
from leadline.flows.evaluate.steps import EvaluationSteps
from leadline.flows.shared.job import Job
from leadline.tasks.ground.timeline import Timeline, current, timed_by
from leadline.tasks.plan.selection import NO_JUDGE, NOT_HERE
from leadline.tasks.runs.run_facts import tally_in_words
from leadline.tasks.runs.run_sentences import cost_line, gate_line, scores_line, work_line
from leadline.tasks.store.store import Store


class Evaluate(Job[EvaluateConfig, Prepared, EvaluationSteps, EvaluateResult]):
    """Score the answers in a dataset and publish a report.

    Args:
        asks_here: Whether judges are asked by this process or its children, so that their keys must be here; workers
            have keys of their own.
    """

    name = "evaluate"
    Config = EvaluateConfig
    first_step = "load"
    kept = "Interrupted. Finished chunks are kept: the same command goes on from there."
    label_width = 10

    def __init__(self, *, asks_here: bool = False) -> None:
        self._asks_here = asks_here

    def check(self, config: EvaluateConfig) -> Prepared:
        """Check the request, load its dataset, and give that to other hosts. See :func:`.prepare.prepare`."""
        prepared = prepare(config, check_key=self._asks_here)
        prepared.store.share_dataset(prepared.loaded.digest)
        return prepared

    def run(self, config: EvaluateConfig, checked: Prepared, steps: EvaluationSteps) -> EvaluateResult:
        """Evaluate a dataset.

        Args:
            config: What to evaluate, with which evaluators, and what makes the gate fail.
        """
        return run_evaluation(config, checked, steps)

    def carry_out(
        self, config: EvaluateConfig, steps: EvaluationSteps, checked: Prepared | None = None
    ) -> EvaluateResult:
        """Check and evaluate; the time is that of the command, if there is one, which began before and ends after."""
        if current() is not None:
            return super().carry_out(config, steps, checked)
        with timed_by(Timeline()) as timeline:
            result = super().carry_out(config, steps, checked)
            return record_time(result, Store.open(config.store), timeline)

    def plain_steps(self) -> EvaluationSteps:
        """Return what runs the steps without Prefect."""
        return EvaluationSteps()

    def task_steps(self, config: EvaluateConfig) -> EvaluationSteps:
        """Return what runs the steps, and the scoring of each chunk, as Prefect tasks."""
        from leadline.flows.evaluate.prefect_steps import PrefectSteps  # Prefect takes more than a second

        return PrefectSteps(load=Path(config.dataset).name)

    def run_name(self, config: EvaluateConfig) -> str:
        """Return the name of a run, which has that of the evaluation or of its dataset."""
        return f"evaluate {config.name or Path(config.dataset).stem}"

    def asks(self, checked: Prepared) -> bool:
        """Return whether there is a judge."""
        return bool(checked.settings.judges)

    def notices(self, checked: Prepared) -> Iterable[str]:
        """Yield what is wrong with the columns, and how many evaluators do not run although nobody excluded them."""
        for warning in checked.loaded.column_warnings:
            yield f"Warning: {warning}."
        if left_out := checked.applicable().left_out:
            yield _left_out(left_out)

    def lines(self, result: EvaluateResult) -> Iterable[tuple[str, str]]:
        """Yield what the gate says, what was scored, and where the report is."""
        report = result.report.absolute()
        yield "Gate", gate_line(result)
        for answer in result.questions:
            yield f"  {answer.question}", answer.line
        if result.stopping:
            yield "Judging", result.stopping
        yield "Scores", scores_line(result)
        yield "Rows", work_line(result)
        if result.judge_calls or result.judge_made_again:
            yield "Judge", cost_line(result)
        yield "Problems", tally_in_words(result.problems_by_fault)
        for place, text in enumerate(result.worst):
            yield "" if place else "Worst", text
        for label, text in (
            ("Choose", result.recommendation),
            ("Changed", result.changed),
            ("Embedder", result.embedder),
            ("Time", result.time.in_words()),
            ("Run", result.run),
            ("Report", str(report)),
        ):
            if text:
                yield label, text
        yield "", result.report_url or report.as_uri()
        if not (result.report.parent / "scores.csv").exists():  # the run is too large, and they were not asked for
            how = f"per evaluator, and as CSV: leadline store export {result.run} --as sonar|csv"
            yield "Files", f"every score is in scores.parquet; {how}"

    def record(self, result: EvaluateResult) -> dict[str, Any]:
        """Return the outcome for programs, as JSON, with the report's address."""
        return super().record(result) | {"report_uri": result.report_url or result.report.absolute().as_uri()}


def _left_out(left_out: Mapping[str, str]) -> str:
    """Say how many evaluators do not run, and which of them a command would bring."""
    absent = sum(why.endswith(NOT_HERE) for why in left_out.values())
    judged = sum(why == NO_JUDGE for why in left_out.values())
    lacks = [f"{judged} for want of a judge (--judge MODEL)"] * bool(judged)
    lacks += [f"{absent} for want of weights (leadline evaluators models lists them)"] * bool(absent)
    number_left = f"{count(len(left_out), 'evaluator')} {nouns(len(left_out), 'is', 'are')} left out"
    return f"{', '.join([number_left, *lacks])}. leadline evaluate --plan says why each is."
