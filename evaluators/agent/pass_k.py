"""Reliability over trials: the chance that k trials of a case all pass, and that one of k does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, cast

import numpy as np
from pydantic import Field

from leadline.evaluators.agent.call_matching import best_assignment, weights_of
from leadline.evaluators.agent.task_state import FINAL, StateParams, facts_told, state_differences
from leadline.evaluators.core import Effect, EvalContext, Metric, RowEvaluator, Spec, register
from leadline.evaluators.data import Details, Evidence, Json, Row, RowField, RowScore

if TYPE_CHECKING:
    import numpy.typing as npt

TAIL: Final = 0.025
"""Chance that either end of an interval is wrong."""

_MOST_TOLD: Final = 8
"""Numbers of trials that the details give values for."""


class PassKParams(StateParams):
    """Parameters of the reliability over trials."""

    k: Annotated[
        int,
        Field(
            ge=1,
            le=100,
            description="How many trials must all pass, or one of them; cases with fewer trials are left out.",
            json_schema_extra=Effect.DATASET_METRICS.extra,
        ),
    ] = 2
    passed_key: Annotated[
        str,
        Field(description="Key of the metadata that says whether a trial passed, if it does: true, or 1 and more."),
    ] = "passed"


class Trials(NamedTuple):
    """The places of each case's payload of passed trials and of failed ones; -1 where there is none."""

    passed: npt.NDArray[np.intp]
    failed: npt.NDArray[np.intp]


@register
class PassK(RowEvaluator):
    """Reliability over trials: pass^k, the chance that k trials of a case all pass, and pass@k, that one of k does.

    **Method.** Of a case with n trials of which c passed, pass^k = C(c, k) / C(n, k) and pass@k = 1 - C(n - c, k) /
    C(n, k): the shares of all choices of k trials of which all passed, or one. A model's value is the mean over the
    cases with k trials or more. Trials are cases of equal content: the same scenario, or where there is none the same
    question, and the same expected calls and outcome.

    A trial passes as its metadata says (``passed_key``). Otherwise it passes where the final state is the expected one
    and all expected facts are told, as far as the case names them (``task_state``, ``communicated``); where it names
    neither, where all expected calls were made (``superset`` of ``tool_trajectory_match``).

    **Intervals.** They are clustered by case: Student's t over the cases' values, whatever the number of trials. Where
    all values are 1, or all are 0, the other end is exact, 0.025^(1/cases) away from it. In simulations of 20 to 100
    cases with four trials they hold the truth 93 to 95 times in 100, with 10 cases 91 to 95 times.

    **Edge cases.** A row that nothing decides is not applicable. A model whose cases all have fewer than k trials has
    no value; nor is there an interval for one case.

    **Source.** pass^k: Yao et al. 2024, tau-bench; pass@k: Chen et al. 2021, Evaluating Large Language Models Trained
    on Code.
    """

    spec = Spec(
        id="pass_k",
        name="Reliability over Trials (pass^k)",
        inputs=(
            RowField.METADATA,
            RowField.MESSAGES,
            RowField.TOOL_CALLS,
            RowField.EXPECTED_TOOL_CALLS,
            RowField.SCENARIO,
        ),
        optional=frozenset({RowField.METADATA, RowField.MESSAGES, RowField.EXPECTED_TOOL_CALLS, RowField.SCENARIO}),
        also_reads=(RowField.QUESTION, RowField.EXPECTED_OUTCOME),
        unit="conversation",
        metrics=(
            Metric.higher("passed", "Share of trials that pass.", primary=True, share=True),
            Metric.higher("pass_hat_k", "Chance that k trials of a case all pass.", name="pass^k", dataset_level=True),
            Metric.higher(
                "pass_at_k", "Chance that one of k trials of a case passes.", name="pass@k", dataset_level=True
            ),
        ),
        insight_type="agent",
        problem_type="agent",
        keywords=("agent", "trials", "reliability", "consistency", "pass^k", "pass@k", "tau-bench", "rule-based"),
        source="Yao et al. 2024, tau-bench; Chen et al. 2021, Evaluating Large Language Models Trained on Code",
    )
    parameters = PassKParams
    params: PassKParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Return whether the trial passed, and of which case it is one."""
        passed, why = self._outcome(row)
        if passed is None:
            return RowScore.not_applicable(self.row_metrics, why)
        # a case's key is no content, and equal rows of different cases share a score: so the content tells the cases
        content = json.dumps(
            [row.scenario or row.question, row.expected_tool_calls, row.expected_outcome], sort_keys=True, default=list
        )
        task = hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()[:32]
        return RowScore({"passed": float(passed)}, Evidence(why), payload=[task, passed])

    def _outcome(self, row: Row) -> tuple[bool | None, str]:
        """Return whether a trial passed, and the sentence that says why; ``None`` where nothing decides."""
        told = row.metadata.get(self.params.passed_key)
        if isinstance(told, bool | int | float):
            return told >= 1, f"The metadata says {self.params.passed_key}: {told}."
        state, facts = state_differences(row, self.params), facts_told(row)
        if state is not None or facts:
            right = state is None or not state[0]
            all_told = None not in facts.values()
            parts = [f"The state is {'' if right else 'not '}as expected."] if state is not None else []
            parts += [f"{'All' if all_told else 'Not all'} expected facts are told."] if facts else []
            return right and all_told, " ".join(parts)
        if row.expected_tool_calls is None:
            return None, f"Neither a state, nor facts, nor calls are expected, and the metadata has no {FINAL}."
        pairs = best_assignment(weights_of(row.tool_calls or (), row.expected_tool_calls, "exact"))
        made = len(pairs) == len(row.expected_tool_calls)
        return made, f"{'All' if made else 'Not all'} expected calls were made."

    def prepare(self, payloads: Sequence[Json]) -> Trials:
        """Return the places of each case's payloads."""
        tasks: dict[str, list[int]] = {}
        for place, payload in enumerate(cast("Sequence[tuple[str, bool]]", payloads)):
            task, passed = payload
            tasks.setdefault(task, [-1, -1])[not passed] = place
        places = np.array([*tasks.values()], dtype=np.intp).reshape(-1, 2)
        return Trials(places[:, 0], places[:, 1])

    def aggregate(self, payloads: Trials, weights: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.float64]]:
        """Return the mean over the cases for each weighting."""
        return {name: _mean(values) for name, values in by_case(payloads, weights, self.params.k).items()}

    def intervals(
        self, prepared: Trials, weights: npt.NDArray[np.float64], size: float
    ) -> dict[str, tuple[float, float] | None]:
        """Return the intervals over cases."""
        found = by_case(prepared, weights[np.newaxis], self.params.k)
        return {name: interval(values[0][~np.isnan(values[0])]) for name, values in found.items()}

    def details(self, prepared: Trials, weights: npt.NDArray[np.float64], cases: Sequence[str]) -> Details:
        """Return both for each number of trials from 1 on that some case has."""
        notes = []
        for k in range(1, _MOST_TOLD + 1):
            found = by_case(prepared, weights[np.newaxis], k)
            known = int((~np.isnan(found["pass_hat_k"])).sum())
            if known:
                both = (float(_mean(found[name])[0]) for name in ("pass_hat_k", "pass_at_k"))
                hat, at = (f"{value:.3f}" for value in both)
                notes.append(f"k = {k}: pass^k {hat}, pass@k {at} (cases with so many trials: {known:,})")
        return {"notes": notes}


