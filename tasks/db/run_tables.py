"""The tables of a run's database, ``runs/<run>/run.duckdb``, which one process writes.

The texts of cases and rows stay in the dataset's Parquet files (``dataset.sql``), which are views once it is opened. A
column's words are Markdown: pages show them (:mod:`leadline.tasks.db.columns`).
"""

# Without ``from __future__ import annotations``: every run reads the fields' types, and would have to evaluate texts.

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias

from leadline.tasks.db.columns import Sql, definition, table

EvaluatorId: TypeAlias = Annotated[int, Sql("USMALLINT")]
MetricId: TypeAlias = Annotated[int, Sql("USMALLINT")]
ModelId: TypeAlias = Annotated[int, Sql("USMALLINT")]
CaseId: TypeAlias = Annotated[int, Sql("UINTEGER")]
RowId: TypeAlias = Annotated[int, Sql("UINTEGER")]
Trial: TypeAlias = Annotated[int, Sql("UTINYINT")]
Count: TypeAlias = Annotated[int, Sql("UBIGINT")]
Zstd: TypeAlias = Annotated[str, Sql("VARCHAR USING COMPRESSION zstd")]
"""Text that takes a sixth of its length, as JSON does; with what DuckDB takes by itself it would be half."""
JsonObject: TypeAlias = Mapping[str, Any]

Verdict: TypeAlias = Literal["pass", "fail", "inconclusive"]
Fault: TypeAlias = Literal["model", "data", "instrument"]
"""Who is at fault: a model under test, the dataset, or the instrument (judges, models of evaluators, the machine)."""
CertificateState: TypeAlias = Literal["none", "few", "not drawn", "open", "failed", "valid", "stale"]


@table("evaluators")
class RunEvaluator:
    """An evaluator of the run, in the configuration it ran with."""

    evaluator_id: Annotated[EvaluatorId, Sql("USMALLINT PRIMARY KEY")]
    evaluator: Annotated[str, "its id, such as `bleu`"]
    name: str
    family: str
    lane: str
    leaderboard: Annotated[str, "`heatmap` or `bool`"]
    config: Annotated[str, "digest of `identity`: the folder of its score segments"]
    identity: Annotated[JsonObject, "JSON: all that the scores depend on"]
    params: Annotated[JsonObject, "JSON: all parameters, those of the report included"]
    reused: Annotated[Count, "distinct scores found in the store"]
    computed: Annotated[Count, "distinct scores to compute in this run"]
    error: Annotated[str | None, "why it could not run at all"]


@table("metrics")
class RunMetric:
    """A metric of an evaluator."""

    metric_id: Annotated[MetricId, Sql("USMALLINT PRIMARY KEY")]
    evaluator_id: EvaluatorId
    metric: str
    name: str
    description: str
    higher_is_better: bool
    low: Annotated[float, "the range of its values"]
    high: float
    threshold: Annotated[float | None, "the run's: a parameter, or the metric's default"]
    is_primary: Annotated[bool, "it stands for its evaluator: the metric of the weightiest role"]
    is_share: Annotated[bool, "values are 0 or 1, the mean is a share"]
    dataset_level: Annotated[bool, "no value per row"]
    pooled: Annotated[bool, "rows have values, but the model's is computed over all of them at once"]


