"""What decides about a model version, how it is asked, and what makes two evaluations the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from leadline.cli.main import run as leadline
from leadline.evaluators.ground import UsageError
from leadline.flows.check_version import decide, evaluation_of, is_final, reading_of_suite, subject_of, target_of
from leadline.flows.compare import CompareResult
from leadline.flows.evaluate.config import EvaluateResult
from leadline.flows.model_version import ModelVersionConfig, ModelVersionResult
from leadline.flows.shared.settings import FailOn
from leadline.tasks.ground.timeline import RunTime
from leadline.tasks.load.dataset import LoadedDataset

Verdict = Literal["pass", "fail", "inconclusive"]


def run(gate: Verdict) -> EvaluateResult:
    return EvaluateResult(
        run="r2", folder=Path(), report=Path("report.html"), gate=gate, gate_reason="Because.",
        problems={}, problems_by_fault={}, scored=1, unscored=0, not_applicable=0, reused=0, computed=1,
        time=RunTime(1.0, {}),
    )  # fmt: skip


def compared(verdict: Verdict) -> CompareResult:
    return CompareResult(
        comparison="c", baseline="r1", candidate="r2", verdict=verdict, reason="It is so.", metrics={}, folder=Path(),
        report=Path("comparison.html"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("gate", "comparison", "decision"),
    [
        ("pass", "pass", "pass"),
        ("fail", "pass", "fail"),
        ("pass", "fail", "fail"),
        ("inconclusive", "fail", "fail"),
        ("inconclusive", "pass", "inconclusive"),
        ("pass", "inconclusive", "inconclusive"),
    ],
)
def test_the_worse_of_gate_and_comparison_decides(gate: Verdict, comparison: Verdict, decision: Verdict) -> None:
    found, reason = decide(run(gate), compared(comparison), "v1")
    assert found == decision
    said = ["Compared with v1: It is so.", "Gate: Because."]
    assert reason == " ".join(said if decision == comparison else reversed(said)), "what decided is said first"


@pytest.mark.parametrize("gate", ["pass", "fail", "inconclusive"])
def test_a_first_version_is_decided_by_its_gate_and_the_reason_says_so(gate: Verdict) -> None:
    found, reason = decide(run(gate), None, None)
    assert found == gate
    assert reason.startswith("There is no earlier version to compare with, so the gate decides alone.")


def test_a_gate_that_never_fails_leaves_the_decision_to_the_comparison() -> None:
    found, reason = decide(run("fail"), compared("pass"), "v1", fail_on=FailOn.NEVER)
    assert found == "pass"
    assert "says fail" in reason


def config(**changes: Any) -> ModelVersionConfig:
    return ModelVersionConfig.model_validate({"model": "harbour", "version": "v2", "suite": "s.json"} | changes)


TARGETS = """
[[model]]
key = "harbour"
version = "v0"
url = "http://h/{{ version }}/ask"