def by_case(trials: Trials, weights: npt.NDArray[np.float64], k: int) -> Mapping[str, npt.NDArray[np.float64]]:
    """Return pass^k and pass@k of each case for each weighting; NaN where it has fewer than k trials."""
    padded = np.concatenate([weights, np.zeros((len(weights), 1))], axis=1)  # -1 is the place of nothing
    passed, failed = padded[:, trials.passed], padded[:, trials.failed]
    number = np.round(passed + failed, 6)
    drawn = np.where(number >= k, 1.0, np.nan)
    all_pass, none_passes = drawn, drawn
    for before in range(k):
        left = np.where(number > before, number - before, np.nan)
        all_pass = all_pass * np.maximum(passed - before, 0) / left
        none_passes = none_passes * np.maximum(failed - before, 0) / left
    return {"pass_hat_k": all_pass, "pass_at_k": 1 - none_passes}


def _mean(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    known = ~np.isnan(values)
    counted = known.sum(axis=1)
    sums = np.where(known, values, 0.0).sum(axis=1)
    return np.where(counted > 0, sums / np.maximum(counted, 1), np.nan)


def interval(values: npt.NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean over cases, ``None`` for fewer than two."""
    from scipy.special import stdtrit

    cases = len(values)
    if cases < 2:
        return None
    mean = float(values.mean())
    if mean in (0.0, 1.0):
        end = TAIL ** (1 / cases)
        return (end, 1.0) if mean else (0.0, 1 - end)
    reach = float(stdtrit(cases - 1, 1 - TAIL) * values.std(ddof=1) / np.sqrt(cases))
    return max(0.0, mean - reach), min(1.0, mean + reach)