@table("rules")
class MetricRule:
    """The policy's demands on a metric; see ``tasks/policy``."""

    metric_id: Annotated[MetricId, Sql("USMALLINT PRIMARY KEY")]
    role: Annotated[str, Sql("VARCHAR DEFAULT 'should'"), "`must`, `should`, `information`"]
    question: Annotated[
        str,
        Sql("VARCHAR DEFAULT 'right'"),
        "what it helps to answer: `safe`, `right`, `grounded`, `form`, `fast`",
    ]
    proof: Annotated[
        str,
        Sql("VARCHAR DEFAULT 'none'"),
        "what it can show of that: `none`, `likeness`, `mean`, `exact`, `estimate`",
    ]
    right_that_pass: Annotated[
        tuple[float, ...],
        Sql("DOUBLE[] DEFAULT [0, 0]"),
        "of an estimate: right answers that it passes, and of how many",
    ]
    wrong_that_fail: Annotated[tuple[float, ...], Sql("DOUBLE[] DEFAULT [0, 0]"), "likewise wrong ones that it fails"]
    tolerance_rows: Annotated[Count, Sql("UBIGINT DEFAULT 0"), "rows of a model that may fail a *must* metric"]
    tolerance_share: Annotated[
        float, Sql("DOUBLE DEFAULT 0"), "share of its scored rows that may; the larger of both counts"
    ]
    surely: Annotated[bool, Sql("BOOLEAN DEFAULT false"), "it blocks only where more than that share surely fails"]
    min_pass_share: Annotated[
        float, Sql("DOUBLE DEFAULT 0"), "least share of its scored rows that must satisfy a *should* metric"
    ]
    min_coverage: Annotated[float, Sql("DOUBLE DEFAULT 0.95"), "least share of applicable rows that must be scored"]
    min_rows: Annotated[Count, Sql("UBIGINT DEFAULT 1"), "least number of scored rows that can fail the gate"]
    weight: Annotated[float, Sql("DOUBLE DEFAULT 1"), "how harmful a failing answer is, against 1 for an ordinary one"]
    slices: Annotated[
        tuple[str, ...], Sql("VARCHAR[] DEFAULT []"), "columns within each value of which it must pass too"
    ]
    use: Annotated[
        str, Sql("VARCHAR DEFAULT 'judge'"), "what the gate decides by: the `judge`, or its `corrected` values"
    ]
    judged: Annotated[bool, Sql("BOOLEAN DEFAULT false"), "its evaluator asks a judge"]
    named: Annotated[bool, Sql("BOOLEAN DEFAULT false"), "its evaluator was asked for by id"]


@table("scores")
class MetricScore:
    """A row's score by one metric in one trial."""

    metric_id: MetricId
    row_id: RowId
    trial: Trial
    status: Annotated[str, Sql("status"), "`scored`, `unscored`, `not_applicable`"]
    reason: Annotated[str | None, "why it is not scored"]
    value: Annotated[float | None, "a number; empty unless scored"]


@table("evidence")
class RowEvidence:
    """The evidence that a score rests on; there is a line only where there is something to say."""

    evaluator_id: EvaluatorId
    row_id: RowId
    trial: Trial
    evidence: Annotated[Zstd | None, 'JSON: `{"message", "spans": [{source, start, end, index, value, note}], "data"}`']
    flags: Annotated[str | None, 'JSON: `[{"type", "severity", "message"}]`']
    payload: Annotated[Zstd | None, "JSON for metrics of the whole dataset"]
    error: Annotated[str | None, "the instrument's message where the row is unscored"]


@table("turn_scores")
class TurnScore:
    """A turn's score in a conversation of several, whose own score in `scores` is made of those of its turns."""

    metric_id: MetricId
    row_id: Annotated[RowId, "of the turn"]
    conversation_id: Annotated[RowId, "row of the conversation"]
    turn: Annotated[int, Sql("USMALLINT"), "from 1"]
    trial: Trial
    status: Annotated[str, Sql("status"), "`scored`, `unscored`, `not_applicable`"]
    reason: Annotated[str | None, "why it is not scored"]
    value: Annotated[float | None, "a number; empty unless scored"]


@table("turn_evidence")
class TurnEvidence:
    """The evidence that a turn's score rests on."""

    evaluator_id: EvaluatorId
    row_id: Annotated[RowId, "of the turn"]
    conversation_id: Annotated[RowId, "row of the conversation"]
    turn: Annotated[int, Sql("USMALLINT"), "from 1"]
    trial: Trial
    evidence: Annotated[Zstd | None, "JSON, as in `evidence`"]
    flags: Annotated[str | None, "JSON, as in `evidence`"]
    error: Annotated[str | None, "the instrument's message where the turn is unscored"]


