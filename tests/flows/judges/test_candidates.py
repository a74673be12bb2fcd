"""Judges are asked about the rows that people labelled, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.evaluators.ground import UsageError
from leadline.evaluators.judge_client.budget import Limits
from leadline.flows.certify_judges import judging_named
from leadline.flows.shared.settings import JudgeAccess
from leadline.tasks.judges.labels.judging import judge_labelled_rows, need_of
from leadline.tasks.judges.labels.known_labels import known_labels
from leadline.tasks.judges.labels.labelled_rows import LabelledRows, find_labelled_rows
from leadline.tasks.store.store import Store
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.judges.labelled_answers import METRIC, judge_of_accuracy, labelled_by_people, write_settings

ROWS = 60


@pytest.fixture
def judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JudgeEndpoint]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEADLINE_STORE", raising=False)
    with serving(judge_of_accuracy({"weak": 0.7, "good": 0.95})) as endpoint:
        write_settings(tmp_path, endpoint.url, {"weak": "weak", "good": "good"})
        yield endpoint


@pytest.fixture
def labelled(judges: JudgeEndpoint, tmp_path: Path) -> tuple[Store, LabelledRows]:
    store = labelled_by_people(tmp_path, ROWS)
    return store, find_labelled_rows(store, known_labels(store))


def test_labelled_rows_are_found_by_their_texts(labelled: tuple[Store, LabelledRows]) -> None:
    _, rows = labelled
    assert rows.question == METRIC
    assert len(rows.rows) == ROWS
    assert rows.missing == 0
    assert {row.case for row in rows.rows} == {f"c{number}" for number in range(ROWS)}
    assert rows.values(binary=True).mean() == 0.7
    halves = [rows.half(held_out=True).rows, rows.half(held_out=False).rows]
    assert {row.key for row in halves[0]} | {row.key for row in halves[1]} == {row.key for row in rows.rows}
    assert min(map(len, halves)) > ROWS / 4


def test_the_scores_of_a_run_are_not_asked_for_again(
    labelled: tuple[Store, LabelledRows], judges: JudgeEndpoint
) -> None:
    store, rows = labelled
    asked = len(judges.log)
    assert asked == ROWS
    judging = judging_named(store, rows, JudgeAccess(model="weak"))
    assert (need_of(store, rows, judging).to_judge, need_of(store, rows, judging).known) == (0, ROWS)
    verdicts = judge_labelled_rows(store, rows, judging).verdicts
    assert len(judges.log) == asked
    assert all(verdict.value is not None and len(verdict.calls) == 1 for verdict in verdicts)


def test_another_judge_is_asked_once_and_its_scores_are_a_run_s_scores(
    labelled: tuple[Store, LabelledRows], judges: JudgeEndpoint, tmp_path: Path
) -> None:
    from leadline.cli.main import run

    store, rows = labelled
    judging = judging_named(store, rows, JudgeAccess(model="good"))
    need = need_of(store, rows, judging)
    assert (need.to_judge, need.calls) == (ROWS, ROWS)
    assert need.cost_usd is not None
    assert need.cost_usd > 0
    judged = judge_labelled_rows(store, rows, judging)
    assert [line.question.body["model"] for line in judges.log[ROWS:]] == ["good"] * ROWS
    right = [v.value == y for v, y in zip(judged.verdicts, rows.values(binary=True), strict=True)]
    assert 0.85 < sum(right) / ROWS < 1
    judge_labelled_rows(store, rows, judging)
    assert run(["--quiet", "evaluate", "answers.jsonl", "-e", "sexism", "--judge", "good"]) == 0
    assert len(judges.log) == 2 * ROWS


def test_a_spent_budget_leaves_rows_without_a_verdict_and_the_next_time_asks_for_these_alone(
    labelled: tuple[Store, LabelledRows], judges: JudgeEndpoint
) -> None:
    store, rows = labelled
    judging = judging_named(store, rows, JudgeAccess(model="good"))
    first = judge_labelled_rows(store, rows, judging, limits=Limits(20))
    assert sum(first.problems.values()) == ROWS - 20
    assert all(reason.startswith("budget") for reason in first.problems)
    assert need_of(store, rows, judging).to_judge == ROWS - 20
    assert not judge_labelled_rows(store, rows, judging).problems
    assert len(judges.log) == 2 * ROWS


def test_the_rows_of_a_question_that_no_judge_answers_are_refused(labelled: tuple[Store, LabelledRows]) -> None:
    store, _ = labelled
    with pytest.raises(UsageError, match="There are no labels of 'bleu'"):
        find_labelled_rows(store, known_labels(store), "bleu")
    with pytest.raises(UsageError, match="There are no labels"):
        find_labelled_rows(store, {})
