"""Columns are understood by the names that all tools give them, and what is not understood is never silent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import DatasetError, ErrorCode, UsageError
from leadline.tasks.load.columns import field_names, field_of, known_names, project_map
from leadline.tasks.load.dataset import LoadedDataset, load_dataset
from leadline.tasks.load.formats.base import DEFAULTS
from leadline.tasks.store.store import Store
from tests.support.datasets.loading import as_csv, as_jsonl, as_parquet, faults, load, rows, write


def one(loaded: LoadedDataset) -> dict[str, Any]:
    (row,) = rows(loaded).values()
    return row


def table(folder: Path, header: str, *cells: str, **options: Any) -> LoadedDataset:
    return load(folder, "d.csv", f"{header}\n{','.join(cells) or ','.join('1' * (header.count(',') + 1))}\n", **options)


@pytest.mark.parametrize(
    "header",
    [
        "Question,Answer,Ground Truth,Context",
        "question,answer,expected,context",
        "prompt,response,reference,contexts",
        "QUERY,Model-Answer,gold answer,retrieved documents",
        "user_input,response,reference,retrieved_contexts",
        "input,actual_output,expected_output,retrieval_context",
        "input,output,ideal,documents",
        "groundTruth,userInput,completion,retrievedChunks",
        "request,response,expected_response,retrieved_context",
    ],
)
def test_the_names_of_all_tools_are_understood(tmp_path: Path, header: str) -> None:
    of = {"question": "Q", "actual_answer": "A", "expected_answer": "E", "retrieved_context": "C"}
    fields = [match.field for match in map(field_of, header.split(",")) if match]
    loaded = table(tmp_path, header, *(of[field] for field in fields))
    row = one(loaded)
    assert (row["question"], row["actual_answer"], row["expected_answers"]) == ("Q", "A", ["E"])
    assert row["retrieved_context"] == [{"content": "C", "doc_uri": None}]
    assert dict(loaded.columns) == dict(zip(header.split(","), fields, strict=True))
    assert loaded.warnings == ()


def test_every_known_name_is_of_a_field_that_can_be_filled() -> None:
    assert {match.field for match in known_names().values()} == set(DEFAULTS)
    assert set(field_names()) == {*DEFAULTS, "labels", "metadata"}


def test_further_columns_are_understood_too(tmp_path: Path) -> None:
    header = "prompt,response,Model ID,question_id,category,latencyMs,total_cost,prompt_tokens,completion_tokens,page"
    loaded = table(tmp_path, header, "Q", "A", "m", "c7", "facts", "1500", "0.5", "3", "4", "9")
    row = rows(loaded)["c7", "m"]
    assert (row["duration_s"], row["cost_usd"], row["input_tokens"], row["output_tokens"]) == (1.5, 0.5, 3, 4)
    assert (row["categories"], row["metadata"]) == (["facts"], {"page": "9"})
    assert (loaded.metadata_columns, loaded.warnings) == (("page",), ())


def test_the_columns_of_a_format_come_before_other_names(tmp_path: Path) -> None:
    loaded = table(tmp_path, "question,expected_answer,reference,actual_answer,source", "Q", "E", "R", "A", "S")
    assert one(loaded)["expected_answers"] == ["E"]
    assert one(loaded)["metadata"] == {"reference": "R"}
    assert loaded.column_warnings == (
        "column 'source' is read as retrieved_context; if it is something else: --map metadata=source",
        "column 'reference' looks like expected_answer, which 'expected_answer' is, and was kept as metadata; to take "
        "it instead: --map expected_answer=reference",
    )


def test_case_models_and_answers_of_documents_are_understood_too(tmp_path: Path) -> None:
    case = {"key": "c", "Query": "Q", "gold": "E", "answers": [{"model": "m", "Response": "A", "latency_ms": 500}]}
    row = rows(load(tmp_path, "d.json", {"cases": [case]}))["c", "m"]
    assert (row["question"], row["expected_answers"], row["actual_answer"]) == ("Q", ["E"], "A")
    assert row["duration_s"] == 0.5


def test_an_ideal_context_is_no_retrieved_one(tmp_path: Path) -> None:
    loaded = table(tmp_path, "input,actual_output,context", "Q", "A", "C")
    assert (loaded.format, one(loaded)["metadata"], loaded.warnings) == ("deepeval", {"context": "C"}, ())


def test_two_columns_that_could_be_the_answer_are_refused_until_one_is_chosen(tmp_path: Path) -> None:
    header = "question,output,response"
    path = write(tmp_path, "d.csv", f"{header}\nQ,A,B\n")
    with pytest.raises(DatasetError, match="columns 'output', 'response' could each be the actual_answer") as refused:
        load_dataset(Store.open(tmp_path / "store"), path)
    assert refused.value.code is ErrorCode.DATA_COLUMNS
    assert "--map actual_answer=output or --map actual_answer=response" in str(refused.value)
    loaded = load_dataset(Store.open(tmp_path / "store"), path, columns={"answer": "response"})
    assert (one(loaded)["actual_answer"], one(loaded)["metadata"]) == ("B", {"output": "A"})
    assert load(tmp_path, "suite.csv", f"{header}\nQ,A,B\n", cases_only=True).cases == 1, "no answer is needed"


def test_a_name_that_may_mean_something_else_is_taken_with_a_warning_and_left_beside_a_better_one(
    tmp_path: Path,
) -> None:
    loaded = table(tmp_path, "question,answer,label,source", "Q", "A", "E", "C")
    assert (one(loaded)["expected_answers"], one(loaded)["retrieved_context"][0]["content"]) == (["E"], "C")
    assert [warning.partition(";")[0] for warning in loaded.warnings] == [
        "column 'label' is read as expected_answer",
        "column 'source' is read as retrieved_context",
    ]
    beside = table(tmp_path, "prompt,answer,reference,contexts,label,source,task,provider,model")
    assert beside.metadata_columns == ("label", "source", "task", "provider")
    assert [warning[:14] for warning in beside.warnings] == ["column 'label'"], "it may be the reference"


def test_a_suite_warns_of_the_columns_of_cases_alone(tmp_path: Path) -> None:
    loaded = table(tmp_path, "prompt,expectd,outputs,latency,actual_answr", cases_only=True)
    assert [warning.partition(";")[0] for warning in loaded.column_warnings] == ["column 'expectd' was not used"]


def test_one_record_with_two_columns_of_a_field_is_told(tmp_path: Path) -> None:
    loaded = load(tmp_path, "d.jsonl", as_jsonl([{"question": "Q", "answer": "A", "response": "B"}] * 2))
    assert "columns 'answer' and 'response' are the same field; the second is metadata (2 times)" in loaded.warnings


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("expectd", "did you mean expected_answer? --map expected_answer=expectd"),
        ("Ground  Thruth", "did you mean expected_answer? --map 'expected_answer=Ground  Thruth'"),
        ("retreived_contexts", "did you mean retrieved_context? --map retrieved_context=retreived_contexts"),
    ],
)
def test_a_misspelt_column_is_named_with_what_it_may_be(tmp_path: Path, column: str, said: str) -> None:
    loaded = table(tmp_path, f"question,answer,{column},page")
    assert loaded.column_warnings == (f"column {column!r} was not used; {said}",)
    assert loaded.warnings == loaded.column_warnings
    assert table(tmp_path, f"question,answer,{column},expected,contexts").column_warnings == (), "nothing is missing"


@pytest.mark.parametrize(
    "asked",
    [
        {"expected_answer": "gld"},
        {"Ground Truth": "GLD"},
        {"gld": "expected"},
    ],
)
def test_a_mapping_names_a_field_by_any_of_its_names_and_is_understood_the_other_way_round(
    tmp_path: Path, asked: dict[str, str]
) -> None:
    loaded = table(tmp_path, "question,answer,gld", "Q", "A", "E", columns=asked)
    assert (one(loaded)["expected_answers"], loaded.columns["gld"]) == (["E"], "expected_answer")


def test_a_mapping_is_enough_where_no_name_is_known(tmp_path: Path) -> None:
    asked = {"question": "frage", "answer": "antwort", "metadata": ["latency", "source"]}
    loaded = table(tmp_path, "frage,antwort,latency,source", "Q", "A", "slow", "wiki", columns=asked)
    assert (one(loaded)["question"], one(loaded)["actual_answer"]) == ("Q", "A")
    assert one(loaded)["metadata"] == {"latency": "slow", "source": "wiki"}
    assert loaded.warnings == ()


def test_a_mapping_that_changes_nothing_is_the_same_dataset(tmp_path: Path) -> None:
    plain = table(tmp_path, "question,answer,expected,page")
    assert table(tmp_path, "question,answer,expected,page", columns={"reference": "expected"}).reused
    other = table(tmp_path, "question,answer,expected,page", columns={"metadata": "expected"})
    assert other.digest != plain.digest
    assert one(other)["expected_answers"] == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"expected": "gold"}, "--map expected=gold: there is no column 'gold'; the columns are 'question', 'answer'"),
        ({"expected": "pagee"}, "there is no column 'pagee'; did you mean 'page'?"),
        ({"expectd": "page"}, "there is no field 'expectd'; did you mean expected_answer?"),
        ({"expected": ["page", "note"]}, "column 'page' is mapped to expected_answer too; a field has one column"),
        ({"expected": "page", "context": "page"}, "the column is mapped to expected_answer too"),
    ],
)
def test_a_mapping_that_makes_no_sense_is_refused(tmp_path: Path, asked: dict[str, Any], said: str) -> None:
    (fault,) = faults(tmp_path, "d.csv", "question,answer,page,note\nQ,A,1,2\n", columns=asked)
    assert said in fault


def test_records_of_json_may_have_a_mapped_column_later(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [{"question": f"Q{number}", "answer": "A"} for number in range(50)]
    content = as_jsonl([*records, {"question": "Q", "answer": "A", "gld": "E"}])
    found = rows(load(tmp_path, "d.jsonl", content, columns={"expected": "gld"}))
    assert [row["expected_answers"] for row in found.values()][-1] == ["E"]
    with pytest.raises(DatasetError, match="--map expected_answer=gold: no record has this column"):
        load(tmp_path, "d.jsonl", content, columns={"expected": "gold"})


def test_the_projects_mapping_is_used_where_it_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert project_map() == {}
    Path("leadline.toml").write_text('[dataset.map]\nexpected_answer = "gld"\nmetadata = ["source"]\n')
    asked = project_map()
    loaded = table(tmp_path, "question,answer,gld,source", "Q", "A", "E", "S", default_columns=asked)
    assert (one(loaded)["expected_answers"], loaded.warnings) == (["E"], ())
    other = table(tmp_path, "question,answer,expected", default_columns=asked)
    assert other.warnings == ("[dataset.map] of leadline.toml, 'metadata': there is no column 'source'; the columns "
                              "are 'question', 'answer', 'expected'",)  # fmt: skip
    Path("leadline.toml").write_text("[dataset.map]\nexpected_answer = 1\n")
    with pytest.raises(UsageError, match="a field and its column on each line"):
        project_map()


def test_objects_around_texts_are_opened(tmp_path: Path) -> None:
    records = [
        {"inputs": {"question": "Q", "contexts": ["C"]}, "outputs": {"answer": "A", "latency": 2},
         "reference_outputs": {"answer": "E"}, "run": "r1"},
        {"inputs": {"text": "Q2"}, "outputs": {"content": "A2"}},
        {"inputs": {"messages": [{"role": "user", "content": "Q3"}]},
         "outputs": {"choices": [{"message": {"role": "assistant", "content": "A3"}}]}},
    ]  # fmt: skip
    contents: list[tuple[str, Any]] = [("d.jsonl", as_jsonl(records)), ("d.csv", as_csv(records)), ("d.json", records)]
    for name, content in contents:
        first, second, third = rows(load(tmp_path, name, content)).values()
        assert (first["question"], first["actual_answer"], first["expected_answers"]) == ("Q", "A", ["E"])
        assert (first["retrieved_context"][0]["content"], first["metadata"]) == ("C", {"run": "r1"})
        assert (second["question"], second["actual_answer"]) == ("Q2", "A2")
        assert (third["question"], third["actual_answer"]) == ("Q3", "A3")
    mlflow = {"inputs": {"q": "Q"}, "outputs": "A", "expectations": {"expected_response": "E", "expected_facts": ["F"]}}
    row = one(load(tmp_path, "d.jsonl", as_jsonl([mlflow])))
    assert (row["expected_answers"], row["metadata"]) == (["E"], {"expectations.expected_facts": ["F"]})


def test_an_answer_that_is_json_stays_what_it_is(tmp_path: Path) -> None:
    answer = '{"intent": "refund"}'
    assert one(load(tmp_path, "d.csv", as_csv([{"prompt": "Q", "output": answer}])))["actual_answer"] == answer


def test_a_value_that_does_not_fit_says_how_to_keep_the_column(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, "d.csv", "question,answer,latency\nQ,A,slow\n")
    assert "(it is read as duration_s; if it is something else: --map metadata=latency)" in fault


def test_hostile_names_are_escaped_bounded_and_quick(tmp_path: Path) -> None:
    hostile = ["expectd\x1b[31m\n", "ground_truht" + "h" * 5000, "'; rm -rf / #expected", "refernce$"]
    record = {"question": "Q", "answer": "A"} | {f"column {number}": "1" for number in range(5000)}
    loaded = load(tmp_path, "d.jsonl", as_jsonl([record | dict.fromkeys(hostile, "x")]))
    assert len(loaded.metadata_columns) == 100
    for name in hostile:
        loaded = load(tmp_path, "d.jsonl", as_jsonl([{"question": "Q", "answer": "A", name: "x"}]))
        assert all(warning.isprintable() and len(warning) < 400 for warning in loaded.warnings)
    assert loaded.warnings[0].endswith("--map 'expected_answer=refernce$'")


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("answers-2026-11-22.csv", "answers"),
        ("answers_20261122_010203.csv", "answers"),
        ("nightly.2026-11-22T01-02-03Z.csv", "nightly"),
        ("2026-11-22.csv", "model"),
        ("run-22.11.2026 (2).csv", "run"),
        ("gpt-4o-mini.csv", "gpt-4o-mini"),
        ("gpt-4-0613.csv", "gpt-4-0613"),
    ],
)
def test_a_model_without_a_name_is_called_alike_every_night(tmp_path: Path, name: str, model: str) -> None:
    loaded = load(tmp_path, name, "question,answer\nQ,A\n")
    assert loaded.models == (model,)
    assert loaded.name == model.replace("model", "dataset"), "what changed since last night is found by this name"


def test_a_name_is_given_to_the_model_whose_answers_name_none(tmp_path: Path) -> None:
    content = as_jsonl([{"case": "1", "question": "Q", "answer": "A"}, {"case": "2", "question": "P", "answer": "B"}])
    assert load(tmp_path, "d.jsonl", content, model_name="rag-2").models == ("rag-2",)
    named = as_jsonl([{"question": "Q", "answer": "A", "model": "m"}])
    loaded = load(tmp_path, "d.jsonl", named, model_name="rag-2")
    assert (loaded.models, loaded.warnings) == (("m",), ("every answer names its model, so none is called 'rag-2'",))
    assert load(tmp_path, "d.jsonl", named, model_name="m").warnings == ()


@pytest.mark.parametrize("other", ["model_answer", "prediction", "Model Output"])
def test_answer_beside_another_answer_may_be_the_expected_one_and_is_asked_about(tmp_path: Path, other: str) -> None:
    content = f"question,answer,{other}\nQ,Paris,Lyon\n"
    (fault,) = faults(tmp_path, "d.csv", content)
    assert fault.startswith(f"columns 'answer', '{other}' could each be the actual_answer; say which is: --map")
    assert fault.endswith("--map expected_answer=answer")
    both = {"actual_answer": other, "expected_answer": "answer"}
    (row,) = rows(load(tmp_path, "d.csv", content, columns=both)).values()
    assert (row["actual_answer"], row["expected_answers"]) == ("Lyon", ["Paris"])
    (row,) = rows(load(tmp_path, "d.csv", content, columns={"actual_answer": "answer"})).values()
    assert (row["actual_answer"], row["expected_answers"]) == ("Paris", [])


def test_phoenixs_name_for_the_retrieved_text_is_told_where_the_others_are_phoenixs(tmp_path: Path) -> None:
    (warning,) = load(tmp_path, "d.csv", "input,output,reference\nQ,A,The text\n").warnings
    assert warning.endswith("Phoenix calls the retrieved text so: --map retrieved_context=reference")
    assert not load(tmp_path, "d.csv", "question,output,reference\nQ,A,The text\n").warnings


def test_references_in_the_form_of_squad_are_expected_answers(tmp_path: Path) -> None:
    record = {"question": "Q", "prediction": "A", "answers": {"text": ["A", "an A"], "answer_start": [1, 2]}}
    for content in (as_jsonl([record]), as_parquet([record], tmp_path)):
        (row,) = rows(load(tmp_path, "d.dat", content)).values()
        assert (row["expected_answers"], row["metadata"]) == (["A", "an A"], {})
    (row,) = rows(load(tmp_path, "d.dat", as_jsonl([record | {"expected_answer": "B"}]))).values()
    assert row["expected_answers"] == ["B"]
    assert row["metadata"]["answers"]["text"] == ["A", "an A"]


@pytest.mark.parametrize("container", ["csv", "jsonl", "parquet"])
def test_numbers_and_truth_values_are_texts_in_every_container(tmp_path: Path, container: str) -> None:
    record = {"question": 7, "expected_answer": 1.0, "actual_answer": True}
    content = {
        "csv": lambda: "question,expected_answer,actual_answer\n7,1,true\n",
        "jsonl": lambda: as_jsonl([record]),
        "parquet": lambda: as_parquet([record], tmp_path),
    }[container]()
    (row,) = rows(load(tmp_path, "d.dat", content)).values()
    assert (row["question"], row["expected_answers"], row["actual_answer"]) == ("7", ["1"], "true")


def test_a_number_that_is_none_is_no_text(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, "d.jsonl", '{"question": "Q", "actual_answer": NaN}\n')
    assert fault == "row 1, actual_answer: nan is not a finite number; leave it out or write null"


@pytest.mark.parametrize(("written", "said"), [("nan", 1), ("None", 1), ("<NA>", 1), ("Nancy", 0), ("none", 0)])
@pytest.mark.parametrize("by_columns", [False, True])
def test_answers_that_are_words_for_nothing_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, said: int, by_columns: bool
) -> None:
    monkeypatch.setattr("leadline.tasks.load.importing.COLUMNS_FROM", 0 if by_columns else 10**9)
    loaded = load(tmp_path, "d.csv", f"question,actual_answer\nQ,{written}\nR,A\n")
    assert [warning.split(";")[0] for warning in loaded.warnings] == ["1 answer is the word nan, None or null"] * said
