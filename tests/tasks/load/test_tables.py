"""What a load makes of records: cases are merged, keys are derived, digests are stable."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from leadline.evaluators.ground import DatasetError
from leadline.tasks.db import STORED
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.store.store import Store
from tests.support.datasets.loading import as_csv, as_jsonl, as_parquet, load, rows, tables

BASE: dict[str, Any] = {
    "case": "c", "model": "m", "question": "Q", "expected_answer": ["E"], "expected_documents": ["d"],
    "condition": '"x"', "categories": ["k"], "actual_answer": "A",
    "retrieved_context": [{"content": "t", "doc_uri": "d"}], "metadata": {"a": 1},
    "expected_annotations": [{"label": "cat"}], "predicted_annotations": [{"label": "cat", "score": 0.9}],
}  # fmt: skip


def digests(folder: Path, *records: dict[str, Any]) -> list[dict[str, bytes | None]]:
    """Load records together, each as a case of its own, and return the digests of each."""
    lines = [record | {"case": f"{record['case']} {number}"} for number, record in enumerate(records)]
    found = sorted(tables(load(folder, "d.jsonl", as_jsonl(lines)))["digests"], key=lambda line: line["row_id"])
    return [{name: value for name, value in line.items() if name != "row_id"} for line in found]


def test_the_case_of_several_answers_is_merged(tmp_path: Path) -> None:
    records = [
        {"case": "x", "model": "a", "actual_answer": "1"},
        {"case": "x", "model": "b", "actual_answer": "2", "question": "Q", "categories": ["k"]},
        {"case": "x", "model": "c", "actual_answer": "3", "question": "Q", "expected_answer": "E"},
        {"case": "y", "model": "a", "actual_answer": "4"},
    ]
    loaded = load(tmp_path, "d.jsonl", as_jsonl(records))
    cases = tables(loaded)["cases"]
    assert [(case["case_id"], case["case_key"]) for case in cases] == [(0, "x"), (1, "y")]
    assert (cases[0]["question"], cases[0]["expected_answers"], cases[0]["categories"]) == ("Q", ["E"], ["k"])
    assert (cases[1]["question"], cases[1]["expected_answers"], cases[1]["metadata"]) == (None, [], "{}")


def test_rows_keep_the_order_of_the_file(tmp_path: Path) -> None:
    records = [{"case": f"c{(7 * i) % 50}", "model": f"m{i % 3}", "actual_answer": f"{i}"} for i in range(50)]
    found = tables(load(tmp_path, "d.jsonl", as_jsonl(records)))
    assert [row["row_id"] for row in found["rows"]] == list(range(50))
    assert [row["actual_answer"] for row in found["rows"]] == [str(i) for i in range(50)]
    assert [case["case_key"] for case in found["cases"]] == [record["case"] for record in records]
    assert [line["row_id"] for line in found["digests"]] == list(range(50))


def test_cases_without_a_key_get_one_from_their_content(tmp_path: Path) -> None:
    records = [{"user_input": question, "response": "A", "model": model} for question in "pq" for model in "ab"]
    first = rows(load(tmp_path, "one.jsonl", as_jsonl(records)))
    again = rows(load(tmp_path, "two.jsonl", as_jsonl(records[::-1])))
    assert len(first) == 4
    assert len({case for case, _ in first}) == 2
    assert set(first) == set(again)


def test_repeated_questions_without_a_key_stay_separate_cases(tmp_path: Path) -> None:
    records = [{"user_input": "Q", "response": answer, "reference": "R"} for answer in "abc"]
    loaded = load(tmp_path, "d.jsonl", as_jsonl(records))
    assert (loaded.rows, loaded.cases) == (3, 3)
    assert {row["actual_answer"] for row in rows(loaded).values()} == {"a", "b", "c"}
    assert {row["question"] for row in rows(loaded).values()} == {"Q"}
    assert "2 records repeat a case that has no key; each counts as a case of its own" in loaded.warnings


def test_the_digest_columns_are_the_fields(tmp_path: Path) -> None:
    (found,) = digests(tmp_path, BASE)
    assert set(found) == set(STORED)
    assert all(isinstance(value, bytes) and len(value) == 16 for value in found.values())


def test_a_change_changes_the_digests_of_what_it_touches(tmp_path: Path) -> None:
    changes: list[tuple[dict[str, Any], set[str]]] = [
        ({"question": "other"}, {"question"}),
        ({"expected_answer": ["E", "F"]}, {"expected_answer"}),
        ({"expected_documents": ["e"]}, {"expected_documents"}),
        ({"condition": '"y"'}, {"condition"}),
        ({"categories": []}, {"categories"}),
        ({"actual_answer": ""}, {"actual_answer"}),
        ({"metadata": {}}, {"metadata"}),
        ({"temperature": 0}, {"metadata"}),
        ({"retrieved_context": [{"content": "u", "doc_uri": "d"}]}, {"retrieved_context"}),
        ({"retrieved_context": [{"content": "t", "doc_uri": "e"}]}, {"retrieved_documents"}),
        ({"retrieved_context": ["t"]}, {"retrieved_documents"}),
        ({"error": "503"}, {"actual_answer", "predicted_annotations"}),
        ({"expected_annotations": []}, {"expected_annotations"}),
        ({"predicted_annotations": [{"label": "cat", "score": 0.8}]}, {"predicted_annotations"}),
        ({"case": "other", "model": "other", "duration_s": 9, "cost_usd": 1, "input_tokens": 3}, set()),
    ]
    before, *found = digests(tmp_path, BASE, *(BASE | change for change, _ in changes))
    for (change, fields), after in zip(changes, found, strict=True):
        assert {name for name in before if before[name] != after[name]} == fields, change


def test_absent_fields_have_no_digest(tmp_path: Path) -> None:
    changes: list[tuple[dict[str, Any], str, bool]] = [
        ({"question": None}, "question", True),
        ({"question": " \n"}, "question", True),
        ({"expected_answer": []}, "expected_answer", True),
        ({"expected_answer": ["", None, "  "]}, "expected_answer", True),
        ({"expected_answer": "E"}, "expected_answer", False),
        ({"retrieved_context": []}, "retrieved_context", True),
        ({"retrieved_context": None}, "retrieved_context", True),
        ({"retrieved_context": [{"doc_uri": "d"}]}, "retrieved_context", True),
        ({"retrieved_context": [{"doc_uri": "d"}]}, "retrieved_documents", False),
        ({"retrieved_context": ["t"]}, "retrieved_documents", True),
        ({"retrieved_context": [{"content": "t", "doc_uri": " "}]}, "retrieved_documents", True),
        ({"actual_answer": None, "error": "x"}, "actual_answer", True),
        ({"actual_answer": ""}, "actual_answer", False),
        ({"actual_answer": "A", "error": "x"}, "actual_answer", True),
        ({"actual_answer": "A", "error": ""}, "actual_answer", False),
        ({"condition": ""}, "condition", True),
        ({"categories": None}, "categories", False),
        ({"metadata": None}, "metadata", False),
        ({"expected_documents": []}, "expected_documents", True),
    ]
    found = digests(tmp_path, *(BASE | change for change, _, _ in changes))
    for (change, field, absent), after in zip(changes, found, strict=True):
        assert (after[field] is None) is absent, change


def test_lists_that_read_alike_have_digests_of_their_own(tmp_path: Path) -> None:
    lists = [["a", "b"], ["a, b"], ['a","b'], ["ab"], ["a\0b"], ["a", "b", "c"]]
    found = digests(tmp_path, *(BASE | {"expected_answer": answers} for answers in lists))
    assert len({line["expected_answer"] for line in found}) == len(lists)


def test_metadata_counts_alike_whatever_the_order_of_its_keys(tmp_path: Path) -> None:
    orders = ({"a": 1, "b": {"x": 1, "y": 2}}, {"b": {"y": 2, "x": 1}, "a": 1})
    one, two = digests(tmp_path, *(BASE | {"metadata": metadata} for metadata in orders))
    assert one == two


HOSTILE = [
    "\0",
    "a\0b",
    "\u202e\u0645\u0631\u062d\u0628\u0627",
    "😀" * 3,
    "a" * 100_000,
    "{{ x }}",
    "'; DROP TABLE rows; --",
    "\r\n\t",
]


def test_hostile_texts_come_back_as_they_are(tmp_path: Path) -> None:
    records = [
        BASE
        | {"actual_answer": text, "case": f"k{text[:50]}", "model": f"m{text[:50]}"}
        | {"metadata": {text[:9]: text}, "retrieved_context": [text]}
        for text in HOSTILE
    ]
    found = rows(load(tmp_path, "d.jsonl", as_jsonl(records)))
    assert len(found) == len(HOSTILE)
    for text, record in zip(HOSTILE, records, strict=True):
        row = found[record["case"], record["model"]]
        assert row["actual_answer"] == text
        assert row["retrieved_context"][0]["content"] == text
        assert row["metadata"] == record["metadata"]


def test_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    content = b'{"actual_answer": "cut \\ud83d", "note\\udc00": ["\\ud800"], "question": "Q"}\n'
    (row,) = rows(load(tmp_path, "d.jsonl", content)).values()
    assert row["actual_answer"] == "cut \ufffd"
    assert row["metadata"] == {"note\ufffd": ["\ufffd"]}


def test_a_second_load_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load(tmp_path, "d.jsonl", as_jsonl([BASE]))
    monkeypatch.setattr("leadline.tasks.load.importing.import_file", lambda *_, **__: pytest.fail("it was read again"))
    again = load_dataset(Store.open(tmp_path / "store"), tmp_path / "d.jsonl")
    assert not first.reused
    assert again.reused
    assert (again.digest, again.models, again.rows, again.warnings) == (first.digest, first.models, 1, first.warnings)


def test_the_same_bytes_under_another_name_are_another_dataset(tmp_path: Path) -> None:
    content = as_jsonl([{"question": "Q", "actual_answer": "A"}])
    assert load(tmp_path, "one.jsonl", content).models == ("one",)
    assert load(tmp_path, "two.jsonl", content).models == ("two",)


def test_what_killed_loads_left_behind_is_removed(tmp_path: Path) -> None:
    import os

    left = tmp_path / "store" / "staging" / "load-dead"
    left.mkdir(parents=True)
    fresh = tmp_path / "store" / "staging" / "load-alive"
    fresh.mkdir()
    os.utime(left, (0, 0))
    load(tmp_path, "d.jsonl", as_jsonl([BASE]))
    assert [path.name for path in (tmp_path / "store" / "staging").iterdir()] == ["load-alive"]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
filled = texts.filter(lambda text: bool(text.strip()))
keys = st.text("abcé 1_-", min_size=1, max_size=5).filter(lambda text: bool(text.strip()))
chunks = st.fixed_dictionaries({"content": texts, "doc_uri": st.none() | filled})
records = st.fixed_dictionaries(
    {"case": keys, "model": keys},
    optional={
        "question": filled,
        "expected_answer": st.lists(filled, max_size=3),
        "expected_documents": st.lists(filled, max_size=2),
        "condition": st.sampled_from(['"a"', 'regexp("b+") AND NOT "c"']),
        "categories": st.lists(filled, max_size=3),
        "actual_answer": texts,
        "retrieved_context": st.lists(chunks, max_size=3),
        "error": filled,
        "duration_s": st.floats(0, 1e6),
        "cost_usd": st.floats(-1, 1e6),
        "input_tokens": st.integers(0, 2**40),
    },
)


@pytest.mark.slow
@settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.generate])  # shrinking takes minutes
@example([{"case": "1", "model": "1"}], 'a\0b\r\n\x1a"\x85')
@given(st.lists(records, min_size=1, max_size=16, unique_by=lambda record: record["case"]), texts)
def test_records_become_the_same_tables_from_every_container(made: list[dict[str, Any]], answer: str) -> None:
    made[0]["actual_answer"] = answer
    for record in made:  # a cell cannot say that there is no answer: one that is empty is an empty answer
        if not record.get("error"):
            record.setdefault("actual_answer", "")
    folder = Path(tempfile.mkdtemp())
    try:
        contents = [json.dumps(made).encode(), json.dumps(made, indent=1, ensure_ascii=False).encode()]
        contents += [as_jsonl(made), as_csv(made), as_csv(made, delimiter="\t"), as_parquet(made, folder)]
        found = [tables(load(folder, "d", content)) for content in contents]
        for record in made:
            row = next(r for r in found[0]["rows"] if r["row_id"] == made.index(record))
            assert row["actual_answer"] == record.get("actual_answer")
            assert row["duration_s"] == record.get("duration_s")
        assert all(one == found[0] for one in found[1:])
    finally:
        shutil.rmtree(folder)


def test_an_empty_cell_of_the_answers_is_an_empty_answer_but_where_the_host_failed(tmp_path: Path) -> None:
    lines = "case,question,actual_answer,error\na,q1,yes,\nb,q2,,\nc,q3,,timeout\n"
    many = lines + "".join(f"d{n},q{n},,\n" for n in range(3000))
    for content in (lines, many):  # record by record, and by columns
        loaded = load(tmp_path, "d", content.encode())
        said = {row["case_id"]: row["actual_answer"] for row in tables(loaded)["rows"]}
        assert list(said.values())[:3] == ["yes", "", None]
        assert set(list(said.values())[3:]) <= {""}
    with pytest.raises(DatasetError, match="no record has an answer"):
        load(tmp_path, "d", b"case,question,actual_answer\na,q1,\nb,q2,\n")
