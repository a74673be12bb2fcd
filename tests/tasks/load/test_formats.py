"""Every format, as its tool writes it, becomes the same five tables."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from leadline.tasks.load.values import printed_by_python
from tests.support.datasets.loading import as_csv, as_jsonl, as_parquet, faults, load, rows, tables

FLAT: list[dict[str, Any]] = [
    {
        "case": "c1", "model": "alpha", "question": "Who?", "expected_answer": ["Ada", "Ada L."],
        "expected_documents": ["d1"], "condition": '"Ada"', "categories": ["people"], "actual_answer": "Ada",
        "retrieved_context": [{"content": "Ada wrote", "doc_uri": "d1"}, {"content": "x", "doc_uri": None}],
        "duration_s": 1.5, "cost_usd": 0.01, "input_tokens": 10, "output_tokens": 3, "metadata": {"run": 1},
    },
    {
        "case": "c1", "model": "beta", "question": "Who?", "expected_answer": ["Ada", "Ada L."], "condition": '"Ada"',
        "categories": ["people"], "error": "504 from the host", "duration_s": 30,
    },
    {"case": "c2", "model": "alpha", "question": "What?", "actual_answer": ""},
]  # fmt: skip


def test_flat_records_load_alike_from_every_container(tmp_path: Path) -> None:
    contents = [json.dumps(FLAT).encode(), as_jsonl(FLAT), as_csv(FLAT), as_csv(FLAT, delimiter=";")]
    contents.append(as_parquet(FLAT, tmp_path))
    every = [load(tmp_path, "answers.dat", content) for content in contents]
    assert [one.container for one in every] == ["json", "jsonl", "csv", "csv", "parquet"]
    assert len({one.digest for one in every}) == len(every)
    loaded = every[0]
    assert all(tables(one) == tables(loaded) for one in every[1:])
    for one in every:
        assert (one.format, one.rows, one.cases, one.models) == ("leadline", 3, 2, ("alpha", "beta"))
        assert one.warnings == ("1 of 4 pairs of a case and a model has no answer in the file",)
    found = rows(loaded)
    first = found["c1", "alpha"]
    assert first["expected_answers"] == ["Ada", "Ada L."]
    assert first["expected_documents"] == ["d1"]
    assert first["condition"] == '"Ada"'
    assert first["retrieved_context"] == [
        {"content": "Ada wrote", "doc_uri": "d1"},
        {"content": "x", "doc_uri": None},
    ]
    assert (first["duration_s"], first["cost_usd"], first["input_tokens"], first["output_tokens"]) == (1.5, 0.01, 10, 3)
    assert first["metadata"] == {"run": 1}
    failed = found["c1", "beta"]
    assert (failed["error"], failed["actual_answer"]) == ("504 from the host", None)
    assert found["c2", "alpha"]["actual_answer"] == ""
    assert [model["is_rag"] for model in tables(loaded)["models"]] == [True, False]


def test_a_document_has_models_cases_and_answers(tmp_path: Path) -> None:
    document = {
        "name": "Harbour",
        "description": 'with "quotes" and {braces}',
        "models": [{"key": "a", "name": "Model A", "version": "2"}, "b"],
        "cases": [
            {"key": "c1", "question": "Q1", "metadata": {"m": 1}, "topic": "tides",
             "answers": [{"model": "a", "actual_answer": "A", "temperature": 0}]},
            {"key": "c2", "question": "Q2"},
        ],
        "answers": [{"case": "c2", "model": "b", "actual_answer": "B", "metadata": {"seed": 7}}],
    }  # fmt: skip
    loaded = load(tmp_path, "d.json", document)
    assert loaded.name == "Harbour"
    found = rows(loaded)
    assert found["c1", "a"]["metadata"] == {"m": 1, "topic": "tides", "temperature": 0}
    assert found["c2", "b"]["metadata"] == {"seed": 7}
    assert found["c2", "b"]["question"] == "Q2"
    models = [(m["model_key"], m["name"], m["version"]) for m in tables(loaded)["models"]]
    assert models == [("a", "Model A", "2"), ("b", "b", None)]


def test_answers_may_come_before_the_cases_that_they_name(tmp_path: Path) -> None:
    document = {"models": ["m"], "answers": [{"case": "x", "model": "m", "actual_answer": "A"}],
                "cases": [{"key": "x", "question": "Q"}]}  # fmt: skip
    assert rows(load(tmp_path, "d.json", document))["x", "m"]["question"] == "Q"


def test_cases_with_their_answers_inside_may_be_lines(tmp_path: Path) -> None:
    lines = [{"answers": [{"model": "a", "actual_answer": "1"}, {"model": "b", "actual_answer": "2"}], "key": 7,
              "question": "Q"}]  # fmt: skip
    assert set(rows(load(tmp_path, "d.jsonl", as_jsonl(lines * 1)))) == {("7", "a"), ("7", "b")}


def test_a_single_pretty_printed_record_is_a_dataset(tmp_path: Path) -> None:
    content = json.dumps({"question": "Q", "actual_answer": "A"}, indent=2)
    loaded = load(tmp_path, "one.json", content)
    assert (loaded.rows, loaded.container, loaded.models) == (1, "json", ("one",))


def test_a_byte_order_mark_is_no_part_of_the_data(tmp_path: Path) -> None:
    for content in (as_jsonl(FLAT), as_csv(FLAT), json.dumps(FLAT).encode()):
        assert load(tmp_path, "bom", b"\xef\xbb\xbf" + content).rows == 3


H2O_ROW: dict[str, Any] = {
    "key": "t1", "input": "How high?", "corpus": ["https://x/doc.pdf"], "context": ["chunk 1", "chunk 2"],
    "categories": ["question_answering"], "relationships": [], "expected_output": "5 m",
    "output_constraints": ["5", ["m", "metres"], "REGEXP:\\d+\\.?"], "output_condition": "",
    "actual_output": "5 m", "actual_duration": 2.5, "cost": 0.02, "model_key": "m1", "test_key": "suite-1",
}  # fmt: skip


def test_h2o_dataset(tmp_path: Path) -> None:
    other = H2O_ROW | {"model_key": "m2", "actual_output": "MODEL HOST INTERNAL ERROR: 429", "context": []}
    loaded = load(tmp_path, "d.json", {"inputs": [H2O_ROW, other]})
    assert loaded.format == "h2o-dataset"
    found = rows(loaded)
    row = found["t1", "m1"]
    assert row["condition"] == r'"5" AND ("m" OR "metres") AND regexp("\d+\.?")'
    assert row["retrieved_context"][1] == {"content": "chunk 2", "doc_uri": None}
    assert (row["duration_s"], row["cost_usd"], row["expected_answers"]) == (2.5, 0.02, ["5 m"])
    assert row["metadata"] == {"corpus": ["https://x/doc.pdf"], "test_key": "suite-1"}
    assert (found["t1", "m2"]["actual_answer"], found["t1", "m2"]["error"]) == (None, "MODEL HOST INTERNAL ERROR: 429")


def test_h2o_dataset_csv_has_json_in_its_list_columns(tmp_path: Path) -> None:
    plain = H2O_ROW | {"key": "t2", "context": "no JSON, so one chunk"}
    found = rows(load(tmp_path, "d.csv", as_csv([H2O_ROW, plain])))
    assert [chunk["content"] for chunk in found["t1", "m1"]["retrieved_context"]] == ["chunk 1", "chunk 2"]
    assert [chunk["content"] for chunk in found["t2", "m1"]["retrieved_context"]] == ["no JSON, so one chunk"]
    assert found["t1", "m1"]["condition"] == r'"5" AND ("m" OR "metres") AND regexp("\d+\.?")'


def test_the_corpus_of_h2o_is_equal_from_csv_and_json(tmp_path: Path) -> None:
    corpora: list[Any] = [["u"], [], "", None, "https://x/doc.pdf", ["a", "b"]]
    records = [H2O_ROW | {"key": f"t{i}", "corpus": corpus} for i, corpus in enumerate(corpora)]
    from_csv = tables(load(tmp_path, "d.csv", as_csv(records)))
    from_json = tables(load(tmp_path, "d.json", {"inputs": records}))
    assert from_csv == from_json
    kept = [json.loads(row["metadata"]).get("corpus") for row in from_csv["rows"]]
    assert kept == [["u"], None, None, None, ["https://x/doc.pdf"], ["a", "b"]]


def test_h2o_results_name_the_case_apart_from_the_row(tmp_path: Path) -> None:
    results = [
        H2O_ROW | {"key": f"t1_{model}", "test_case_key": "t1", "model_key": model, "bleu_1": 0.5}
        for model in ("m1", "m2")
    ]
    models = [{"key": "m1", "name": "RAG", "llm_model_name": "gpt"}, {"key": "m2", "name": "RAG"}]
    loaded = load(tmp_path, "explanation.json", {"results": results, "models": models})
    found = rows(loaded)
    assert set(found) == {("t1", "m1"), ("t1", "m2")}
    assert found["t1", "m1"]["metadata"]["bleu_1"] == 0.5
    assert [model["name"] for model in tables(loaded)["models"]] == ["gpt", "RAG"]


def test_h2o_lab_takes_the_completed_dataset(tmp_path: Path) -> None:
    raw = H2O_ROW | {"actual_output": "", "actual_duration": 0, "model_key": ""}
    lab = {
        "name": "Lab", "description": "", "raw_dataset": {"inputs": [raw, raw]},
        "dataset": {"inputs": [H2O_ROW, H2O_ROW | {"key": "t2"}]},
        "models": [{"key": "m1", "name": "RAG", "llm_model_name": "gpt-4"}, {"key": "m9", "llm_model_name": "idle"}],
        "llm_model_names": ["gpt-4"], "docs_cache": {"https://x": "/cache/x"},
    }  # fmt: skip
    loaded = load(tmp_path, "lab.json", lab)
    assert (loaded.format, loaded.rows, loaded.name, loaded.models) == ("h2o-lab", 2, "Lab", ("m1",))
    assert tables(loaded)["models"][0]["name"] == "gpt-4"
    assert "model 'm9' is listed but answers nothing" in loaded.warnings


def test_h2o_lab_with_one_model_need_not_name_it_in_every_row(tmp_path: Path) -> None:
    lab = {"dataset": {"inputs": [H2O_ROW | {"model_key": ""}]}, "models": [{"key": "only", "llm_model_name": "x"}]}
    assert load(tmp_path, "lab.json", lab).models == ("only",)


def test_h2o_lab_that_was_not_completed_is_refused(tmp_path: Path) -> None:
    raw = {key: value for key, value in H2O_ROW.items() if not key.startswith("actual")}
    lab = {"raw_dataset": {"inputs": [raw]}, "dataset": {"inputs": []}, "models": []}
    (fault,) = faults(tmp_path, "lab.json", lab)
    assert "collect the models' answers first" in fault


def test_h2o_suite_is_refused_since_nobody_answered(tmp_path: Path) -> None:
    suite = {"name": "S", "tests": [{"key": "t", "documents": [], "test_cases": [{"key": "c", "prompt": "P"}]}]}
    (fault,) = faults(tmp_path, "suite.json", suite)
    assert "test suite" in fault
    assert "Collect the models' answers" in fault


def test_h2o_perturbations_are_linked_and_labelled(tmp_path: Path) -> None:
    def copy(key: str, *categories: str, **more: str) -> dict[str, Any]:
        link = {"type": "perturbation_source", "target": "t1", "target_type": "test_case"} | more
        return H2O_ROW | {"key": key, "input": f"How highh? {key}", "relationships": [link],
                          "categories": ["perturbed", *categories]}  # fmt: skip

    by = "perturbed_by:h2o_sonar.utils.perturbations."
    loaded = load(
        tmp_path,
        "d.json",
        {
            "inputs": [
                copy("a", f"{by}CommaPerturbator:PerturbationIntensity.HIGH"),
                copy("b", f"{by}KeywordTyposCharacterPerturbator", f"{by}WordSwapPerturbator"),
                copy("c", perturbation="Paraphrase"),
                copy("d"),
                H2O_ROW,
            ]
        },
    )
    found = tables(loaded)
    keys = {case["case_id"]: case["case_key"] for case in found["cases"]}
    links = {keys[link["case_id"]]: link for link in found["relationships"]}
    assert {key: link["perturbation"] for key, link in links.items()} == {
        "a": "comma", "b": "typo+word_swap", "c": "paraphrase", "d": "",
    }  # fmt: skip
    assert {keys[link["original_case_id"]] for link in links.values()} == {"t1"}
    assert {link["type"] for link in links.values()} == {"perturbation_source"}


def test_relationships_of_other_types_are_left_out_with_a_warning(tmp_path: Path) -> None:
    row = H2O_ROW | {"relationships": [{"type": "similar_to", "target": "zzz", "target_type": "test_case"}]}
    loaded = load(tmp_path, "d.json", {"inputs": [row]})
    assert tables(loaded)["relationships"] == []
    assert any("perturbation_source" in warning for warning in loaded.warnings)


def test_databricks(tmp_path: Path) -> None:
    chat = {"messages": [{"role": "user", "content": "first"}, {"role": "assistant", "content": "?"},
                         {"role": "user", "content": "What is Spark?"}]}  # fmt: skip
    completion = {"choices": [{"message": {"role": "assistant", "content": "An engine."}}]}
    loaded = load(
        tmp_path,
        "evalset.json",
        [
            {
                "request_id": "r1", "request": chat, "response": completion, "expected_response": "An engine",
                "expected_facts": ["it is an engine"], "guidelines": ["be brief"],
                "retrieved_context": [{"doc_uri": "d1", "content": "Spark is"}, {"doc_uri": "d2", "content": "no"}],
                "expected_retrieved_context": [{"doc_uri": "d1"}, {"doc_uri": "d3", "content": "…"}],
            },
            {"request": "plain", "trace": {"data": {"response": "from the trace"}}},
            {"request": {"query": "q?", "history": []}, "response": "r"},
        ],
    )  # fmt: skip
    assert (loaded.format, loaded.models, loaded.cases) == ("databricks", ("evalset",), 3)
    found = list(rows(loaded).items())
    (key, first), (_, second), (_, third) = found
    assert key == ("r1", "evalset")
    assert (first["question"], first["actual_answer"]) == ("What is Spark?", "An engine.")
    assert first["expected_documents"] == ["d1", "d3"]
    assert first["retrieved_context"][0] == {"content": "Spark is", "doc_uri": "d1"}
    assert first["metadata"] == {"expected_facts": ["it is an engine"], "guidelines": ["be brief"]}
    assert (second["question"], second["actual_answer"]) == ("plain", "from the trace")
    assert third["question"] == "q?"


CALLS = [{"id": "call_9", "type": "function", "function": {"name": "tide", "arguments": "{}"}}]
USER, ASSISTANT = {"role": "user", "content": "How high?"}, {"role": "assistant", "content": "5.4 m."}
ASKS, TOOL = {"role": "assistant", "content": None, "tool_calls": CALLS}, {"role": "tool", "content": '{"ok":true}'}


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ([ASKS, TOOL, ASSISTANT], "5.4 m."),
        ([ASSISTANT, ASKS, TOOL], "5.4 m."),
        ([ASKS, TOOL], None),
        ([USER, ASSISTANT, USER, ASKS, TOOL], None),
        ({"messages": [USER, ASSISTANT, TOOL]}, "5.4 m."),
        ([{"type": "human", "content": "?"}, {"type": "ai", "content": "Yes."}, TOOL], "Yes."),
        ({"choices": [{"message": ASKS}]}, None),
        ({"choices": ["Yes."]}, '{"choices":["Yes."]}'),
        ([{"chunk": 1}], '[{"chunk":1}]'),
    ]
)  # fmt: skip
def test_a_tools_result_is_no_answer(tmp_path: Path, response: Any, answer: str | None) -> None:
    records = [{"request": "How high?", "response": response}, {"request": "How deep?", "response": "2 m."}]
    found = rows(load(tmp_path, "evalset.json", records))
    assert [row["actual_answer"] for row in found.values() if row["question"] == "How high?"] == [answer]


def test_conversations_that_end_alike_are_different_cases(tmp_path: Path) -> None:
    def told(first: str, name: str, calls: Any = None) -> dict[str, Any]:
        offer = {"role": "assistant", "content": "Shall I?", **({"tool_calls": calls} if calls else {})}
        messages = [{"role": "user", "content": first}, offer, {"role": "user", "content": "Yes please"}]
        return {"model": name, "request": {"messages": messages}, "response": "Done."}

    again = [CALLS[0] | {"id": "call_10"}]
    found = rows(
        load(
            tmp_path,
            "evalset.json",
            [told("Book a berth", "a"), told("Cancel my berth", "a"), told("Book a berth", "b"),
             told("Book it", "a", CALLS), told("Book it", "b", again),
             {"model": "a", "request": "Yes please", "response": "Done."}],
        )
    )  # fmt: skip
    keys = [case for case, _ in found]
    assert (len(found), len(set(keys))) == (6, 4)
    assert all(not key.endswith("-2") for key in keys)


def test_ragas(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "rag.jsonl",
        as_jsonl(
            [
                {"user_input": "Q1", "response": "A1", "retrieved_contexts": ["x", "y"], "reference": "R1",
                 "retrieved_context_ids": ["d1", 2], "reference_context_ids": [2], "rubrics": {"score1": "bad"}},
                {"user_input": [{"content": "hi", "type": "human"}, {"content": "yes?", "type": "ai"},
                                {"content": "Q2", "type": "human"}], "response": "A2"},
            ]
        ),
    )  # fmt: skip
    assert (loaded.format, loaded.models) == ("ragas", ("rag",))
    first, second = rows(loaded).values()
    assert first["retrieved_context"] == [{"content": "x", "doc_uri": "d1"}, {"content": "y", "doc_uri": "2"}]
    assert (first["expected_answers"], first["expected_documents"]) == (["R1"], ["2"])
    assert first["metadata"] == {"rubrics": {"score1": "bad"}}
    assert second["question"] == "Q2"


def test_ragas_takes_the_answer_that_ends_a_conversation(tmp_path: Path) -> None:
    said = [{"content": "How long does it take?", "type": "human"}, {"content": "Four hours.", "type": "ai"}]
    loaded = load(tmp_path, "r.jsonl", as_jsonl([{"user_input": said, "reference": "4 hours"}]))
    (row,) = rows(loaded).values()
    assert (loaded.format, row["actual_answer"], row["expected_answers"]) == ("ragas", "Four hours.", ["4 hours"])


def test_ragas_before_version_0_2(tmp_path: Path) -> None:
    records = [{"question": "Q", "answer": "A", "contexts": ["x"], "ground_truths": ["R", "S"]}]
    loaded = load(tmp_path, "old.parquet", as_parquet(records, tmp_path))
    (row,) = rows(loaded).values()
    assert loaded.format == "ragas"
    assert (row["question"], row["actual_answer"], row["expected_answers"]) == ("Q", "A", ["R", "S"])


def test_deepeval(tmp_path: Path) -> None:
    records = [
        {"input": "Q", "actual_output": "A", "expected_output": "E", "retrieval_context": ["x"], "context": ["truth"],
         "name": "case one", "completion_time": 1.5, "token_cost": 0.1, "tags": ["t"]},
    ]  # fmt: skip
    loaded = load(tmp_path, "de.json", records)
    assert loaded.format == "deepeval"
    row = rows(loaded)["case one", "de"]
    assert (row["question"], row["actual_answer"], row["expected_answers"]) == ("Q", "A", ["E"])
    assert (row["duration_s"], row["cost_usd"], row["categories"]) == (1.5, 0.1, ["t"])
    assert row["metadata"] == {"context": ["truth"]}


def test_a_format_can_be_forced(tmp_path: Path) -> None:
    content = as_jsonl([{"input": "Q", "actual_output": "A", "model_key": "m", "key": "k"}])
    assert load(tmp_path, "d.jsonl", content).format == "h2o-dataset"
    forced = load(tmp_path, "d.jsonl", content, format="deepeval")
    assert forced.format == "deepeval"
    assert rows(forced)[next(iter(rows(forced)))]["metadata"] == {"key": "k"}


def test_promptfoo(tmp_path: Path) -> None:
    def result(provider: Any, prompt: int, question: str, **more: Any) -> dict[str, Any]:
        return {
            "provider": provider, "promptIdx": prompt, "prompt": {"raw": f"Answer: {question}", "label": "p"},
            "vars": {"question": question, "expected": "5.4 m", "tone": "kind"}, "latencyMs": 1500, "cost": 0.01,
            "response": {"output": "5 m", "tokenUsage": {"prompt": 7, "completion": 2}}, "success": True,
        } | more  # fmt: skip

    results = [
        result({"id": "openai:gpt", "label": "GPT"}, 0, "How high?", error="Expected output to contain 5.4"),
        result({"id": "openai:gpt", "label": "GPT"}, 1, "How high?", response={"output": {"height": 5}}),
        result("python:app.py", 0, "How high?", response={"error": "503"}, error="503"),
        result("python:app.py", 0, "", vars={"topic": "tides"}),
    ]
    loaded = load(tmp_path, "out.json", {"evalId": "e", "results": {"version": 3, "results": results, "prompts": []}})
    assert (loaded.format, loaded.cases, loaded.rows) == ("promptfoo", 2, 4)
    assert loaded.models == ("GPT", "GPT prompt 2", "python:app.py")
    first, second, failed, topic = rows(loaded).values()
    assert (first["question"], first["actual_answer"], first["expected_answers"]) == ("How high?", "5 m", ["5.4 m"])
    assert (first["duration_s"], first["cost_usd"], first["input_tokens"], first["output_tokens"]) == (1.5, 0.01, 7, 2)
    assert (first["error"], first["metadata"]) == (None, {"vars": {"tone": "kind"}, "success": True})
    assert second["actual_answer"] == '{"height":5}'
    assert (failed["actual_answer"], failed["error"]) == (None, "503")
    assert topic["question"] == "tides"
    assert loaded.column_warnings == ()


CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How high?"}]
SAID = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}, CHAT[1]]


def test_a_prompt_of_messages_in_promptfoo_is_the_history_and_the_question(tmp_path: Path) -> None:
    call = {"id": "x", "type": "function", "function": {"name": "tide", "arguments": '{"at": "Lisbon"}'}}
    prompts = [
        (json.dumps(CHAT), "5 m"),
        (json.dumps(SAID, indent=1), "5 m"),
        (json.dumps({"messages": SAID}), [call]),
        ("[no JSON", "5 m"),
        ('[{"role": "nobody"}]', "5 m"),
    ]
    results = [
        {"provider": "p", "prompt": {"raw": raw}, "vars": {"topic": "tides", "lines": 3}, "response": {"output": said},
         "testCase": {"assert": [{"type": "equals", "value": "5 m"}]}, "latencyMs": 1500, "testIdx": number}
        for number, (raw, said) in enumerate(prompts)
    ]  # fmt: skip
    loaded = load(tmp_path, "out.json", {"results": {"results": results}})
    found = tables(loaded)
    asked = [case["question"] for case in found["cases"]]
    assert asked == ["How high?", "How high?", "How high?", "[no JSON", '[{"role": "nobody"}]']
    assert [row["actual_answer"] for row in found["rows"]] == ["5 m", "5 m", None, "5 m", "5 m"]
    assert [row["duration_s"] for row in found["rows"]] == [1.5] * 5
    assert all(case["expected_answers"] == ["5 m"] for case in found["cases"])
    turns = parquet.read_table(loaded.path / "turns.parquet").to_pylist()
    given, called = (turn for turn in turns if turn["history"])
    assert json.loads(given["history"]) == SAID[:2] == json.loads(called["history"])
    assert [each["name"] for each in json.loads(called["tool_calls"])] == ["tide"]


@pytest.mark.parametrize(
    ("cell", "chunks"),
    [
        ("['Books are lent', 'for 30 days']", ["Books are lent", "for 30 days"]),
        ("['a' 'b'\n 'c']", ["a", "b", "c"]),
        ("""['it\\'s', "it's", 'a, b', '[c]', 'x\\ny', 'é']""", ["it's", "it's", "a, b", "[c]", "x\ny", "é"]),
        ("('a', 'b')", ["('a', 'b')"]),
        ("[{'content': 'a', 'doc_uri': None}]", ["a"]),
        ("['a', None]", ["a"]),
        ("[see 'a' and 'b']", ["[see 'a' and 'b']"]),
        ("['a', __import__('os')]", ["['a', __import__('os')]"]),
        ("['a'", ["['a'"]),
        ("[1] Paris", ["[1] Paris"]),
        ("array(['a', 'b'], dtype=object)", ["a", "b"]),
        ("array(['a', 'b'], dtype='<U1')", ["a", "b"]),
        ("array([], dtype=object)", []),
        ("array([]) is empty", ["array([]) is empty"]),
        ("array([see below])", ["array([see below])"]),
    ],
)
def test_lists_as_python_and_numpy_print_them_are_lists_in_csv(tmp_path: Path, cell: str, chunks: list[str]) -> None:
    content = as_csv([{"question": "Q", "answer": "A", "contexts": cell, "ground_truth": "A"}])
    (row,) = rows(load(tmp_path, "d.csv", content)).values()
    assert [chunk["content"] for chunk in row["retrieved_context"]] == chunks


