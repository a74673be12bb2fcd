"""Every way in which records can be wrong is said with row and column, all at once, before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from leadline.evaluators.ground import DatasetError, UsageError
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.store.store import Store
from tests.support.datasets.loading import as_csv, as_jsonl, faults, load, tables, write

GOOD: dict[str, Any] = {"case": "c1", "model": "m", "question": "Q", "actual_answer": "A"}


def test_all_faults_are_listed_in_one_go(tmp_path: Path) -> None:
    lines = [
        json.dumps(GOOD),
        '{"case": "c2", "question": "Q", "actual_answer": "A"',
        "",
        json.dumps(GOOD | {"case": "c3", "duration_s": -1, "input_tokens": 1.5, "question": {}}),
        json.dumps(GOOD),
        json.dumps(GOOD | {"case": "c4", "condition": '"a" AND'}),
        json.dumps(GOOD | {"case": "c5", "model": "n", "question": "Q5"}),
        json.dumps(GOOD | {"case": "c5", "model": "o", "question": "another"}),
        "[1]",
    ]
    found = faults(tmp_path, "d.jsonl", "\n".join(lines))
    assert [fault.split(": ")[0] for fault in found] == [
        "row 2", "row 4, question", "row 4, duration_s", "row 4, input_tokens", "row 5", "row 6, condition",
        "row 8, question", "row 9",
    ]  # fmt: skip
    text = "\n".join(found)
    assert "-1 is negative" in text
    assert "expected a text, found an object" in text
    assert "model 'm' answers case 'c1' a second time; the first is in row 1" in text
    assert "case 'c5' has another question in row 7" in text
    assert "expected an object, found a list" in text


def test_only_the_first_faults_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "d.jsonl", as_jsonl([GOOD | {"case": str(i), "cost_usd": "x"} for i in range(500)]))
    with pytest.raises(DatasetError, match="500 faults") as refused:
        load_dataset(Store.open(tmp_path / "store"), path)
    assert (len(refused.value.faults), refused.value.more) == (200, 300)


def test_duplicates_beyond_the_list_are_counted_too(tmp_path: Path) -> None:
    path = write(tmp_path, "d.jsonl", as_jsonl([GOOD] * 301))
    with pytest.raises(DatasetError) as refused:
        load_dataset(Store.open(tmp_path / "store"), path)
    assert (len(refused.value.faults), refused.value.more) == (200, 100)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("actual_answer", ["a"], "expected a text, found a list"),
        ("question", {"a": 1}, "expected a text, found an object"),
        ("expected_answer", [[1]], "element 1: expected a text, found a list"),
        ("expected_answer", {"a": 1}, "expected a text or a list of texts"),
        ("retrieved_context", [{"body": "x"}], "chunk 1: a chunk needs content or doc_uri"),
        ("retrieved_context", ["a", ["b"]], "chunk 2: expected a text, found a list"),
        ("retrieved_context", {"content": "x"}, "expected a list of chunks"),
        ("expected_documents", [{"content": "x"}], "a document needs doc_uri"),
        ("duration_s", "1.5", "expected a number, found a text"),
        ("duration_s", True, "expected a number, found a boolean"),
        ("duration_s", -0.5, "-0.5 is negative"),
        ("output_tokens", -3, "-3 is negative"),
        ("output_tokens", 2.5, "2.5 is not a whole number"),
        ("output_tokens", 2**70, "is not a whole number"),
        ("case", ["k"], "expected a key"),
        ("case", "k" * 2000, "the key has 2,000 characters"),
        ("model", 1.5, "expected a key"),
        ("metadata", [1], "expected an object, found a list"),
        ("categories", [["x"]], "element 1: expected a text, found a list"),
        ("relationships", ["c2"], "expected a list of objects, found a text"),
        ("relationships", [{"type": "perturbation_source"}], "the relationship has no target"),
        ("relationships", [{"type": "perturbation_source", "target": []}], "the relationship has no target"),
        ("relationships", [{"type": "perturbation_source", "target": "c9"}], "there is no case 'c9' (case 'c1')"),
        ("relationships", [{"type": "perturbation_source", "target": "c1"}], "the case is its own original"),
        ("condition", "a OR", "does not parse: at character 1"),
    ],
)
def test_a_wrong_value_is_named_with_its_row_and_column(tmp_path: Path, field: str, value: Any, said: str) -> None:
    (fault,) = faults(tmp_path, "d.jsonl", as_jsonl([GOOD | {"case": "c0"}, GOOD | {field: value}]))
    assert fault.startswith(f"row 2, {field}: ")
    assert said in fault


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none_are_refused(tmp_path: Path, number: str) -> None:
    line = '{"case": "c", "question": "Q", "actual_answer": "A", "duration_s": ' + number + "}\n"
    assert faults(tmp_path, "d.jsonl", line)[0].startswith("row 1, duration_s: ")
    content = f"case,actual_answer,duration_s\nc,A,{number}\n"
    assert faults(tmp_path, "d.csv", content)[0].startswith("row 1, duration_s: ")


@pytest.mark.parametrize("cell", ["abc", "1_000", "1,5", "0x10", "--1", "nan", " "])
def test_cells_that_are_no_numbers_are_refused(tmp_path: Path, cell: str) -> None:
    content = as_csv([{"case": "c", "actual_answer": "A", "duration_s": cell}])
    assert faults(tmp_path, "d.csv", content)[0].startswith("row 1, duration_s: ")


def test_a_negative_cost_is_data_for_the_report_and_no_fault(tmp_path: Path) -> None:
    assert load(tmp_path, "d.jsonl", as_jsonl([GOOD | {"cost_usd": -0.5}])).rows == 1


def test_faults_within_a_document_say_where_they_are(tmp_path: Path) -> None:
    document = {
        "models": [{"name": "no key"}, {"key": "m"}, {"key": "m"}],
        "cases": [
            {"key": "c1", "question": "Q", "answers": [{"model": "m", "actual_answer": "A"}, 5]},
            {"key": "c2", "question": "Q", "answers": [{"model": "m", "duration_s": "long", "actual_answer": "A"}]},
            {"key": "c2", "question": "other"},
            {"key": "c3", "question": "Q", "answers": {"model": "m"}},
        ],
        "answers": [{"case": "c4", "model": "m", "actual_answer": "A"}],
    }
    assert [fault.split(": ")[0] for fault in faults(tmp_path, "d.json", document)] == [
        "row 1, models[].key",
        "row 1, cases[].answers[2].",
        "row 1, answers[].case",
        "row 2, cases[].answers[1].duration_s",
        "row 3, models[].key",
        "row 3, cases[].question",
        "row 4, cases[].answers",
    ]


def test_an_answer_to_a_case_that_the_document_does_not_have_is_refused(tmp_path: Path) -> None:
    document = {"cases": [{"key": "c1", "question": "Q"}], "answers": [{"case": "c2", "actual_answer": "A"}]}
    (fault,) = faults(tmp_path, "d.json", document)
    assert fault == "row 1, answers[].case: there is no case 'c2'"


def test_models_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    records = [GOOD | {"model_name": "One"}, GOOD | {"case": "c2", "model_name": "Two"}]
    (fault,) = faults(tmp_path, "d.jsonl", as_jsonl(records))
    assert fault == "row 2, name: model 'm' has name 'Two' here and 'One' before"


def test_answers_without_a_model_among_others_are_refused(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, "d.jsonl", as_jsonl([GOOD, {"case": "c2", "question": "Q", "actual_answer": "A"}]))
    assert fault == "row 2: the answer names no model; the dataset has 'm'"


@pytest.mark.parametrize(
    ("content", "column"),
    [
        ('{"question": "Q", "expected_answer": "A"}', "actual_answer"),
        ('{"request": "Q"}', "response"),
        ('{"user_input": "Q", "reference": "R"}', "response"),
        ('{"input": "Q", "expected_output": "E"}', "actual_output"),
        ('{"input": "Q", "model_key": "m"}', "actual_output"),
        ("question,expected_answer\nQ,A\n", "actual_answer"),
    ],
)
def test_questions_without_answers_are_refused(tmp_path: Path, content: str, column: str) -> None:
    (fault,) = faults(tmp_path, "d", content)
    assert fault.startswith(f"{column}: ")


def test_unknown_fields_are_refused_with_what_was_expected(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, "d.jsonl", '{"frage": "Q", "antwort": "A"}\n')
    assert "no column is known to be a question or an answer: 'antwort', 'frage'; name them" in fault
    assert "--map actual_answer=COLUMN" in fault
    (fault,) = faults(tmp_path, "e.jsonl", '{"qestion": "Q", "respnse": "A"}\n')
    assert "did you mean --map question=qestion --map actual_answer=respnse" in fault


def test_an_unknown_format_is_a_usage_error(tmp_path: Path) -> None:
    path = write(tmp_path, "d.jsonl", as_jsonl([GOOD]))
    with pytest.raises(UsageError, match="h2o-dataset"):
        load_dataset(Store.open(tmp_path / "store"), path, format="xml")


def test_dangling_relationships_are_not_reported_when_their_target_may_be_what_is_broken(tmp_path: Path) -> None:
    link = {"type": "perturbation_source", "target": "c2"}
    found = faults(tmp_path, "d.jsonl", json.dumps(GOOD | {"relationships": link}) + '\n{"case": "c2", broken}\n')
    assert len(found) == 1
    assert found[0].startswith("row 2: broken JSON")
    for unreadable in (
        '{"case": "c\\u0032", broken}',
        '{"case": "c2", "x": "\xe9"}'.encode("latin-1"),
        '["c2"]',
        '{"case": "' + "x" * 70_000 + '" broken}',
    ):
        line = unreadable if isinstance(unreadable, bytes) else unreadable.encode()
        found = faults(tmp_path, "d.jsonl", json.dumps(GOOD | {"relationships": link}).encode() + b"\n" + line)
        assert [fault.split(": ")[0] for fault in found] == ["row 2"]


def test_dangling_relationships_are_reported_beside_lines_that_cannot_be_read(tmp_path: Path) -> None:
    def linked(case: str, target: str) -> str:
        link = {"type": "perturbation_source", "target": target}
        return json.dumps(GOOD | {"case": case, "relationships": [link]})

    broken = '{"case": "c2", "question": "Q" "actual_answer": "A"}'
    found = faults(tmp_path, "d.jsonl", "\n".join([linked("c1", "c9"), broken, linked("c3", "c3"), linked("c4", "c2")]))
    assert found == [
        "row 1, relationships: there is no case 'c9' (case 'c1')",
        "row 2: broken JSON: Expecting ',' delimiter (byte 32 of the line)",
        "row 3, relationships: the case is its own original (case 'c3')",
    ]
    content = as_csv([{"case": "c1", "actual_answer": "A", "relationships": {"type": "perturbation_source",
                                                                              "target": "c9"}}])  # fmt: skip
    found = faults(tmp_path, "d.csv", content + b"c2,A\n")
    assert [fault.split(": ")[0] for fault in found] == ["row 1, relationships", "row 2"]
    assert len(faults(tmp_path, "d.csv", content + b"c9,A\n")) == 1


def test_a_relationship_of_a_wrong_type_is_a_fault_beside_the_others(tmp_path: Path) -> None:
    links = [
        {"target": 5, "type": []},
        {"target": "c9", "type": "perturbation_source"},
        {"target": "c1", "type": "perturbation_source", "target_type": 7},
        {"target": True, "type": "perturbation_source"},
        {"target": 0, "type": "perturbation_source"},
    ]
    records = [GOOD | {"case": f"k{i}", "relationships": [link]} for i, link in enumerate(links)]
    assert faults(tmp_path, "d.jsonl", as_jsonl(records)) == [
        "row 1, relationships: expected a text as type, found a list",
        "row 2, relationships: there is no case 'c9' (case 'k1')",
        "row 3, relationships: expected a text as target_type, found a number: 7",
        "row 4, relationships: expected a key (text or whole number), found a boolean: True",
        "row 5, relationships: there is no case '0' (case 'k4')",
    ]


def test_names_cannot_forge_lines_of_the_list_of_faults(tmp_path: Path) -> None:
    path = write(tmp_path, "d\n  forged.jsonl, row 1: x\x1b[2J\u202e.jsonl", as_jsonl([GOOD | {"duration_s": -1}]))
    with pytest.raises(DatasetError) as refused:
        load_dataset(Store.open(tmp_path / "store"), path)
    _, line = str(refused.value).split("\n")
    assert "d\\n  forged.jsonl, row 1: x\\x1b[2J\\u202e.jsonl, row 1, duration_s: -1 is negative" in line
    with pytest.raises(DatasetError) as refused:
        load_dataset(Store.open(tmp_path / "store"), write(tmp_path, "d.csv", '"a\nb: forged",c\n1,2\n'))
    assert len(str(refused.value).split("\n")) == 2


def test_h2o_constraints_of_a_wrong_shape_are_refused(tmp_path: Path) -> None:
    row = {"key": "k", "input": "Q", "actual_output": "A", "model_key": "m"}
    (fault,) = faults(tmp_path, "d.json", {"inputs": [row | {"output_constraints": [["a", {}]]}]})
    assert fault.startswith("row 1, inputs[].output_constraints: expected a text")
    (fault,) = faults(tmp_path, "d.json", {"inputs": [row | {"output_constraints": ["REGEXP:("]}]})
    assert fault.startswith("row 1, inputs[].output_condition: the condition of case 'k' does not parse")


def test_a_conversation_without_a_question_is_refused(tmp_path: Path) -> None:
    chat = {"messages": [{"role": "assistant", "content": "hello"}]}
    (fault,) = faults(tmp_path, "d.json", [{"request": chat, "response": "A"}])
    assert fault == "row 1, request: the conversation has no message of the user"


def test_ids_that_do_not_fit_their_contexts_are_refused(tmp_path: Path) -> None:
    record = {"user_input": "Q", "response": "A", "retrieved_contexts": ["x"], "retrieved_context_ids": ["1", "2"]}
    (fault,) = faults(tmp_path, "d.json", [record])
    assert fault == "row 1, retrieved_context_ids: there are 2 ids for 1 retrieved contexts"


@pytest.mark.parametrize("column", ["error", "response", "request"])
@pytest.mark.parametrize(("keys", "said"), [(pa.int64(), '{"7":"no such berth"}'), (pa.binary(), "")], ids=str)
def test_a_map_of_parquet_is_read_as_json_where_json_can_say_it(
    tmp_path: Path, column: str, keys: pa.DataType, said: str
) -> None:
    texts: dict[str, Any] = {"request": ["Q"], "response": ["A"]}
    held = pa.array([[(7 if said else b"7", "no such berth")]], pa.map_(keys, pa.string()))
    parquet.write_table(pa.table(texts | {column: held}), tmp_path / "made.parquet")
    content = (tmp_path / "made.parquet").read_bytes()
    if said:
        found = tables(load(tmp_path, "d.parquet", content))
        assert said in [value for table in found.values() for line in table for value in line.values()]
    else:
        (fault,) = faults(tmp_path, "d.parquet", content)
        assert fault.startswith(f"row 1, {column}: this cannot be kept as JSON: ")