@table("aggregates")
@dataclass(frozen=True, slots=True)
class Aggregate:
    """A metric's mean over a model's rows."""

    metric_id: MetricId
    model_id: ModelId
    n_rows: Annotated[Count, "rows of the model, and what became of them"]
    n_scored: Count
    n_unscored: Count
    n_not_applicable: Count
    reasons: Annotated[Mapping[str, int], "JSON: unscored rows by reason"]
    value: Annotated[
        float | None, "mean of the scored rows, or the value over all rows where the metric is computed at once"
    ]
    ci_low: Annotated[
        float | None,
        "95 % interval, and how it was found (`exact`, `bounded`, `t`, `trusting`, `bootstrap`, `ranks`, `posterior`, "
        "`always valid`: [statistics](mechanisms/statistics.md))",
    ]
    ci_high: float | None
    ci_method: str | None
    std: Annotated[float | None, "of the scored rows"]
    minimum: float | None
    maximum: float | None
    if_worst: Annotated[float | None, "the value if every unscored row had the worst, or the best, value of the range"]
    if_best: float | None
    threshold: Annotated[float | None, "scored rows that satisfy the threshold, their share, its 95 % interval"]
    n_pass: Count | None
    pass_share: float | None
    pass_low: float | None
    pass_high: float | None
    verdict: Annotated[Verdict | None, "`pass`, `fail`, `inconclusive`; empty without a threshold"]

    @property
    def coverage(self) -> float | None:
        """Share of the applicable rows that were scored, ``None`` when no row is applicable."""
        applicable = self.n_scored + self.n_unscored
        return self.n_scored / applicable if applicable else None


@table("details")
class EvaluatorDetail:
    """The details of a model beyond an evaluator's metrics: curves, confusion matrices, values by label, examples."""

    evaluator_id: EvaluatorId
    model_id: ModelId
    details: Annotated[JsonObject, "JSON, see `evaluators/data/details.py`"]


@table("corrections")
@dataclass(frozen=True, slots=True)
class Correction:
    """A judge's mean as people's labels correct it; see ``tasks/judges/labels``.

    Metrics that pass or fail rows have the share of good answers, others the mean label.
    """

    metric_id: MetricId
    model_id: ModelId
    label_set: Annotated[str, "the set of labels"]
    n_labels: Annotated[Count, "labelled rows of the model, and the people who labelled them"]
    n_people: Count
    n_groups: Annotated[Count, "independent cases among them: an original and its copies are one"]
    judged: Annotated[Count, "rows that the judge scored"]
    is_share: Annotated[bool, "shares of good answers, or means"]
    judge: Annotated[float, "what the judge says of them"]
    value: Annotated[float | None, "what people would say, with its 95 % interval; null where labels only compare"]
    ci_low: float | None
    ci_high: float | None
    method: Annotated[str | None, "`post-stratified`, `ppi++`, `stratified ppi++`, `active`, `rogan-gladen`"]
    weight: Annotated[float | None, "λ of PPI++: the share of the judge's scores that is used"]
    labels_value: Annotated[float | None, "from the labels alone"]
    labels_low: float | None
    labels_high: float | None
    bias: Annotated[float | None, "`judge` less `value`"]
    bias_low: float | None
    bias_high: float | None
    wanted: Annotated[
        float | None, "the share of good answers that a gate on corrected values asks for; null for means"
    ]
    verdict: Annotated[str | None, "`pass`, `fail`, `inconclusive` by that, null without it"]


