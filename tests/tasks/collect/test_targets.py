"""Targets files: what they say, what is refused, and what identifies an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from leadline.evaluators.ground import UsageError
from leadline.tasks.collect.targets import KEY_VARIABLE, Target, find_targets, read_targets

TOML = """
[[model]]
key = "strict"
model = "openai/gpt-x-{{ version }}"
api_base = "http://localhost:1/v1"
system = "Be strict."

[[model]]
key = "rag"
version = "7"
url = "http://localhost:1/{{ version }}/answer"
headers = { Authorization = "Bearer ${TOKEN}" }
"""
YAML = "model:\n- key: fn\n  function: 'app:answer'\n"


def write(folder: Path, text: str, name: str = "targets.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_files_in_toml_and_yaml_name_models_of_all_kinds(tmp_path: Path) -> None:
    files = [write(tmp_path, TOML), write(tmp_path, YAML, "more.yaml")]
    strict, rag, function = find_targets(files, [], version="2")
    assert (strict.kind, strict.model, strict.version) == ("litellm", "openai/gpt-x-2", "2")
    assert (rag.kind, rag.url, rag.version) == ("http", "http://localhost:1/7/answer", "7")
    assert (function.kind, function.address) == ("function", "app:answer")


def test_names_are_keys_of_the_files_or_addresses(tmp_path: Path) -> None:
    names = ["rag", "openai/gpt-4o", "python:app:answer", "http://localhost:2/ask"]
    found = find_targets([write(tmp_path, TOML)], names, version="2", defaults={"temperature": 0.5})
    assert [target.kind for target in found] == ["http", "litellm", "function", "http"]
    assert [target.key for target in found] == names
    assert found[1].temperature == 0.5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no list of models"),
        ("[model]\nkey='a'", "no list of models"),
        ("[[model]]\nmodel='x'", "model 1, key"),
        ("[[model]]\nkey='a'", "give one of model"),
        ("[[model]]\nkey='a'\nmodel='x'\nurl='http://h'", "give one of model"),
        ("[[model]]\nkey='a'\nmodel='x'\napi_key='sk-123456789'", "does not belong into a file"),
        ("[[model]]\nkey='a'\nurl='http://me:pw@h/x'", "no user, password or query"),
        ("[[model]]\nkey='a'\nurl='ftp://h/x'", "must be an address"),
        ("[[model]]\nkey='a'\nurl='http://h'\nheaders={Authorization='Bearer abc'}", "does not belong into a file"),
        ("[[model]]\nkey='a'\nurl='http://h'\nheaders={X='sk-abcdefgh123'}", "does not belong into a file"),
        ("[[model]]\nkey='a'\nurl='http://h'\nbody='{{ a b }}'", "is no template"),
        ("[[model]]\nkey='a'\nurl='http://h'\n[model.reply]\nanswer='a b'", "is no template"),
        ("[[model]]\nkey='a'\nmodel='x'\ntemprature=1", "temprature"),
        ("[[model]]\nkey='a'\nmodel='x'\nversion='a b'", "version"),
        ("[[model]]\nkey='a'\nmodel='x'\n[other]", "other is unknown"),
        ("[[model]]\nkey='a'\nmodel='x-{{ version }}'", "needs a version"),
        ("[[model]]\nkey='a'\nmodel='x'\n[[model]]\nkey='a'\nmodel='y'", "two models 'a'"),
        ("not toml", "cannot be read"),
    ],
)
def test_a_broken_file_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        find_targets([write(tmp_path, text)], [])
    assert "\n" not in str(refused.value)
    assert "sk-" not in str(refused.value)


def test_nothing_named_is_nothing_to_ask() -> None:
    with pytest.raises(UsageError, match="No model was named"):
        find_targets([], [])


def test_what_an_answer_depends_on_identifies_it_and_nothing_else_does() -> None:
    base = Target(key="a", model="openai/x")
    same = base.model_copy(update={"timeout_s": 1.0, "name": "Other name", "max_in_flight": 2})
    assert same.identity() == base.identity()
    for change in ({"key": "b"}, {"version": "2"}, {"system": "Be brief."}, {"temperature": 0.5}, {"max_tokens": 9}):
        assert base.model_copy(update=change).identity() != base.identity()
    rag = Target(key="a", url="http://h/x", headers={"Authorization": "Bearer ${TOKEN}"})
    assert rag.identity() == rag.model_copy(update={"reply": rag.reply.model_copy(update={"answer": "x"})}).identity()
    assert "TOKEN" in str(rag.identity()["headers"])


def test_the_server_of_a_model_under_test_never_gets_the_judges_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_JUDGE_API_KEY", "of the judge")
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    target = Target(key="a", model="openai/x", api_base="http://localhost:1/v1")
    assert target.config().api_key() == "none"
    monkeypatch.setenv(KEY_VARIABLE, "of the model")
    assert target.config().api_key() == "of the model"


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no file"):
        read_targets(tmp_path / "targets.toml")


@pytest.mark.parametrize(
    "values",
    [
        {"query": {"api_key": "plain-text-key"}},
        {"query": {"q": "sk-abcdefghijk0123456789"}},
        {"body": {"auth": {"token": "plain-text-key"}, "q": "{{ question }}"}},
    ],
)
def test_a_key_in_a_query_or_a_body_is_refused_without_being_told(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        Target(key="m", url="http://localhost/ask", **values)
    said = caught.value.errors()[0]["msg"]
    assert "header" in said
    assert "plain-text-key" not in said
    assert "sk-abc" not in said


def test_a_template_may_take_what_a_case_calls_a_key() -> None:
    assert Target(key="m", url="http://localhost/ask", query={"key": "{{ case.key }}"}).query


def test_a_refused_address_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        find_targets([], ["http://user:hunter2secret@host/x"])
    assert "hunter2secret" not in str(caught.value)


def test_a_misspelt_model_of_a_targets_file_is_no_litellm_name(tmp_path: Path) -> None:
    file = tmp_path / "targets.toml"
    file.write_text('[[model]]\nkey = "keyword-search"\nmodel = "openai/x"\n', encoding="utf-8")
    with pytest.raises(UsageError, match="keyword-serch") as caught:
        find_targets([str(file)], ["keyword-serch"])
    assert "keyword-search" in caught.value.hint
