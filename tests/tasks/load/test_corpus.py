"""Documents that were recorded by their ids get their texts from a corpus; what it does not have is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import DatasetError
from tests.support.datasets.loading import as_csv, as_jsonl, load, rows, write

TEXTS: list[dict[str, Any]] = [{"id": "a", "text": "High water is 5.4 m."}, {"id": 7, "text": "The quay is full."}]


def trace(*documents: Any) -> str:
    """Return attributes of a retrieval and of the call of a model that followed, as lines."""
    asked, said = ([{"role": role, "content": role}] for role in ("user", "assistant"))
    common = {"trace_id": "t"}
    found = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": json.dumps(documents), **common}
    call = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": asked, "gen_ai.output.messages": said, **common}
    return "".join(json.dumps(each) + "\n" for each in (found, call))


def contexts(folder: Path, content: Any, corpus: Path | None) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Return the chunks of the one row in a dataset, and what is said of it."""
    loaded = load(folder, "d.jsonl", content, corpus=corpus)
    (row,) = rows(loaded).values()
    return [(chunk["content"], chunk["doc_uri"]) for chunk in row["retrieved_context"]], list(loaded.warnings)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.jsonl", as_jsonl(TEXTS)),
        ("c.json", json.dumps(TEXTS, indent=1)),
        ("c.json", json.dumps({"a": TEXTS[0]["text"], "7": TEXTS[1]["text"]}, indent=1)),
        ("c.csv", as_csv([{"doc_id": str(each["id"]), "content": each["text"]} for each in TEXTS])),
    ],
)
def test_retrievals_of_ids_get_their_texts_from_a_corpus_in_any_container(
    tmp_path: Path, name: str, content: Any
) -> None:
    corpus = write(tmp_path, name, content)
    documents = [{"id": "a", "score": 0.9}, {"id": "gone"}, {"id": "7"}]
    found, said = contexts(tmp_path, trace(*documents), corpus)
    assert found == [("High water is 5.4 m.", "a"), ("The quay is full.", "7")]
    assert f"2 of 3 documents that were recorded by id have a text in {corpus}" in said
    assert contexts(tmp_path, trace(*documents), None)[0] == []


def test_a_retrieval_that_got_all_its_texts_is_none_of_ids_only(tmp_path: Path) -> None:
    corpus = write(tmp_path, "c.jsonl", as_jsonl(TEXTS))
    _, said = contexts(tmp_path, trace({"id": "a"}), corpus)
    assert not any("ids of documents only" in each for each in said)
    _, said = contexts(tmp_path, trace({"id": "gone"}), corpus)
    assert any("ids of documents only" in each for each in said)


def test_chunks_of_datasets_that_are_ids_get_their_texts_too(tmp_path: Path) -> None:
    corpus = write(tmp_path, "c.jsonl", as_jsonl(TEXTS))
    record = {"question": "How high?", "actual_answer": "5.4 m"}
    for given in (["a", "plain text"], [{"content": "", "doc_uri": "a"}, "plain text"]):
        found, said = contexts(tmp_path, as_jsonl([record | {"retrieved_context": given}]), corpus)
        assert found == [("High water is 5.4 m.", "a"), ("plain text", None)]
        assert f"1 of 1 document that were recorded by id has a text in {corpus}" in said


def test_another_corpus_is_another_dataset(tmp_path: Path) -> None:
    first, second = write(tmp_path, "c.jsonl", as_jsonl(TEXTS)), write(tmp_path, "e.jsonl", as_jsonl(TEXTS[:1]))
    loaded = [load(tmp_path, "d.jsonl", trace({"id": "7"}), corpus=each) for each in (None, first, first, second)]
    assert len({each.digest for each in loaded}) == 3
    assert [each.reused for each in loaded] == [False, False, True, False]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"a": 1}', "expected an id"),
        ('[{"id": "a"}]', "expected an id"),
        ("[7]", "expected an id"),
        ('{"id": "a", "text": "x"}\n{broken', "broken JSON"),
        ("", "the file is empty"),
    ],
)
def test_a_corpus_that_is_none_is_refused_in_one_line(tmp_path: Path, content: str, said: str) -> None:
    corpus = write(tmp_path, "c.json", content)
    with pytest.raises(DatasetError, match=said):
        load(tmp_path, "d.jsonl", trace({"id": "a"}), corpus=corpus)
    with pytest.raises(DatasetError, match="no such file"):
        load(tmp_path, "d.jsonl", trace({"id": "a"}), corpus=tmp_path / "missing.jsonl")


def test_a_corpus_that_memory_should_not_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.tasks.load.importing.FREE_EXPANSION", 30)
    corpus = write(tmp_path, "c.jsonl", as_jsonl(TEXTS))
    with pytest.raises(DatasetError, match="more than are kept in memory"):
        load(tmp_path, "d.jsonl", trace({"id": "a"}), corpus=corpus)