@table("certificates")
@dataclass(frozen=True, slots=True)
class Certification:
    """The agreement of people and a judge's configuration on a metric that people were asked about."""

    metric_id: MetricId
    config: Annotated[str, "digest of prompt, judge and parameters of this run"]
    judge: Annotated[str, "the judge's model, or empty"]
    label_set: Annotated[str, "the set of labels"]
    state: Annotated[CertificateState, "`none`, `few`, `not drawn`, `open`, `failed`, `valid`, `stale`"]
    borrowed: Annotated[bool, "earned on rows that are not in this run"]
    held_out: Annotated[bool, "earned on the half of the labels that no prompt was chosen by"]
    earned: Annotated[str | None, "when, and by which configuration: another one where the state is `stale`"]
    earned_config: str | None
    n_labels: Annotated[Count, "labelled rows that the judge scored, and the people who labelled them"]
    n_people: Count
    labelled_from: Annotated[str | None, "times of the first and last label"]
    labelled_to: str | None
    accuracy: Annotated[float | None, "agreement: the share, Cohen's κ with its interval, Gwet's AC1"]
    kappa: float | None
    kappa_low: float | None
    kappa_high: float | None
    ac1: float | None
    alpha: Annotated[float | None, "Krippendorff's, judge against people"]
    people_alpha: Annotated[float | None, "people against each other: a judge's ceiling"]
    recall_fail: Annotated[float | None, "share of the bad answers that the judge fails"]
    recall_pass: Annotated[float | None, "share of the good answers that it passes"]
    rank_correlation: Annotated[float | None, "Spearman's, for numbers"]
    to_judge: Annotated[Count, "labelled rows of the set that this configuration was not asked about"]
    more_labels: Annotated[Count | None, "about how many more would tell where the state is `few` or `open`"]


@table("answer_shares")
class AnswerShare:
    """The share of a model's answers that are good by a question that rows decide; see ``tasks/analyse``."""

    question: Annotated[str, "`right`, `grounded`"]
    model_id: ModelId
    n_asked: Annotated[Count, "rows that it can be asked of"]
    n_decided: Annotated[Count, "of these, rows that some metric decides"]
    n_good: Annotated[Count, "of these, rows that pass it"]
    n_cases: Annotated[Count, "distinct cases among those decided"]
    exact: Annotated[bool, "nothing that decides them errs"]
    value: Annotated[float | None, "share of good answers, corrected for such errors; null where no row was decided"]
    ci_low: Annotated[float, "95 % interval; rows that nothing decided may be good or bad"]
    ci_high: float
    wanted: Annotated[float, "the share that is asked for"]
    outcome: Annotated[str, "`pass`, `fail`, `open`"]
    n_labels: Annotated[Count, "labels of people that decide it; 0 where metrics do"]
    evaluators: Annotated[tuple[str, ...], "what decides the rows, that of most rows first"]


@table("question_labels")
class QuestionLabel:
    """People's answer to the question itself, about a row drawn at random or a model of which all rows have one."""

    question: Annotated[str, "`right`, `grounded`"]
    row_id: RowId
    good: Annotated[float, "1 or 0, one half for a tie"]


@table("verdicts")
class QuestionVerdict:
    """The verdict: an answer to a question that a person asks of a run."""

    question: Annotated[str, Sql("VARCHAR PRIMARY KEY")]
    asked: Annotated[bool, "it must be decided for the gate to pass"]
    outcome: Annotated[str, "`pass`, `fail`, `inconclusive`, `not looked at`"]
    reason: Annotated[str, "in a sentence or two"]
    remedy: Annotated[str, "what would decide it, or empty"]


@table("trial_spread")
@dataclass(frozen=True, slots=True)
class TrialSpread:
    """The differences between the trials of a model's judged rows; no line where every row was scored once."""

    metric_id: MetricId
    model_id: ModelId
    n_trials: Annotated[Trial, "trials asked for"]
    n_rows: Annotated[Count, "rows scored in at least two of them"]
    n_differ: Annotated[Count, "of those, rows whose trials have different values"]
    differ_share: float
    n_cross: Annotated[Count | None, "rows whose trials stand on two sides of the threshold; null without one"]
    cross_share: float | None
    within_std: Annotated[float | None, "pooled standard deviation of the trials of a row"]
    lowest_mean: Annotated[float | None, "of the means of single trials, over the rows that every trial scored"]
    highest_mean: float | None
    means_std: float | None
    between_std: Annotated[float | None, "standard deviation between rows, beyond what trials explain"]
    reliability: Annotated[float | None, "share of the variance of single trials that lies between rows"]
    rerun_std: Annotated[float | None, "how far the metric's mean moves when the same rows are judged again"]