[[model]]
key = "other"
model = "openai/x-{{ version }}"
"""


def test_the_targets_file_says_how_a_model_is_asked_and_the_event_which_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEADLINE_TARGETS", raising=False)
    with pytest.raises(UsageError, match="No target is configured for the model 'harbour'"):
        target_of(config())
    (tmp_path / "targets.toml").write_text(TARGETS)
    assert (target_of(config()).url, target_of(config()).version) == ("http://h/v2/ask", "v2")
    (tmp_path / "elsewhere.toml").write_text(TARGETS.replace("http://h", "http://g"))
    monkeypatch.setenv("LEADLINE_TARGETS", "elsewhere.toml")
    assert target_of(config()).url == "http://g/v2/ask"
    assert target_of(config(target={"file": "targets.toml"})).url == "http://h/v2/ask"
    with pytest.raises(UsageError, match=r"has no model 'new'. It has: harbour, other"):
        target_of(config(model="new"))


def test_a_target_can_be_named_in_the_event() -> None:
    target = target_of(config(target={"model": "openai/x-{{ version }}", "system": "Be brief."}))
    assert (target.key, target.model, target.system, target.version) == ("harbour", "openai/x-v2", "Be brief.", "v2")
    assert target_of(config(target={"model": "python:app:answer"})).function == "app:answer"


@pytest.mark.parametrize(
    "fields",
    [
        {"version": "v 2"},
        {"version": "../v2"},
        {"version": "{{ 7 }}"},
        {"target": {"file": "t.toml", "model": "x"}},
        {"target": {"api_base": "http://me:pw@h"}},
        {"margin": 2},
        {"nonsense": 1},
    ],
)
def test_a_payload_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        config(**fields)


def test_given_answers_that_name_no_model_are_the_models_and_the_mapping_is_for_them() -> None:
    config = ModelVersionConfig(
        model="app", version="2", suite="s.json", answers="nightly.csv", map={"answer": "reply"}
    )
    evaluated = evaluation_of(config)
    assert (evaluated.model_name, evaluated.map) == ("app", {"answer": "reply"})
    assert reading_of_suite(config)["columns"] == {}
    assert reading_of_suite(config.model_copy(update={"answers": None}))["columns"] == {"answer": "reply"}


def test_how_and_where_makes_no_other_evaluation_and_everything_else_does() -> None:
    suite = LoadedDataset("d", Path(), "leadline", "jsonl", 0, 1, (), "S", "s.json", (), False)

    def identity(**changes: Any) -> str:
        asked = config(**{"target": {"model": "openai/x"}} | changes)
        return subject_of(asked, suite, target_of(asked), None).digest

    base = identity()
    for same in ({"processes": 3}, {"dispatch": "inline"}, {"output": "o"}, {"again": True}, {"max_calls": 5}):
        assert identity(**same) == base
    others = (
        {"version": "v3"},
        {"model": "x"},
        {"evaluators": ["bleu"]},
        {"margin": 0.1},
        {"fail_on": "medium"},
        {"target": {"model": "openai/x", "temperature": 0.5}},
        {"judges": {"model": "openai/judge"}},
        {"judges": {"trials": 2}},
    )
    assert len({base, *(identity(**other) for other in others)}) == len(others) + 1


@pytest.mark.parametrize(
    "changes",
    [
        {"store": "s3://KEY:hunter2secret@bucket/p"},
        {"target": {"model": "http://user:hunter2secret@host/ask"}},
        {"target": {"model": "https://host/ask?api_key=hunter2secret"}},
    ],
)
def test_parameters_that_prefect_keeps_hold_no_secrets(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        config(**changes)
    assert "hunter2secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("decision", "failed", "unscored", "final"),
    [
        ("pass", 1, 1, True),
        ("fail", 1, 1, True),
        ("inconclusive", 0, 0, True),
        ("inconclusive", 1, 0, False),
        ("inconclusive", 0, 1, False),
    ],
)
def test_an_undecided_outcome_that_lacks_answers_or_scores_is_tried_again(
    decision: Verdict, failed: int, unscored: int, final: bool
) -> None:
    result = ModelVersionResult(
        model="m", version="v", standing="evaluated", decision=decision, reason="", failed=failed
    )
    assert is_final(result, unscored) == final


@pytest.mark.parametrize(
    ("standing", "decision", "code"),
    [("evaluated", "pass", 0), ("known", "pass", 0), ("known", "fail", 1), ("in_progress", None, 1)],
)
def test_only_a_version_that_passed_leaves_with_0(
    standing: str, decision: Verdict | None, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = ModelVersionResult(model="m", version="v", standing=standing, decision=decision, reason="It is so.")
    monkeypatch.setattr("leadline.cli.service.check_version.run_job", lambda *_, **__: result)
    assert leadline(["--store", str(tmp_path), "service", "check-version", "m", "v", "s.json", "--target", "x"]) == code
