"""The heart of a run: keys, the anti-join plan, chunks, segments, and what is gathered from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest

from leadline.evaluators.core import EvalContext, Evaluator, Metric, Params, RowEvaluator, Spec, registry
from leadline.evaluators.data import Evidence, NotApplicable, Reason, Row, RowField, RowScore, Unscored
from leadline.evaluators.data import row as types
from leadline.evaluators.ground import ModelUnavailable
from leadline.evaluators.settings import Settings
from leadline.tasks.analyse.gather import gather, register_jobs
from leadline.tasks.db import open_run
from leadline.tasks.plan.jobs import Chunk, EvaluatorJob, cut, make_jobs, read_jobs, write_jobs
from leadline.tasks.plan.planner import plan
from leadline.tasks.policy.policy import load_policy
from leadline.tasks.score.chunk import ChunkResult, score_chunk
from leadline.tasks.score.scoring import score_rows
from leadline.tasks.store.parquet_files import atomic_parquet
from leadline.tasks.store.segments import stored, unscored_rows
from leadline.tasks.store.store import Run, Store
from tests.support.datasets.dataset import make_dataset
from tests.support.stores.scoring import planned, registered


class LengthParams(Params):
    scale: float = 1.0


class Length(RowEvaluator):
    """Length of the answer, counted each time it is asked for."""

    spec = Spec(
        id="test.length",
        name="Length",
        family="generation",
        inputs=(RowField.ACTUAL_ANSWER,),
        metrics=(
            Metric("length", "Length", higher_is_better=True, range=(0, 1e9), threshold=3, primary=True),
            Metric("halves", "Halves", higher_is_better=True, range=(0, 1e9), threshold=None),
        ),
    )
    parameters = LengthParams
    seen: ClassVar[list[tuple[str, str]]] = []

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        assert isinstance(self.params, LengthParams)
        self.seen.append((row.case, row.model))
        if row.actual_answer == "boom":
            raise ValueError("cannot stand this answer")
        if row.actual_answer == "n/a":
            return RowScore({"length": 3.0, "halves": NotApplicable("cannot be halved")})
        if row.actual_answer == "mute":
            return RowScore({"length": 4.0, "halves": Unscored(Reason.UNSCORABLE, "nothing to halve")})
        size = len(row.actual_answer or "") * self.params.scale
        halves = Unscored(Reason.JUDGE_UNPARSEABLE, "eh?") if row.actual_answer == "half" else size / 2
        return RowScore({"length": size, "halves": halves}, Evidence(f"{size:g} long") if size > 4 else Evidence())


class Grounds(RowEvaluator):
    """Needs an answer and a context."""

    spec = Spec(
        id="test.grounds",
        name="Grounds",
        family="generation",
        inputs=(RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=(Metric("grounds", "Grounds", higher_is_better=True, primary=True, share=True),),
    )

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        return RowScore({"grounds": float(any(row.actual_answer in c.content for c in row.retrieved_context))})


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    Length.seen.clear()
    with registered(Length, Grounds):
        yield


ANSWERS: list[dict[str, Any]] = [
    {"case": "a", "model": "m", "question": "q1", "answer": "yes", "context": ["yes it is"]},
    {"case": "b", "model": "m", "question": "q2", "answer": "no way", "context": ["perhaps"]},
    {"case": "c", "model": "m", "question": "q3", "answer": "yes"},
    {"case": "a", "model": "n", "question": "q1", "error": "429 from the host", "context": ["yes it is"]},
    {"case": "b", "model": "n", "question": "q2"},
]


def run_once(
    store: Store, answers: list[dict[str, Any]], *, scale: float = 1.0, ids: tuple[str, ...] = ("length", "grounds")
) -> tuple[Run, list[ChunkResult]]:
    kinds: dict[str, Evaluator] = {"length": Length(LengthParams(scale=scale)), "grounds": Grounds()}
    run, chunks = planned(store, [kinds[id_] for id_ in ids], answers, processes=2)
    results = [score_chunk(chunk) for chunk in chunks]
    _, jobs = read_jobs(run.plan / "jobs.json")
    with open_run(store, run) as connection:
        gather(connection, store, run, jobs)
    return run, results


def scores(store: Store, run: Run) -> dict[tuple[str, str, str], tuple[str, str | None, float | None]]:
    with open_run(store, run, read_only=True) as connection:
        return {
            (case, model, metric): (status, reason, value)
            for case, model, metric, status, reason, value in connection.execute(
                "SELECT case_key, model_key, metric, status, reason, value FROM scores "
                "JOIN metrics USING (metric_id) JOIN rows USING (row_id) JOIN cases USING (case_id) "
                "JOIN models USING (model_id)"
            ).fetchall()
        }


def test_every_row_ends_with_one_line_per_metric(store: Store) -> None:
    run, _ = run_once(store, ANSWERS)
    got = scores(store, run)
    assert len(got) == 5 * 3
    assert got["a", "m", "length"] == ("scored", None, 3.0)
    assert got["b", "m", "halves"] == ("scored", None, 3.0)
    assert got["a", "m", "grounds"] == ("scored", None, 1.0)
    assert got["b", "m", "grounds"] == ("scored", None, 0.0)


def test_a_missing_input_is_not_applicable_and_a_host_error_is_unscored(store: Store) -> None:
    got = scores(store, run_once(store, ANSWERS)[0])
    assert got["c", "m", "grounds"] == ("not_applicable", None, None)
    assert got["b", "n", "length"] == ("not_applicable", None, None)
    assert got["a", "n", "length"] == ("unscored", "host_error", None)
    assert got["a", "n", "grounds"] == ("unscored", "host_error", None)


def test_rows_beyond_an_evaluators_limit_are_not_applicable_and_a_higher_limit_scores_what_is_new(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [
        {"case": case, "model": model, "question": case, "answer": case + model} for model in "mn" for case in "abc"
    ]
    monkeypatch.setattr(Length, "max_rows", 2)
    got = scores(store, run_once(store, answers, ids=("length",))[0])
    assert Length.seen == [("a", "m"), ("a", "n")]  # the same case for both models, though their rows stand apart
    assert got["b", "m", "length"] == ("not_applicable", "over_limit", None)
    Length.seen.clear()
    monkeypatch.setattr(Length, "max_rows", 3)
    run, _ = run_once(store, answers, ids=("length",))
    assert Length.seen == [("b", "m")]
    with open_run(store, run, read_only=True) as connection:
        told = connection.execute("SELECT DISTINCT error FROM evidence WHERE error IS NOT NULL").fetchall()
    assert told == [("The row is beyond the limit of rows that this evaluator may score.",)]


def test_equal_rows_are_scored_once(store: Store) -> None:
    run_once(store, ANSWERS, ids=("length",))
    assert sorted(Length.seen) == [("a", "m"), ("b", "m")]


def test_a_second_run_computes_nothing_and_says_the_same(store: Store) -> None:
    first, _ = run_once(store, ANSWERS)
    Length.seen.clear()
    second, results = run_once(store, ANSWERS)
    assert results == []
    assert Length.seen == []
    assert scores(store, first) == scores(store, second)


def test_a_changed_parameter_recomputes_its_evaluator_only(store: Store) -> None:
    run_once(store, ANSWERS)
    run, results = run_once(store, ANSWERS, scale=2.0)
    assert sum(result.scored for result in results) == 2
    assert scores(store, run)["a", "m", "length"] == ("scored", None, 6.0)


def test_an_edited_row_recomputes_that_row_only(store: Store) -> None:
    run_once(store, ANSWERS)
    edited = [dict(answer) for answer in ANSWERS]
    edited[1]["answer"] = "never"
    Length.seen.clear()
    _, results = run_once(store, edited)
    assert Length.seen == [("b", "m")]
    assert sum(result.scored for result in results) == 2  # one of each evaluator


def test_a_field_that_an_evaluator_does_not_read_does_not_change_its_key(store: Store) -> None:
    run_once(store, ANSWERS)
    edited = [answer | {"question": "another?"} for answer in ANSWERS]
    _, results = run_once(store, edited)
    assert results == []


def test_a_row_that_cannot_be_scored_costs_no_other_and_is_tried_again(store: Store) -> None:
    answers = [*ANSWERS, {"case": "d", "model": "m", "answer": "boom"}, {"case": "e", "model": "m", "answer": "half"}]
    run, _ = run_once(store, answers, ids=("length",))
    got = scores(store, run)
    assert got["d", "m", "length"] == ("unscored", "evaluator_error", None)
    assert got["e", "m", "length"] == ("scored", None, 4.0)
    assert got["e", "m", "halves"] == ("unscored", "judge_unparseable", None)
    assert got["b", "m", "length"] == ("scored", None, 6.0)
    with open_run(store, run, read_only=True) as connection:
        messages = connection.execute("SELECT error FROM evidence WHERE error IS NOT NULL ORDER BY 1").fetchall()
    assert ("ValueError: cannot stand this answer",) in messages
    Length.seen.clear()
    run_once(store, answers, ids=("length",))
    assert sorted(Length.seen) == [("d", "m"), ("e", "m")]


def test_a_chunk_that_was_never_scored_is_a_lost_worker_not_a_zero(store: Store) -> None:
    dataset = make_dataset(store, ANSWERS)
    jobs = make_jobs([Grounds()], Settings())
    run = store.new_run()
    run.update({"dataset": dataset})
    with open_run(store, run, create=True) as connection:
        register_jobs(connection, plan(connection, store, jobs), load_policy("sonar"))
        gather(connection, store, run, jobs)
    assert scores(store, run)["a", "m", "grounds"] == ("unscored", "worker_lost", None)


def test_a_metric_may_not_apply_to_a_row_that_has_all_inputs(store: Store) -> None:
    answers = [{"case": "a", "model": "m", "answer": "n/a"}]
    got = scores(store, run_once(store, answers, ids=("length",))[0])
    assert got["a", "m", "length"] == ("scored", None, 3.0)
    assert got["a", "m", "halves"] == ("not_applicable", None, None)
    assert run_once(store, answers, ids=("length",))[1] == []


def test_a_row_that_can_never_be_scored_is_not_tried_again(store: Store) -> None:
    answers = [{"case": "a", "model": "m", "answer": "mute"}]
    run, _ = run_once(store, answers, ids=("length",))
    assert scores(store, run)["a", "m", "halves"] == ("unscored", "unscorable", None)
    again, results = run_once(store, answers, ids=("length",))
    assert results == []
    assert scores(store, again) == scores(store, run)
    with open_run(store, again, read_only=True) as connection:
        assert connection.execute("SELECT error FROM evidence").fetchall() == [("nothing to halve",)]


def test_evidence_is_gathered_where_there_is_some(store: Store) -> None:
    run, _ = run_once(store, ANSWERS, ids=("length",))
    with open_run(store, run, read_only=True) as connection:
        said = connection.execute("SELECT evidence FROM evidence WHERE evidence IS NOT NULL").fetchall()
    assert said == [('{"message":"6 long"}',)]


def test_scoring_a_chunk_again_changes_nothing(store: Store) -> None:
    run, _ = run_once(store, ANSWERS)
    before = {path: path.read_bytes() for path in store.root.glob("scores/**/*.parquet")}
    _, jobs = read_jobs(run.plan / "jobs.json")
    dataset = run.read()["dataset"]
    score_chunk(Chunk(str(store.root), run.id, dataset, "cpu", 0, 0, 4, 5, 5))
    assert {path: path.read_bytes() for path in store.root.glob("scores/**/*.parquet")} == before
    with open_run(store, run) as connection:
        gather(connection, store, run, jobs)
    assert len(scores(store, run)) == 15


def test_two_runs_that_scored_the_same_row_give_one_score(store: Store) -> None:
    run, _ = run_once(store, ANSWERS, ids=("length",))
    (segment,) = store.root.glob("scores/test.length/*/*.parquet")
    segment.with_name("zz-another-run.parquet").write_bytes(segment.read_bytes())
    with open_run(store, run) as connection:
        gather(connection, store, run, read_jobs(run.plan / "jobs.json")[1])
    assert len(scores(store, run)) == 10


def test_an_attempt_that_ends_late_and_worse_takes_nothing_away(store: Store) -> None:
    run, _ = run_once(store, ANSWERS, ids=("length",))
    _, jobs = read_jobs(run.plan / "jobs.json")
    with open_run(store, run, read_only=True) as connection:
        keys = [key for (key,) in connection.execute("SELECT DISTINCT key FROM keys ORDER BY ALL").fetchall()]
    lost = RowScore.unscored(("length", "halves"), Reason.JUDGE_UNAVAILABLE, "too late")
    for name in ("cpu-0000.late", "cpu-0000.later"):
        with atomic_parquet(run.unscored / f"{name}.parquet") as late:
            late.add(unscored_rows(jobs[0].evaluator_id, keys, [stored(lost)] * len(keys), 0))
    before = scores(store, run)
    with open_run(store, run) as connection:
        gather(connection, store, run, jobs)
        ((lines, distinct),) = connection.execute(
            "SELECT count(*), count(DISTINCT (metric_id, row_id, trial)) FROM scores"
        ).fetchall()
        errors = connection.execute("SELECT count(*) FROM evidence WHERE error = 'too late'").fetchall()
    assert lines == distinct
    assert scores(store, run) == before
    assert errors == [(0,)]


def test_only_the_chosen_models_are_planned(store: Store) -> None:
    dataset = make_dataset(store, ANSWERS)
    jobs = make_jobs([Length()], Settings())
    run = store.new_run()
    run.update({"dataset": dataset})
    with open_run(store, run, create=True) as connection:
        (need,) = plan(connection, store, jobs, ["n"])
    assert (need.applicable, need.host_errors, need.not_applicable) == (0, 1, 1)


@pytest.mark.slow
def test_chunks_cover_every_row_once_and_stay_few(store: Store) -> None:
    answers = [{"case": str(n), "model": "m", "answer": f"answer {n}"} for n in range(1200)]
    jobs = make_jobs([Length()], Settings())
    run = store.new_run()
    run.update({"dataset": make_dataset(store, answers)})
    with open_run(store, run, create=True) as connection:
        plan(connection, store, jobs)
        chunks = cut(connection, jobs, store, run, processes=2)
    assert sum(chunk.rows for chunk in chunks) == 1200
    assert all(left.last < right.first for left, right in pairwise(chunks))


def test_a_missing_model_leaves_all_rows_unscored_with_the_command(store: Store) -> None:
    class Needy(Length):
        def score(self, rows: Any, ctx: EvalContext) -> list[RowScore]:
            raise ModelUnavailable("No weights.", hint="Fetch them with: leadline evaluators models pull x")

    (result,) = score_rows(Needy(), [Row("a", "m", actual_answer="x")], EvalContext())
    assert result.values["length"] == Unscored(
        Reason.MODEL_UNAVAILABLE, "No weights. Fetch them with: leadline evaluators models pull x"
    )


@pytest.mark.slow
@pytest.mark.parametrize("id_", ["hallucination", "summarization_completeness_faithfulness"])
def test_one_command_fetches_all_that_an_evaluator_of_several_models_lacks(
    id_: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    text = "The ship sails to the harbour. The harbour lies in the north. The north is cold in winter."
    row = Row("a", "m", question=text, actual_answer=text, retrieved_context=(types.ContextChunk(text),))
    (result,) = score_rows(registry.get(id_)(), [row], EvalContext(Settings(device="cpu")))
    messages = {value.message for value in result.values.values() if isinstance(value, Unscored)}
    assert len(messages) >= 1
    assert {message.partition("Fetch them with: ")[2] for message in messages} == {
        f"leadline evaluators models pull {id_}"
    }


@pytest.mark.parametrize(
    "bad", [{"length": float("nan"), "halves": 1.0}, {"length": 1.0}, {"length": float("inf"), "halves": 0.0}]
)
def test_a_result_that_breaks_the_contract_is_an_evaluator_error(bad: dict[str, float]) -> None:
    class Broken(Length):
        def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
            return RowScore(bad)

    (result,) = score_rows(Broken(), [Row("a", "m", actual_answer="x")], EvalContext())
    assert all(isinstance(v, Unscored) and v.reason is Reason.EVALUATOR_ERROR for v in result.values.values())


def test_an_evaluator_without_identity_runs_as_an_error_not_as_a_crash(store: Store) -> None:
    class Nameless(Grounds):
        def identity(self, ctx: EvalContext) -> dict[str, Any]:
            raise RuntimeError("lost my papers")

    (job,) = make_jobs([Nameless()], Settings())
    assert job.error == "RuntimeError: lost my papers"
    dataset = make_dataset(store, ANSWERS)
    run = store.new_run()
    run.update({"dataset": dataset})
    with open_run(store, run, create=True) as connection:
        register_jobs(connection, plan(connection, store, [replace(job)]), load_policy("sonar"))
        gather(connection, store, run, [job])
    assert scores(store, run)["a", "m", "grounds"] == ("unscored", "evaluator_error", None)


def test_jobs_survive_the_way_to_a_worker(tmp_path: Path) -> None:
    jobs: tuple[EvaluatorJob, ...] = make_jobs([Length(LengthParams(scale=2.5)), Grounds()], Settings(language="de"))
    write_jobs(tmp_path / "jobs.json", jobs, Settings(language="de"))
    assert read_jobs(tmp_path / "jobs.json") == (Settings(language="de"), jobs)
