"""The summary: what a reader must know first, in sentences, with an example of each of the worst problems."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from leadline.tasks.db import open_run, sql
from leadline.tasks.publish.run_results import read_results
from leadline.tasks.publish.summary import MOST_TEXT, Piece, Summary
from tests.tasks.publish.sample import make_sample


def summary_of(root: Path, *statements: str, record: Mapping[str, Any] | None = None) -> Summary:
    """Return the summary of the sample run after some changes to its database and record."""
    store, run = make_sample(root)
    with open_run(store, run) as connection:
        for statement in statements:
            connection.execute(statement)
        return read_results(connection, run, run.read() | dict(record or {})).summary


LEAK = """
INSERT INTO problems VALUES
    (10000, 'high', 'privacy', 'safe', 'failing_rows', 'model', false, 9, 2, 3, 1,
    'One answer leaks.', 'Fix it.', '{}', [1])
"""
ONLY = "DELETE FROM problems;"


def test_the_worst_problems_come_with_an_answer_and_the_words_that_are_wrong(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, ONLY, LEAK)
    (worst,) = summary.worst
    assert (worst.severity, worst.fault, worst.model, worst.n_rows) == ("high", "model", "Harbour RAG 2.1", 1)
    assert worst.example is not None
    assert worst.example.case == "case-0000"
    assert worst.example.question.startswith("What do you know about the refund policy")
    assert worst.example.answer[:2] == (Piece("It was fix"), Piece("ed in ", marked=True))
    assert worst.example.reason == "A card number was found <here>."
    kept = json.dumps(summary.to_json(), default=list)
    assert "case-0000" in kept
    assert "ed in" not in kept  # the file for programs goes to many places


def test_the_verdict_names_the_models_with_grave_problems_and_those_without(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, ONLY, LEAK, record={"policy": {"name": "default", "digest": "0123456789abcdef"}})
    assert summary.verdict == (
        "The run fails its gate. Harbour RAG 2.1 has problems of high severity, Falcon Mini and wren-7b <b>& none."
    )
    assert summary.why.startswith("3 problems of high severity")
    assert summary.policy == "Judged by the policy default."


def test_coverage_and_intervals_are_put_into_words(tmp_path: Path) -> None:
    make_clean = "UPDATE aggregates SET n_pass = n_scored, pass_low = 0.9 WHERE metric_id = 3"
    measured, clear, width, unseen, warning = summary_of(tmp_path, make_clean).sure
    assert "% of the applicable scores were measured" in measured
    assert clear == "Of 12 means with a threshold, 9 surely satisfy it and 3 surely miss it."
    assert unseen == "Where no answer fails a check, up to 10 % of other answers may still fail it."
    assert width.startswith("A typical mean is known to within ±0.")
    assert warning == "2 rows have no context."


def test_what_labels_decide_is_told_by_labels_and_not_by_the_judges_verdict(tmp_path: Path) -> None:
    use = "UPDATE rules SET use = 'corrected' WHERE role = 'should'"
    sure = summary_of(tmp_path, use).sure
    assert not any("with a threshold" in sentence for sentence in sure)
    [told] = [sentence for sentence in sure if "corrected by people's labels" in sentence]
    assert "0 surely satisfy what is asked for and 0 surely miss it" in told
    assert told.endswith("cannot be told with so few labels.")


def test_what_labels_decide_is_counted_by_primary_metrics(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "one").mkdir()
    primary = "UPDATE rules SET use = 'corrected' WHERE metric_id IN (SELECT metric_id FROM metrics WHERE is_primary)"
    assert summary_of(tmp_path / "all", "UPDATE rules SET use = 'corrected'").sure == (
        summary_of(tmp_path / "one", primary).sure
    )


def test_without_problems_of_models_those_of_the_data_or_the_instrument_are_the_worst(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, "DELETE FROM problems WHERE fault = 'model'", record={"gate": "inconclusive"})
    assert [worst.fault for worst in summary.worst] == ["instrument"]
    assert summary.verdict == "Whether the run passes its gate cannot be told."


def test_a_long_problem_ends_with_a_sentence_and_of_many_warnings_the_first_are_repeated(tmp_path: Path) -> None:
    long = LEAK.replace("One answer leaks.", "One answer leaks. " + "It says so. " * 99)
    warnings = [f"column {i} was not used" for i in range(5)]
    summary = summary_of(tmp_path, ONLY, long, record={"dataset_warnings": warnings})
    assert summary.worst[0].description.endswith("It says so.")
    assert summary.sure[-2:] == ("Column 2 was not used.", "2 further warnings on the dataset: see Instrument.")


def test_names_of_any_length_leave_the_first_screen_readable(tmp_path: Path) -> None:
    summary = summary_of(
        tmp_path, ONLY, LEAK.replace("One answer leaks.", "x" * 9999), record={"gate_reason": "y" * 9999}
    )
    assert len(summary.why) < 1000
    assert len(summary.worst[0].headline) < 1000


def test_a_long_answer_is_cut_around_what_is_wrong_with_it(tmp_path: Path) -> None:
    span = {"source": "actual_answer", "start": 500_000, "end": 500_014, "note": "card"}
    evidence = json.dumps({"spans": [span, {"source": "actual_answer"}, "rubbish"]})
    summary = summary_of(
        tmp_path,
        ONLY,
        LEAK.replace("[1]", "[17]").replace("3, 1, 'One", "3, 2, 'One"),  # case-0005 of the third model
        "DELETE FROM evidence WHERE evaluator_id = 2",
        f"INSERT INTO evidence VALUES (2, 17, 0, '{evidence}', NULL, NULL, NULL)",
    )
    example = summary.worst[0].example
    assert example is not None
    assert sum(len(piece.text) for piece in example.answer) <= MOST_TEXT + 2


@pytest.mark.parametrize("evidence", ["not JSON", "[]", '{"spans": {}}', '{"spans": [{"start": -1, "end": 1e9}]}'])
def test_evidence_that_cannot_be_read_marks_nothing(tmp_path: Path, evidence: str) -> None:
    summary = summary_of(tmp_path, ONLY, LEAK, f"UPDATE evidence SET evidence = '{evidence}'")
    assert summary.worst[0].example is not None
    assert not any(piece.marked for piece in summary.worst[0].example.answer)


def test_the_mean_time_of_a_model_is_that_of_the_rows_that_its_host_answered() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE run_models AS SELECT 1 AS model_id, 'm' AS model_key, 'm' AS name, "
                           "'' AS version, true AS is_rag")  # fmt: skip
        connection.execute("CREATE TABLE run_rows AS SELECT * FROM (VALUES (1, 1, NULL, 1.0, 0), (2, 1, NULL, 2.0, 0), "
                           "(3, 1, '504', 30.0, 0)) AS t(row_id, model_id, error, duration_s, cost_usd)")  # fmt: skip
        [line] = connection.execute(sql("publish/models")).fetchall()
    assert line[5:8] == (3, 1, 1.5)