@table("repeats")
class RepeatedScore:
    """The score of a further trial of a row that was judged again only to measure the judge's noise.

    It counts nowhere else: which rows they are may depend on what the first trial said.
    """

    metric_id: MetricId
    row_id: RowId
    trial: Annotated[Trial, "from 1 on; trial 0 is in `scores`"]
    value: float
    same_reason: Annotated[
        bool | None, "its reason is, byte by byte, that of the first trial; null for less than 30 letters"
    ]


@table("judged_again")
class RejudgedPair:
    """An original row and a perturbed one that were judged again.

    They are all pairs that turned on some metric of the evaluator in the first trial, and a part of the others, drawn
    at random.
    """

    evaluator_id: EvaluatorId
    model_id: ModelId
    original_row_id: RowId
    perturbed_row_id: RowId
    turned: bool
    stands_for: Annotated[float, "1 / the chance to be judged again"]


@table("stopping")
class WaveDecision:
    """The evidence on a metric and a model after a wave of a run that judges until its outcome is decided."""

    wave: Trial
    metric_id: MetricId
    model_id: ModelId
    question: Annotated[str, "`value`: of its mean; `passes`: of the share that passes; `change`: since the baseline"]
    clusters: Annotated[Count, "cases judged so far, each with its copies"]
    rows: Annotated[Count, "rows scored so far"]
    log_e_pass: Annotated[float, "evidence for a pass, or a failure: logarithm of an e-value"]
    log_e_fail: float
    decision: Annotated[str, "`pass`, `fail`, `open`"]


@table("flips")
class Flip:
    """An original and a perturbed case whose rows of one model stand on two sides of the threshold."""

    metric_id: MetricId
    model_id: ModelId
    original_case_id: CaseId
    perturbed_case_id: CaseId
    original_row_id: RowId
    perturbed_row_id: RowId
    original_value: Annotated[float, "the values of both rows, and the threshold between them"]
    perturbed_value: float
    threshold: float
    direction: Annotated[str, "`passed_to_failed`, `failed_to_passed`"]
    perturbation: Annotated[str | None, "what was done to the case, as far as the dataset says"]
    confirmed: Annotated[bool | None, "all trials of each row agree; null where a row has less than two"]


@table("flip_rates")
@dataclass(frozen=True, slots=True)
class FlipRate:
    """The flips of a metric and a model under one kind of perturbation."""

    metric_id: MetricId
    model_id: ModelId
    perturbation: Annotated[str, "empty for all together"]
    n_pairs: Annotated[Count, "pairs that could be compared, and that flipped"]
    n_passed_to_failed: Count
    n_failed_to_passed: Count
    rate: Annotated[float, "flips / pairs, with its 95 % interval"]
    ci_low: float
    ci_high: float
    n_pairs_repeated: Annotated[Count, "pairs of which both rows were judged at least twice"]
    noise: Annotated[float | None, "the rate at which the judge flips by itself; 0 for what asks no judge"]
    net: Annotated[
        float | None,
        "the rate without this noise, with its 95 % interval; may be negative; null where it was not measured",
    ]
    net_low: float | None
    net_high: float | None
    net_method: Annotated[
        str | None,
        "`deterministic`, `trials`, `two-phase`, `sub-sample`: "
        "[statistics](mechanisms/statistics.md#flips-net-of-the-judges-own-noise)",
    ]
    n_same_answer: Annotated[Count, "pairs whose rows have the same answer, and flips among them"]
    n_flips_same_answer: Count
    net_same_answer: Annotated[
        float | None, "the net rate of these pairs: what the judge makes of the changed question"
    ]
    net_same_low: float | None
    net_same_high: float | None


