"""The secrets of a process are found in the environment, and taken out of whatever is written down."""

from __future__ import annotations

import base64
import json
import logging
import threading
from pathlib import Path

import pytest

from leadline.evaluators.ground import (
    LONG,
    LONGEST,
    LeadlineError,
    UsageError,
    clean_error,
    masked,
    masked_value,
    remember_variable,
    variable_in,
    without_secret_variables,
    without_secrets,
)
from leadline.evaluators.ground.errors import without_secrets_in_errors
from leadline.evaluators.ground.secret_values import mask_logs
from leadline.evaluators.settings import JudgeConfig

CANARY = "canary/4711-with+marks"
PLAIN = "plain-looking-canary"


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("OPENAI_API_KEY", CANARY, CANARY),
        ("PREFECT_API_AUTH_STRING", f"admin:{CANARY}", f"admin:{CANARY}"),
        ("LEADLINE_LEDGER", "postgresql://leadline:kept%2Fquiet77@db/x", "kept/quiet77"),
        ("LEADLINE_LEDGER", "postgresql://leadline:kept%2Fquiet77@db/x", "kept%2Fquiet77"),
        ("ALERTS_WEBHOOK_URL", "https://hooks.example.com/T0/B0/canary77", "https://hooks.example.com/T0/B0/canary77"),
        ("SLACK_NOTIFICATION", "slack://canary77canary77", "slack://canary77canary77"),
        ("STORAGE", "DefaultEndpointsProtocol=https;AccountKey=canary77==;x=y", "canary77=="),
        ("MY_TOKEN", "Bearer canary-token-77", "canary-token-77"),
        ("MY_SECRET", f" {CANARY}\n", CANARY),
        ("OTEL_EXPORTER_OTLP_HEADERS", f"x-team=harbour,authorization=Bearer%20{CANARY}", CANARY),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", f"api-key={CANARY}", CANARY),
        ("PREFECT_CLIENT_CUSTOM_HEADERS", json.dumps({"X-Gate": CANARY}), CANARY),
    ],
)
def test_secrets_are_known_by_their_names_and_in_addresses(
    name: str, value: str, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert secret not in masked(f"before {secret} after")
    assert masked("before and after") == "before and after"


@pytest.mark.parametrize("write", [json.dumps, lambda text: base64.b64encode(text.encode()).decode(), str])
def test_a_secret_is_found_however_it_is_written(write: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", f'{CANARY}"\\')
    text = write(f'{CANARY}"\\')  # type: ignore[operator]
    assert "canary" not in masked(f"x {text} y")
    assert text.strip('"') not in masked(f"x {text} y")


def test_variables_that_are_named_for_a_key_count_whatever_their_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_GATE", PLAIN)
    assert masked(PLAIN) == PLAIN
    remember_variable("TEAM_GATE")
    assert masked(PLAIN) == "[key]"
    monkeypatch.delenv("TEAM_GATE")
    assert masked(PLAIN) == PLAIN


def test_ordinary_words_and_paths_are_no_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEADLINE_JUDGE_API_KEY", "ollama")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ada Lovelace")
    said = f"ollama of Ada Lovelace in {tmp_path}"
    assert masked(said) == said


def test_texts_that_scores_depend_on_lose_long_secrets_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_PASSWORD", "password1")
    monkeypatch.setenv("A_KEY", PLAIN)
    assert masked(f"password1 {PLAIN}", shortest=LONG) == "password1 [key]"
    assert (variable_in("password1"), variable_in(f"x{PLAIN}")) == (None, "A_KEY")


def test_records_and_environments_of_others_hold_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", f'{PLAIN}"')
    assert masked_value({"error": [f'it said {PLAIN}"', 1.5]}) == {"error": ["it said [key]", 1.5]}
    environment = {"A_KEY": "x", "PREFECT_API_KEY": "y", "HOME": "/", "LEADLINE_LEDGER": "postgresql://u:p@h/d"}
    assert without_secret_variables(environment) == {"PREFECT_API_KEY": "y", "HOME": "/"}


@pytest.mark.parametrize("name", ["MONKEY", "KEYBOARD", "LEADLINE_TEAM_TOKEN_COUNT", "AUTH_METHOD", "GIT_AUTHOR_NAME"])
def test_variables_with_settings_hide_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "completed-runs")
    assert masked("12 completed-runs") == "12 completed-runs"


def test_authorization_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTHORIZATION", f"Bearer {PLAIN}")
    assert masked(f"x {PLAIN}") == "x [key]"


def test_numbers_and_names_of_fields_stay_whatever_the_secrets_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "12345678")
    monkeypatch.setenv("MY_PASSWORD", "completed")
    monkeypatch.setenv("A_KEY", '","gate":"pass')
    record = {
        "seconds": 0.123456789,
        "tokens": 12345678,
        "status": "completed",
        "id": "12345678-a1",
        "completed": {"a": (1, None, True)},
        "x": "",
        "gate": "fail",
    }
    assert masked_value(record) == record | {"completed": {"a": [1, None, True]}}
    assert masked_value({"error": "refused 12345678", "at": "x://u:12345678@h"}) == {
        "error": "refused [key]",
        "at": "x://u:[key]@h",
    }


def test_errors_are_made_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", PLAIN)
    error = LeadlineError(f"It said {PLAIN}.", hint=f"Not {PLAIN}.")
    assert str(error) == "It said [key]. Not [key]."
    with pytest.raises(ValueError, match=r"^\[key\]$"), without_secrets_in_errors():
        raise ValueError(PLAIN)


def test_an_error_that_makes_its_own_text_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stubborn(Exception):
        def __str__(self) -> str:
            return PLAIN

    monkeypatch.setenv("A_KEY", PLAIN)
    assert not clean_error(Stubborn())
    with pytest.raises(LeadlineError, match=r"Stubborn: \[key\]"), without_secrets_in_errors():
        raise Stubborn


def test_log_records_have_no_secrets_in_message_or_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mask_logs()
    monkeypatch.setenv("A_KEY", PLAIN)
    try:
        raise ValueError(PLAIN)
    except ValueError:
        logging.getLogger("anybody").exception("with %s", PLAIN)
    assert "with [key]" in caplog.text
    assert "ValueError: [key]" in caplog.text
    assert PLAIN not in caplog.text


def test_uncaught_errors_of_threads_are_printed_without_secrets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mask_logs()
    from leadline.evaluators.ground.secret_values import _print_of_thread

    monkeypatch.setenv("A_KEY", PLAIN)
    monkeypatch.setattr(threading, "excepthook", _print_of_thread)

    def fail() -> None:
        raise ValueError(PLAIN)

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert "ValueError: [key]" in capsys.readouterr().err


def test_secrets_that_overlap_leave_no_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRST_API_KEY", "alpha-canary-omega")
    monkeypatch.setenv("OTHER_API_KEY", "canary-omega-and-its-tail")
    monkeypatch.setenv("INNER_API_KEY", "canary-om")
    assert masked("x alpha-canary-omega-and-its-tail y canary-om z alpha-canary-omega") == "x [key] y [key] z [key]"


def test_an_error_is_cleaned_with_its_cause_and_with_what_it_was_raised_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRST_API_KEY", CANARY)
    cause, context = ValueError(f"cause {CANARY}"), ValueError(f"context {CANARY}")
    error = RuntimeError("said")
    error.__cause__, error.__context__, cause.__context__ = cause, context, error
    assert clean_error(error)
    assert (str(cause), str(context)) == ("cause [key]", "context [key]")


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
