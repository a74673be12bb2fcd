"""Keys reach no error text, and no server that they are not meant for."""

from __future__ import annotations

import pytest

from leadline.evaluators.ground import LONGEST, UsageError, without_secrets
from leadline.evaluators.settings import JudgeConfig


def test_planted_keys_are_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "plain-looking-value-1")
    monkeypatch.setenv("MY_JUDGE", "another value 2")
    JudgeConfig(model="m", api_key_env="MY_JUDGE")
    text = (
        "Incorrect API key: plain-looking-value-1, another value 2, sk-proj-abcdef123456, "
        "Authorization: Bearer abc.def-ghi123, http://user:pass@host/"
    )
    said = without_secrets(text)
    for secret in ("plain-looking-value-1", "another value 2", "abcdef123456", "abc.def-ghi123", "pass@"):
        assert secret not in said
    assert said.startswith("Incorrect API key: [key]")


def test_error_texts_are_one_short_line() -> None:
    said = without_secrets("a\nb\t" + "x" * 10_000)
    assert "\n" not in said
    assert len(said) <= LONGEST


def test_a_server_of_ones_own_gets_no_providers_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the providers")
    monkeypatch.delenv("LEADLINE_JUDGE_API_KEY", raising=False)
    own = JudgeConfig(model="openai/m", api_base="http://h")
    assert own.api_key() == "none"
    monkeypatch.setenv("LEADLINE_JUDGE_API_KEY", "its own")
    assert own.api_key() == "its own"
    assert JudgeConfig(model="openai/m").api_key() is None


def test_a_named_key_that_is_not_set_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(UsageError, match="MY_KEY"):
        JudgeConfig(model="m", api_key_env="MY_KEY").api_key()


@pytest.mark.parametrize(
    "text",
    [
        "The key findings are listed.", "key: findings", "the bearer bonds", "a model hf-mistral-7b-instruct-v0.2",
        "hf_llama3_instruct", "pk-dataset-of-2024", "key performance indicators", "keyword abcdef123456"
    ]
)  # fmt: skip
def test_words_and_names_are_no_keys(text: str) -> None:
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("key sk-ant-api03-Abcdefghijklmno", "Abcdefghijklmno"),
        ("Incorrect API key provided: sk-abcd****************wxyz", "wxyz"),
        ("hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ", "aBcDeFg"),
        ("AIzaSyA-abcdefghijklmnopqrstuvwxyz", "abcdefghijk"),
        ("Bearer eyJhbGciOiJIUzI1NiJ9.e30.x", "eyJhb"),
        ("Authorization: Bearer abcdefghijklmnopqrstuvwx", "abcdefghijk"),
        ("api_key=abc123", "abc123"),
        ("key: 0123456789abcdef", "0123456789abcdef"),
    ],
)
def test_what_looks_like_a_key_is_taken_out(text: str, secret: str) -> None:
    assert secret not in without_secrets(text)