@table("flip_causes")
@dataclass(frozen=True, slots=True)
class FlipCause:
    """The causes of the net flips of a metric and a model: the answer, or the judge.

    They are told of the pairs that were judged again together with a third row: the copy's answer under the original's
    question.
    """

    metric_id: MetricId
    model_id: ModelId
    perturbation: Annotated[str, "empty for all together"]
    n_pairs: Annotated[Count, "pairs whose three rows were judged at least twice"]
    answer: Annotated[
        float, "the net rate at which the answer changes the verdict, with its 95 % interval; may be negative"
    ]
    answer_low: float
    answer_high: float
    judge: Annotated[float, "the net rate at which the changed question does, of the same answer"]
    judge_low: float
    judge_high: float
    method: Annotated[str, "`two-phase`: [statistics](mechanisms/statistics.md#whose-flips-they-are)"]


@table("slice_rows")
class SliceMember:
    """A row of a slice: of those that share a value of a column. It is in as many slices as it has values."""

    slice_column: Annotated[
        str, "`category`, `language`, `question_length`, …, or a key of the metadata; and its value"
    ]
    slice_value: str
    row_id: RowId


@table("slices")
class SliceMean:
    """A metric's mean in a slice, and how it differs from all other rows; of a model, or of all models together."""

    slice_column: Annotated[
        str, "`category`, `language`, `question_length`, …, or a key of the metadata; and its value"
    ]
    slice_value: str
    metric_id: MetricId
    model_id: Annotated[ModelId | None, "empty for all models together"]
    n_rows: Annotated[
        Count,
        "rows, independent cases (an original and its copies are one), and what became of the rows; "
        "`n_pass` satisfy the threshold",
    ]
    n_cases: Count
    n_scored: Count
    n_unscored: Count
    n_pass: Count | None
    value: Annotated[float | None, "mean and 95 % interval"]
    ci_low: float | None
    ci_high: float | None
    rest_value: Annotated[
        float | None,
        "the mean of all other rows, and `value` less it; of all models, each taken from its own mean",
    ]
    difference: float | None
    p_value: Annotated[
        float | None,
        "two-sided: alone, and corrected for looking at many (Benjamini-Hochberg over all slices and metrics, apart "
        "for single models and for all together); empty where it was not compared",
    ]
    q_value: float | None


