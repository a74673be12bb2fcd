"""Every way in which a file can be wrong is said with file, row and column, all at once, before anything is written."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from evaluators.errors import DatasetError, UsageError
from tasks.load import load_dataset
from tasks.store import Store
from tests.support.loading import as_csv, as_jsonl, as_parquet, faults, load, write

GOOD: dict[str, Any] = {"case": "c1", "model": "m", "question": "Q", "actual_answer": "A"}


def refusal(folder: Path, path: str | Path) -> str:
    with pytest.raises(DatasetError) as refused:
        load_dataset(Store.open(folder / "store"), path)
    (fault,) = refused.value.faults
    return fault.message


def test_all_faults_are_listed_in_one_go(tmp_path: Path) -> None:
    lines = [
        json.dumps(GOOD),
        '{"case": "c2", "question": "Q", "actual_answer": "A"',
        "",
        json.dumps(GOOD | {"case": "c3", "duration_s": -1, "input_tokens": 1.5, "question": 7}),
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
    assert "expected a text, found a number: 7" in text
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
        ("actual_answer", 42, "expected a text, found a number: 42"),
        ("actual_answer", ["a"], "expected a text, found a list"),
        ("question", {"a": 1}, "expected a text, found an object"),
        ("expected_answer", [1], "element 1: expected a text, found a number"),
        ("expected_answer", {"a": 1}, "expected a text or a list of texts"),
        ("retrieved_context", [{"text": "x"}], "chunk 1: a chunk needs content or doc_uri"),
        ("retrieved_context", ["a", 5], "chunk 2: expected a text, found a number: 5"),
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
    (fault,) = faults(tmp_path, "d.jsonl", '{"prompt": "Q", "completion": "A"}\n')
    assert "no known format has the fields completion, prompt" in fault
    assert "actual_answer" in fault


@pytest.mark.parametrize(
    ("content", "row", "said"),
    [
        ('{"inputs": [{"key": "a", "input": "Q"},\n {"key": "b" "input": "Q"}]}', "row 2", "line 2, byte 14"),
        ('{"inputs": [{"key": "a", "input": "Q"}', "row 1", "the end of the file"),
        ('{"inputs": [{"key": "a", "input": "Q', "row 1", "the file ends within a value (line 1, byte 13)"),
        ('[{"question": "Q", "actual_answer": "A"},]', "row 2", "expected a value, found ']'"),
        ('[{"question": "Q", "actual_answer": "A"} {"question": "R"}]', "row 1", "expected ',' or ']'"),
        ('[{"question": "Q", "actual_answer": "A"}] tail', "", "the list is over, but the file goes on"),
        ('{"cases": [{"key": "1", "answers": []}]} {}', "", "the document is over, but the file goes on"),
        ('[{"question": "Q", "actual_answer": "\x01"}]', "row 1", "Invalid control character"),
        ('[{"question": "Q", "actual_answer": "\\x"}]', "row 1", "Invalid \\escape"),
        ('{"cases": [{"key": "1"}], 5: 1}', "", "expected a name"),
        ("[" * 100_000, "row 1", ""),
        ('[{"actual_answer": ' + "[" * 3000 + "]" * 3000 + "}]", "row 1", "nested too deeply"),
    ],
)
def test_broken_json_is_said_with_line_and_byte(tmp_path: Path, content: str, row: str, said: str) -> None:
    found = faults(tmp_path, "d.json", content)
    assert len(found) == 1
    assert found[0].startswith(row)
    assert said in found[0]


def test_text_that_is_not_utf8_is_refused_with_its_position(tmp_path: Path) -> None:
    line = json.dumps(GOOD).encode()
    found = faults(tmp_path, "d.jsonl", line + b"\n" + line.replace(b'"A"', b'"\xe9"').replace(b"c1", b"c2"))
    assert len(found) == 1
    assert found[0].startswith("row 2: byte 0xe9 is not UTF-8")
    (fault,) = faults(tmp_path, "d.json", b'[{"question": "\xff", "actual_answer": "A"}]')
    assert "byte 0xff is not UTF-8" in fault
    assert "line 1, byte 16" in fault


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b" \n\t\n", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"[]", "the file holds no records"),
        (b'{"inputs": []}', "the file holds no records"),
        (gzip.compress(b"{}", mtime=0), "gzip"),
        (b"PK\x03\x04rest", "ZIP"),
        ('{"question": "Q"}'.encode("utf-16"), "UTF-16"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "binary data"),
        (b"PAR1 and no more", "Parquet file is damaged"),
        (b"actual_answer\n", "no answers"),
    ],
)
def test_files_that_hold_no_dataset_are_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (fault,) = faults(tmp_path, "d", content)
    assert said in fault


def test_what_is_no_readable_file_is_refused_in_one_line(tmp_path: Path) -> None:
    assert refusal(tmp_path, tmp_path / "missing.json") == "there is no such file"
    assert "a folder" in refusal(tmp_path, tmp_path)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert "no regular file" in refusal(tmp_path, fifo)
    assert "cannot be read" in refusal(tmp_path, "nul\0byte")
    assert "cannot be read" in refusal(tmp_path, "x" * 5000)


def test_an_unknown_format_is_a_usage_error(tmp_path: Path) -> None:
    path = write(tmp_path, "d.jsonl", as_jsonl([GOOD]))
    with pytest.raises(UsageError, match="h2o-dataset"):
        load_dataset(Store.open(tmp_path / "store"), path, format="xml")


def test_ragged_and_repeated_columns_of_csv_are_refused(tmp_path: Path) -> None:
    found = faults(tmp_path, "d.csv", "case,actual_answer\n1,A\n2\n3,B,C\n4,D,\n1,A\n")
    assert [fault.split(": ")[0] for fault in found] == ["row 2", "row 3", "row 4", "row 5"]
    assert "the row has 1 cells, the header has 2" in found[0]
    assert "a second time; the first is in row 1" in found[3]
    (fault,) = faults(tmp_path, "d.csv", "case,actual_answer,case\n1,A,2\n")
    assert fault == "case: the header names this column more than once"


@pytest.mark.parametrize("tail", ['2,"never closed\n3,B\n', '2,"never ""closed""\n3,B', '2,"'])
def test_a_quote_that_is_never_closed_is_refused(tmp_path: Path, tail: str) -> None:
    (fault,) = faults(tmp_path, "d.csv", "case,actual_answer\n1,A\n" + tail)
    assert fault.startswith("row 2")
    assert "never closed" in fault


@pytest.mark.parametrize(
    ("tail", "rows"),
    [('2,5" pipe\n', 2), ('2,5" pipe\n3,"closed"', 3), ('2,5" pipe\n3,"a\nb"\n', 3), ('2,5" pipe\n3,""', 3)],
)
def test_a_stray_quote_is_text(tmp_path: Path, tail: str, rows: int) -> None:
    assert load(tmp_path, "d.csv", "case,actual_answer\n1,A\n" + tail).rows == rows


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


def test_every_cell_that_is_not_utf8_is_said_with_row_and_column(tmp_path: Path) -> None:
    content = b'case,question,actual_answer\n1,Q,A\n2,"\n\xe9",caf\xe9\n3,\xc3\xa9,A\n1,Q,A\n4,\xff\xfe,B\n'
    assert faults(tmp_path, "d.csv", content) == [
        "row 2, question: byte 0xe9 is not UTF-8 (byte 2 of the cell); save the file as UTF-8",
        "row 2, actual_answer: byte 0xe9 is not UTF-8 (byte 4 of the cell); save the file as UTF-8",
        "row 4: model 'd' answers case '1' a second time; the first is in row 1",
        "row 5, question: byte 0xff is not UTF-8 (byte 1 of the cell); save the file as UTF-8",
    ]
    (fault,) = faults(tmp_path, "d.csv", b"case,actual_answer,\xe9t\xe9\n1,A,B\n")
    assert fault == "byte 0xe9 is not UTF-8 (line 1, byte 20); save the file as UTF-8"
    path = write(tmp_path, "many.csv", b"case,actual_answer\n" + b"1,\xe9\n" * 500)
    with pytest.raises(DatasetError) as refused:
        load_dataset(Store.open(tmp_path / "store"), path)
    assert (len(refused.value.faults), refused.value.more) == (200, 300)


def test_names_cannot_forge_lines_of_the_list_of_faults(tmp_path: Path) -> None:
    path = write(tmp_path, "d\n  forged.jsonl, row 1: x\x1b[2J\u202e.jsonl", as_jsonl([GOOD | {"duration_s": -1}]))
    with pytest.raises(DatasetError) as refused:
        load_dataset(Store.open(tmp_path / "store"), path)
    _, line = str(refused.value).split("\n")
    assert "d\\n  forged.jsonl, row 1: x\\x1b[2J\\u202e.jsonl, row 1, duration_s: -1 is negative" in line
    with pytest.raises(DatasetError) as refused:
        load_dataset(Store.open(tmp_path / "store"), write(tmp_path, "d.csv", '"a\nb: forged",c\n1,2\n'))
    assert len(str(refused.value).split("\n")) == 2


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    content = as_parquet(
        [GOOD | {"case": str(i), "actual_answer": os.urandom(50).hex()} for i in range(2000)], tmp_path
    )
    middle = len(content) // 2
    found = faults(tmp_path, "d.parquet", content[:middle] + bytes(4000) + content[middle + 4000 :])
    assert any("damaged" in fault for fault in found)


def test_h2o_constraints_of_a_wrong_shape_are_refused(tmp_path: Path) -> None:
    row = {"key": "k", "input": "Q", "actual_output": "A", "model_key": "m"}
    (fault,) = faults(tmp_path, "d.json", {"inputs": [row | {"output_constraints": [["a", 5]]}]})
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


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.load.schemas.base import Converter

    path = write(tmp_path, "d.jsonl", as_jsonl([GOOD]))
    finish = Converter.finish

    def slow(self: Converter) -> None:
        worker = threading.Thread(target=lambda: path.write_bytes(as_jsonl([GOOD, GOOD | {"case": "c2"}])))
        worker.start()
        worker.join()
        finish(self)

    monkeypatch.setattr(Converter, "finish", slow)
    assert "changed while it was read" in refusal(tmp_path, path)
