"""Fields that no text of a row holds: what its answer took, and the answer to the case that its case is a copy of."""

from pathlib import Path

import pytest

from leadline.evaluators.data import RowField
from leadline.tasks.db import attach_dataset, connect, digests_of
from leadline.tasks.plan.dataset_profile import profile
from leadline.tasks.score.rows import read_rows
from tests.support.datasets.loading import as_jsonl, load

RECORDS = [
    {"case": "a", "model": "m", "question": "Q", "answer": "one", "latency_s": 1.5, "cost": 0.1, "output_tokens": 3},
    {"case": "b", "model": "m", "question": "Q?", "answer": "two", "latency_s": 1.5},
    {"case": "c", "model": "m", "question": "Q", "answer": "three"},
    {"case": "a", "model": "n", "question": "Q", "answer": "four", "error": None},
    {"case": "c", "model": "n", "question": "Q", "error": "timeout", "latency_s": 60},
]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return load(tmp_path, "d.jsonl", as_jsonl(RECORDS)).path


def test_rows_hold_what_their_answers_took_and_the_answer_to_the_original(dataset):
    rows = {(row.case, row.model): row for row in read_rows(dataset)}
    first = rows["a", "m"]
    assert (first.duration_s, first.cost_usd, first.input_tokens, first.output_tokens) == (1.5, 0.1, None, 3)
    assert {key: row.original_answer for key, row in rows.items() if row.original_answer} == {
        ("c", "m"): "one",
        ("c", "n"): "four",
    }


def test_digests_are_equal_where_the_fields_are(dataset):
    fields = (
        RowField.QUESTION,
        RowField.DURATION_S,
        RowField.COST_USD,
        RowField.ORIGINAL_ANSWER,
        RowField.ACTUAL_ANSWER,
    )
    columns = ", ".join(field.value for field in fields)
    with connect() as connection:
        attach_dataset(connection, dataset)
        found = connection.sql(f"SELECT {columns} FROM {digests_of(fields)} ORDER BY row_id").fetchall()
    _, durations, costs, originals, answers = zip(*found, strict=True)
    assert durations[0] == durations[1] != durations[4]
    assert [cost is not None for cost in costs] == [True, False, False, False, False]
    assert originals == (None, None, answers[0], None, answers[3])


def test_rows_hold_the_other_models_answers_and_their_digest_changes_with_those_alone(tmp_path):
    def digests(*records: dict[str, str]) -> dict[tuple[str, str], bytes | None]:
        folder = load(tmp_path, "rivals.jsonl", as_jsonl(list(records))).path
        with connect() as connection:
            attach_dataset(connection, folder)
            source = f"{digests_of((RowField.RIVAL_ANSWERS,))} JOIN rows USING (row_id) JOIN cases USING (case_id)"
            names = "case_key, model_key, rival_answers"
            found = connection.sql(f"SELECT {names} FROM {source} JOIN models USING (model_id)").fetchall()
        return {(case, model): digest for case, model, digest in found}

    def rows(**answers: str) -> list[dict[str, str]]:
        return [{"case": "a", "model": model, "question": "Q", "answer": text} for model, text in answers.items()]

    alone = {"case": "b", "model": "m", "question": "Q", "answer": "alone"}
    failed = {"case": "b", "model": "n", "question": "Q", "error": "timeout"}
    first = digests(*rows(m="one", n="two", o="three"), alone, failed)
    assert first["b", "m"] is None  # its rival gave no answer
    assert first["b", "n"] is not None
    other_order = digests(*rows(o="three", n="two", m="one"), alone, failed)
    assert other_order == first
    changed = digests(*rows(m="ONE", n="two", o="three"), alone, failed)
    assert [changed["a", model] == first["a", model] for model in "mno"] == [True, False, False]
    folder = load(tmp_path, "rivals.jsonl", as_jsonl([*rows(o="three", n="two", m="one"), alone, failed])).path
    rivals = {(row.case, row.model): row.rival_answers for row in read_rows(folder)}
    assert rivals["a", "n"] == (("m", "one"), ("o", "three"))
    assert rivals["b", "m"] == ()


def test_a_profile_knows_them(dataset, tmp_path):
    known = frozenset().union(*profile(dataset).fields)
    assert {RowField.DURATION_S, RowField.COST_USD, RowField.OUTPUT_TOKENS} <= known
    assert {RowField.ORIGINAL_ANSWER, RowField.RIVAL_ANSWERS} <= known
    assert RowField.INPUT_TOKENS not in known
    plain = load(tmp_path, "plain.jsonl", as_jsonl(RECORDS[:1])).path
    assert not {RowField.ORIGINAL_ANSWER, RowField.RIVAL_ANSWERS} & frozenset().union(*profile(plain).fields)