@table("problems")
@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a model, the data or the instrument."""

    problem_id: Annotated[int, Sql("UINTEGER PRIMARY KEY"), "order of display: the worst first, by severity, then harm"]
    severity: Annotated[str, "`high`, `medium`, `low`"]
    type: Annotated[str, "`accuracy`, `classification`, `robustness`, `retrieval`, `dataset`, `cost`, `evaluation`, …"]
    question: Annotated[str, Sql("VARCHAR DEFAULT ''"), "the question of the verdict that it bears on, or empty"]
    kind: Annotated[str, "the check that found it: `failing_rows`, `missed_threshold`, `flips`, `slice`, `unscored`, …"]
    fault: Annotated[Fault, "who is at fault: `model`, `data`, `instrument`"]
    instrument: Annotated[bool, "no model is at fault"]
    harm: Annotated[float, "orders problems of one severity"]
    evaluator_id: EvaluatorId | None
    metric_id: MetricId | None
    model_id: ModelId | None
    description: Annotated[str, "what is the matter, and what to do"]
    actions: str
    attrs: Annotated[JsonObject, "JSON: [attributes](mechanisms/problems-and-insights.md)"]
    row_ids: Annotated[tuple[RowId, ...], "the rows concerned, at most 1,000"]


@table("insights")
@dataclass(frozen=True, slots=True)
class Insight:
    """A thing worth knowing that is no problem."""

    insight_id: Annotated[int, Sql("UINTEGER PRIMARY KEY"), "order of display"]
    type: Annotated[str, "`accuracy`, `performance`, `cost`, `retrieval`, `weak-point`, `grounding`, …"]
    evaluator_id: EvaluatorId | None
    metric_id: MetricId | None
    model_id: ModelId | None
    description: Annotated[str, "what was found, and what to do"]
    actions: str
    attrs: Annotated[JsonObject, "JSON: [attributes](mechanisms/problems-and-insights.md)"]
    row_ids: Annotated[tuple[RowId, ...], "the rows concerned, at most 1,000"]


@table("baseline")
class BaselineRun:
    """The run that this one was compared with; no line where nothing was to be compared."""

    baseline_run: Annotated[str | None, "its id; null where none was found or could be read, for the reason in `note`"]
    name: str
    tag: Annotated[str, "the tag by which it was found, or empty"]
    dataset_name: str
    started: Annotated[str, "ISO time"]
    new_cases: Annotated[Count, "cases that only this run's dataset has"]
    removed_cases: Annotated[Count, "cases that only the baseline's has"]
    note: str
    notes: Annotated[tuple[str, ...], "sentences for the reader"]


@table("model_changes")
class ChangedModel:
    """A model that both runs have: how its rows and answers differ from those in the baseline."""

    model_id: ModelId
    baseline_model: Annotated[str, "key of the model it was compared with"]
    verdict: Annotated[Verdict, "`pass`, `fail`, `inconclusive`: whether it is worse by more than the margins"]
    reason: Annotated[str, "one sentence"]
    n_rows: Annotated[Count, "cases that both runs have an answer of the model to"]
    n_same_answers: Annotated[Count, "of those, with the same answer and context"]
    n_changed: Annotated[Count, "cases left out since their question or expectation differs"]


@table("metric_changes")
class ChangedMetric:
    """The comparison of a metric and a model with the baseline. Positive effects are better, whatever the metric."""

    metric_id: MetricId
    model_id: ModelId
    verdict: Annotated[str, "`pass`, `fail`, `inconclusive`, `incomparable`, `one_sided`, `not_applicable`"]
    change: Annotated[str, "`better`, `worse`, `none shown`"]
    reason: Annotated[str, "one sentence"]
    baseline: Annotated[float | None, "over the cases that both runs scored"]
    candidate: float | None
    effect: Annotated[float | None, "by how much this run is better, with its 95 % interval"]
    ci_low: float | None
    ci_high: float | None
    n_pairs: Annotated[Count, "cases compared, and that could not be scored on both sides"]
    n_unscored: Count


@table("row_changes")
class ChangedSide:
    """A row that stands on another side of a threshold than in the baseline."""

    metric_id: MetricId
    row_id: RowId
    broken: Annotated[bool, "passed and now fails; else fixed"]
    baseline: Annotated[float, "the values in both runs"]
    candidate: float
    same_answer: Annotated[bool, "answer and context are the same: the instrument changed its mind"]
    baseline_answer: Annotated[str | None, "cut, of the rows that a report shows"]


TABLES: Final[tuple[type, ...]] = (
    RunEvaluator, RunMetric, MetricRule, MetricScore, RowEvidence, TurnScore, TurnEvidence, Aggregate, EvaluatorDetail,
    Correction, Certification, AnswerShare, QuestionLabel, QuestionVerdict, TrialSpread, RepeatedScore, RejudgedPair,
    WaveDecision, Flip, FlipRate, FlipCause, SliceMember, SliceMean, Problem, Insight, BaselineRun, ChangedModel,
    ChangedMetric, ChangedSide,
)  # fmt: skip


@cache
def run_definitions() -> str:
    """Return the statements that make the tables of a run's database."""
    statuses = "CREATE TYPE status AS ENUM ('scored', 'unscored', 'not_applicable');"
    return "\n".join([statuses, *map(definition, TABLES)])
