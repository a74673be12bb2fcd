"""``leadline init``: a file becomes a ``leadline.toml`` that evaluates it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.cli.init import toml
from leadline.cli.main import run
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.prepare import preview
from leadline.tasks.policy.policy import load_policy

ROWS = "prompt,gold,response,topic\n" + "".join(
    f"How deep is berth {n}?,It is {n} metres deep.,Berth {n} is {n} metres deep.,depth\n" for n in range(1, 5)
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    monkeypatch.delenv("LEADLINE_JUDGE", raising=False)
    (tmp_path / "answers.csv").write_text(ROWS)
    return tmp_path


def written(folder: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads((folder / "leadline.toml").read_text())


def test_it_says_what_it_saw_and_writes_settings_that_evaluate_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", "answers.csv"]) == 0
    said = capsys.readouterr().out
    assert "4 rows, 4 cases, 1 model (answers)" in said
    assert "prompt → question, gold → expected_answer, response → actual_answer" in said
    assert "Metadata  topic" in said
    assert "evaluators for free: " in said
    assert "--judge openai/gpt-4o-mini would bring" in said
    assert said.splitlines()[-1] == "Next      leadline evaluate answers.csv"
    document = written(folder)
    assert document["evaluate"]["fail_on"] == "high"
    assert load_policy().name == "leadline"
    config = EvaluateConfig.model_validate({"dataset": "answers.csv", **document["evaluate"]})
    assert f"{len(preview(config).entries)} evaluators for free" in said


def test_lines_in_comments_are_valid_settings_too(folder: Path) -> None:
    assert run(["init", "answers.csv", "--judge", "openai/gpt-4o-mini"]) == 0
    text = (folder / "leadline.toml").read_text()
    setting = [line.removeprefix("# ") for line in text.splitlines() if line.startswith(("# [", "# role", "# thres"))]
    assert len([line for line in setting if line.startswith("[policy.rules")]) >= 2
    (folder / "leadline.toml").write_text(text + "\n".join(setting))
    assert load_policy().rules
    assert run(["evaluate", "--plan", "answers.csv"]) == 0


def test_a_file_that_is_here_is_kept_unless_that_is_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "leadline.toml").write_text('[dataset.map]\nmetadata = "gold"\n')
    assert run(["init", "answers.csv"]) == 2
    assert "leadline.toml is here already" in capsys.readouterr().err
    assert run(["init", "answers.csv", "--force"]) == 0
    assert written(folder)["dataset"] == {"map": {"metadata": "gold"}}


def test_the_users_columns_are_written_down(folder: Path) -> None:
    (folder / "odd.csv").write_text(ROWS.replace("response", "what_it_said").replace("gold", "label"))
    assert run(["init", "odd.csv", "--map", "actual_answer=what_it_said"]) == 0
    assert written(folder)["dataset"]["map"] == {"actual_answer": "what_it_said", "expected_answer": "label"}


@pytest.mark.parametrize(
    ("row", "suite"),
    [
        ({"question": "How?", "actual_answer": "So it is.", "retrieved_context": ["So it is."]}, "rag"),
        ({"question": "word " * 200, "actual_answer": "word " * 20}, "summarization"),
        ({"question": "How?", "actual_answer": "So it is."}, None),
    ],
)
def test_the_suite_is_what_the_data_are_plainly_for(folder: Path, row: dict[str, object], suite: str | None) -> None:
    (folder / "data.jsonl").write_text(json.dumps(row))
    assert run(["init", "data.jsonl"]) == 0
    assert written(folder)["evaluate"].get("suite") == suite


def test_a_judge_without_a_price_gets_the_two_lines_that_state_it(folder: Path) -> None:
    assert run(["init", "answers.csv", "--judge", "openai/ours", "--judge-api-base", "http://127.0.0.1:9/v1"]) == 0
    assert written(folder)["evaluate"]["judges"] == {"model": "openai/ours", "api_base": "http://127.0.0.1:9/v1"}
    text = (folder / "leadline.toml").read_text()
    priced = text.replace("# [judges.mine]", "[judges.mine]").replace(
        '# model = "openai/ours"', 'model = "openai/ours"'
    )
    for line in ("input_cost", "output_cost"):
        priced = priced.replace(f"# {line}", line)
    (folder / "leadline.toml").write_text(priced)
    assert run(["evaluate", "--plan", "answers.csv", "--max-cost", "2"]) == 0


def test_without_a_file_it_explains_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init"]) == 0
    assert "leadline init FILE looks at a file" in capsys.readouterr().out
    assert not (folder / "leadline.toml").exists()


def test_a_file_that_cannot_be_read_is_refused_and_nothing_is_written(folder: Path) -> None:
    assert run(["init", "nowhere.csv"]) == 2
    assert not (folder / "leadline.toml").exists()


@given(st.text())
def test_any_text_is_one_line_of_toml(text: str) -> None:
    line = toml(text)
    assert "\n" not in line
    assert "\r" not in line
    assert tomllib.loads(f"a = {line}\n# {line}\nb = 1") == {"a": text.encode(errors="replace").decode(), "b": 1}