def test_a_hostile_list_of_python_is_read_in_linear_time() -> None:
    for cell in ("[" * 100_000, "['" + "\\" * 100_001, "[" + "'a' " * 50_000, "['a'" + "(" * 100_000):
        started = time.process_time()
        assert printed_by_python(cell) is None
        assert time.process_time() - started < 2


@pytest.mark.parametrize("first", ["sep=;\n", "SEP=;\r\n", '"sep=;"\n'])
def test_the_line_that_excel_writes_above_the_header_is_passed_over(tmp_path: Path, first: str) -> None:
    loaded = load(tmp_path, "d.csv", f"{first}question;expected_answer;actual_answer\nQ;E;A\n")
    (row,) = rows(loaded).values()
    assert (row["question"], row["expected_answers"], row["actual_answer"]) == ("Q", ["E"], "A")


def test_the_answer_may_be_the_end_of_the_conversation(tmp_path: Path) -> None:
    def chat(*said: str) -> dict[str, Any]:
        roles = ("user", "assistant")
        return {"messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(said)]}

    loaded = load(tmp_path, "d.jsonl", as_jsonl([chat("Hello", "Hi", "How high?", "5.4 m"), chat("Who?")]))
    assert [(row["question"], row["actual_answer"]) for row in rows(loaded).values()] == [
        ("Hello", "5.4 m"), ("Who?", None),
    ]  # fmt: skip
    (row,) = rows(load(tmp_path, "e.jsonl", as_jsonl([chat("Q", "old") | {"response": "new"}]))).values()
    assert row["actual_answer"] == "new"


@pytest.mark.parametrize(
    ("called", "question"),
    [
        ({"args": ["How long?"], "kwargs": {}}, "How long?"),
        ({"args": [], "kwargs": {"query": "How long?"}}, "How long?"),
        ({"args": [{"messages": [{"role": "user", "content": "How long?"}]}]}, "How long?"),
        ({"args": ["a", "b"], "kwargs": {}}, '{"args":["a","b"],"kwargs":{}}'),
    ],
)
def test_the_only_argument_of_a_call_that_langfuse_recorded_is_the_question(
    tmp_path: Path, called: dict[str, Any], question: str
) -> None:
    (row,) = rows(load(tmp_path, "d.jsonl", as_jsonl([{"id": "1", "input": called, "output": "30 days"}]))).values()
    assert row["question"] == question


def test_promptfoos_assertions_about_texts_are_conditions_and_the_others_are_told(tmp_path: Path) -> None:
    asserted = [
        {"type": "contains", "value": "4"},
        {"type": "not-icontains", "value": "5.0"},
        {"type": "contains-any", "value": "four, 4"},
        {"type": "contains-all", "value": ["It", "is"]},
        {"type": "regex", "value": "[0-9]"},
        {"type": "regex", "value": "(?<js>x)["},
        {"type": "starts-with", "value": "It"},
        {"type": "equals", "value": "It is 4"},
        {"type": "contains", "value": "{{ expected }}"},
        {"type": "llm-rubric", "value": "is polite"},
    ]
    result = {
        "provider": "p", "vars": {"question": "2 + 2?"}, "response": {"output": "It is 4"},
        "testCase": {"assert": asserted},
    }  # fmt: skip
    loaded = load(tmp_path, "d.json", {"results": {"results": [result]}})
    (row,) = rows(loaded).values()
    assert row["condition"] == (
        '"4" AND NOT (regexp("(?i)5\\.0")) AND ("four" OR "4") AND ("It" AND "is") AND regexp("[0-9]") '
        'AND regexp("\\AIt")'
    )
    assert row["expected_answers"] == ["It is 4"]
    assert [warning for warning in loaded.warnings if "assertions" in warning] == [
        f"assertions {kind!r} of promptfoo were left out" for kind in ("contains", "llm-rubric", "regex")
    ]
