"""Which judges a run has: files, options, environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.evaluators.ground import UsageError
from leadline.evaluators.judge_client.choice import find_judges
from leadline.evaluators.settings import JudgeConfig

FILE = """
[judges.small]
model = "openai/gpt-4o-mini"
default = true

[judges.here]
model = "ollama_chat/llama3.1"
api_base = "http://localhost:11434/"
max_in_flight = 4
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "leadline.toml"
    path.write_text(FILE)
    return path


def test_the_files_default_comes_first(file: Path) -> None:
    assert [judge.key for judge in find_judges(None, None, file, {})] == ["small", "here"]


def test_another_judge_of_the_file_can_be_named(file: Path) -> None:
    first, second = find_judges("here", None, file, {})
    assert (first.key, first.model, first.api_base) == ("here", "ollama_chat/llama3.1", "http://localhost:11434")
    assert second.key == "small"


def test_a_model_named_on_the_command_line_goes_before_the_environment_and_the_file(file: Path) -> None:
    judges = find_judges("openai/x", "http://h:1/v1", file, {"LEADLINE_JUDGE": "openai/y"})
    assert (judges[0].key, judges[0].model) == ("default", "openai/x")
    assert {judge.key for judge in judges} == {"default", "small", "here"}
    assert judges[0].api_base == "http://h:1/v1"


def test_the_environment_goes_before_the_file(file: Path) -> None:
    environment = {"LEADLINE_JUDGE": "openai/y", "LEADLINE_JUDGE_API_BASE": "http://h:2"}
    judge = find_judges(None, None, file, environment)[0]
    assert (judge.model, judge.api_base) == ("openai/y", "http://h:2")


def test_the_environments_address_is_not_for_a_judge_of_the_file(file: Path) -> None:
    assert find_judges("small", None, file, {"LEADLINE_JUDGE_API_BASE": "http://h:2"})[0].api_base is None


def test_an_address_on_the_command_line_is_for_the_judge_named_there(file: Path) -> None:
    judge = find_judges("here", "http://h:3", file, {})[0]
    assert (judge.api_base, judge.max_in_flight) == ("http://h:3", 4)


def test_a_model_that_runs_here_can_be_named(file: Path) -> None:
    judge = find_judges("local:some/model", None, file, {"LEADLINE_JUDGE_API_BASE": "http://h:2"})[0]
    assert (judge.kind, judge.model, judge.api_base) == ("local", "some/model", None)


def test_there_may_be_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_judges(None, None, None, {}) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[judges.a\n", "cannot be read"),
        ("judges = 3", "judges are tables"),
        ("[judges.a]\ntemperature = 1", "model"),
        ('[judges.a]\nmodel = "m"\napi_key = "sk-123456789"', "does not belong into a file"),
        ('[judges.a]\nmodel = "m"\nfoo = 1', "foo"),
        ('[judges.a]\nmodel = "m"\napi_base = "http://u:p@h"', "user, password"),
        ('[judges.a]\nmodel = "m"\napi_base = "http://h?key=1"', "user, password"),
        ('[judges.a]\nmodel = "m"\napi_base = "localhost"', "address"),
        ('[judges.a]\nmodel = "m"\n[judges.b]\nmodel = "n"', "no default"),
        ('[judges.a]\nmodel = "m"\ndefault = true\n[judges.b]\nmodel = "n"\ndefault = true', "both"),
    ],
)
def test_a_broken_file_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "leadline.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said) as raised:
        find_judges(None, None, path, {})
    assert "leadline.toml" in str(raised.value)
    assert "sk-123456789" not in str(raised.value)
    assert "u:p" not in str(raised.value)


def test_a_file_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file"):
        find_judges(None, None, tmp_path / "nowhere.toml", {})


def test_an_address_without_a_model_makes_no_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="without a model"):
        find_judges(None, "http://h", None, {})


def test_a_named_model_has_the_price_that_the_file_states_for_it(file: Path) -> None:
    prices = "input_cost_per_token = 1.5e-7\noutput_cost_per_token = 6e-7\n"
    file.write_text(f'{FILE}\n[judges.default]\nmodel = "openai/x"\n{prices}')
    judge = find_judges("openai/x", "http://h:1/v1", file, {})[0]
    assert (judge.key, judge.input_cost_per_token, judge.output_cost_per_token) == ("default", 1.5e-7, 6e-7)
    assert judge.api_base == "http://h:1/v1"
    assert find_judges("openai/y", None, file, {})[0].input_cost_per_token is None


def test_the_epoch_is_no_setting_and_the_first_one_leaves_all_keys_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "leadline.toml"
    file.write_text('[judges.small]\nmodel = "m"\nepoch = 2\n')
    with pytest.raises(UsageError, match=r"epoch of a judge is no setting.*judges accept"):
        find_judges(None, None, file, {})
    judge = JudgeConfig(model="m")
    assert "epoch" not in judge.identity()
    assert judge.model_copy(update={"epoch": 2}).identity() == judge.identity() | {"epoch": 2}
