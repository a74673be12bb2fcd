"""Runs that stop judging when their gate is decided, with a scripted judge over HTTP."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from leadline.evaluators.ground import UsageError
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.shared.settings import FailOn, Judges
from leadline.tasks.store.store import Store
from tests.support.judges.berths import passing, write_berths, write_talks
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, serving
from tests.support.stores.results import read_run
from tests.support.stores.s3 import S3, environment

ROWS = 500
FEWER = 160


def run(folder: Path, endpoint: JudgeEndpoint, dataset: Path, **more: Any) -> EvaluateResult:
    asked: dict[str, Any] = {
        "evaluators": ("databricks.correctness",), "fail_on": FailOn.HIGH, "stop_when": "decided", **more
    }  # fmt: skip
    judges = Judges(model="openai/judge", api_base=endpoint.url)
    config = EvaluateConfig(**{"dataset": str(dataset), "judges": judges, "store": str(folder / "store"), **asked})
    return Evaluate()(config)


def table(folder: Path, result: EvaluateResult, statement: str) -> list[dict[str, Any]]:
    return read_run(Store.open(folder / "store"), statement, result.run)


@pytest.fixture(scope="module", autouse=True)
def _key() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-test")
        yield


@dataclass(frozen=True)
class Baseline:
    """A run of answers of which 60 % are right, and a judge that finds other shares in other models' answers."""

    folder: Path
    endpoint: JudgeEndpoint
    run: str

    def compare(self, word: str, **more: Any) -> EvaluateResult:
        """Evaluate the answers of the model that begins them with a word."""
        new = self.folder / f"{word}.jsonl"
        old = (self.folder / "old.jsonl").read_text(encoding="utf-8")
        new.write_text(old.replace("m: It is", f"{word}: it is"), encoding="utf-8")
        return run(self.folder, self.endpoint, new, **{"against": self.run, "fail_on": FailOn.NEVER, **more})


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Baseline]:
    folder, shares = tmp_path_factory.mktemp("compared"), {"Better": 0.97, "Worse": 0.2, "Alike": 0.62}

    def reply(question: Question) -> str:
        return passing(next((shares[word] for word in shares if f"{word}: it is" in question.text), 0.6))(question)

    with serving(JudgeEndpoint(reply)) as endpoint:
        old = write_berths(folder / "old.jsonl", FEWER)
        yield Baseline(folder, endpoint, run(folder, endpoint, old, stop_when="never", fail_on=FailOn.NEVER).run)


def test_clearly_good_answers_are_passed_after_a_few(tmp_path: Path) -> None:
    dataset = write_berths(tmp_path / "rows.jsonl", ROWS)
    with serving(JudgeEndpoint(passing(0.97))) as endpoint:
        result = run(tmp_path, endpoint, dataset)
        asked = len(endpoint.log)
    assert result.gate == "pass", result.gate_reason
    assert asked < ROWS / 4
    assert result.scored == asked
    assert result.unscored == 0
    assert result.computed == asked
    assert result.stopping.startswith(f"Decided PASS after {asked} of {ROWS} cases")
    (line,) = table(tmp_path, result, "SELECT * FROM aggregates JOIN metrics USING (metric_id) WHERE is_primary")
    assert line["ci_method"] == "always valid"
    assert line["ci_low"] < line["value"] < line["ci_high"]
    assert line["n_unscored"] == 0
    assert line["n_not_applicable"] == ROWS - asked
    reasons = table(tmp_path, result, "SELECT DISTINCT status::VARCHAR AS s, reason FROM scores WHERE value IS NULL")
    assert reasons == [{"s": "not_applicable", "reason": "not_needed"}]
    looks = table(tmp_path, result, "SELECT wave, clusters, decision FROM stopping ORDER BY wave")
    assert [look["decision"] for look in looks] == ["open"] * (len(looks) - 1) + ["pass"]
    assert looks[-1]["clusters"] == asked


def test_conversations_are_judged_in_waves_with_all_their_turns(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('base = "default"\n[rules."databricks.relevance_to_query"]\nrole = "should"\n', encoding="utf-8")
    with serving(JudgeEndpoint(passing(0.99))) as endpoint:
        dataset = write_talks(tmp_path / "talks.jsonl", FEWER)
        asked = {"evaluators": ("databricks.relevance_to_query",), "policy": str(policy)}
        result = run(tmp_path, endpoint, dataset, **asked)
        calls = len(endpoint.log)
    assert result.stopping.startswith(f"Decided PASS after {calls // 2} of {FEWER} cases")
    assert (result.scored, result.unscored, result.computed) == (calls // 2, 0, calls)
    lines = table(tmp_path, result, "SELECT reason, count(*) AS n FROM scores WHERE value IS NULL GROUP BY reason")
    assert lines == [{"reason": "not_needed", "n": FEWER - calls // 2}]


def test_clearly_bad_answers_fail_after_a_few_and_the_failure_is_named(tmp_path: Path) -> None:
    dataset = write_berths(tmp_path / "rows.jsonl", ROWS)
    with serving(JudgeEndpoint(passing(0.4))) as endpoint:
        result = run(tmp_path, endpoint, dataset)
        asked = len(endpoint.log)
    assert result.gate == "fail"
    assert asked < ROWS / 4
    assert result.stopping.startswith("Decided FAIL by Correctness after"), result.stopping
    assert "30 of 50 answers look wrong" in result.worst[0]


def test_at_the_edge_all_is_judged_and_the_outcome_says_what_kept_it_going(tmp_path: Path) -> None:
    dataset = write_berths(tmp_path / "rows.jsonl", 100)
    with serving(JudgeEndpoint(passing(0.75))) as endpoint:
        result = run(tmp_path, endpoint, dataset)
        whole = run(tmp_path, endpoint, dataset, stop_when="never")
        asked = len(endpoint.log)
    assert asked == result.scored == 100
    assert result.stopping == "Judged all 100 cases: Correctness could not be decided before."
    assert whole.stopping == ""
    assert (result.gate, result.gate_reason) == (whole.gate, whole.gate_reason)
    assert {line["ci_method"] for line in table(tmp_path, result, "SELECT ci_method FROM aggregates")} == {
        line["ci_method"] for line in table(tmp_path, whole, "SELECT ci_method FROM aggregates")
    }


def test_the_same_command_again_decides_the_same_and_asks_nothing(tmp_path: Path) -> None:
    dataset = write_berths(tmp_path / "rows.jsonl", FEWER)
    with serving(JudgeEndpoint(passing(0.9))) as endpoint:
        first = run(tmp_path, endpoint, dataset)
        asked = len(endpoint.log)
        again = run(tmp_path, endpoint, dataset)
        assert len(endpoint.log) == asked
        whole = run(tmp_path, endpoint, dataset, stop_when="never")
        assert len(endpoint.log) == FEWER, "only the rest was judged"
        after = run(tmp_path, endpoint, dataset)
        assert len(endpoint.log) == FEWER
    looks = [table(tmp_path, result, "FROM stopping ORDER BY wave") for result in (first, again, after)]
    assert looks[0] == looks[1] == looks[2], "scores of later waves are not looked at, known or not"
    assert first.stopping == again.stopping == after.stopping
    assert after.scored == first.scored
    assert whole.scored == FEWER
    assert whole.gate == first.gate


def test_the_order_of_the_dataset_has_no_part_in_the_decision(tmp_path: Path) -> None:
    """The first fifth of the file is good, the rest is bad."""
    dataset = write_berths(tmp_path / "rows.jsonl", ROWS)

    def reply(question: Question) -> str:
        number = int(question.text.split("berth ")[1].split("?")[0])
        return json.dumps({"rationale": "So.", "rating": "yes" if number < ROWS / 5 else "no"})

    with serving(JudgeEndpoint(reply)) as endpoint:
        result = run(tmp_path, endpoint, dataset)
    assert result.gate == "fail"
    assert result.scored < ROWS


def test_of_two_models_the_bad_one_is_named(tmp_path: Path) -> None:
    dataset = write_berths(tmp_path / "rows.jsonl", ROWS, ("good", "bad"))

    def reply(question: Question) -> str:
        return json.dumps({"rationale": "So.", "rating": "no" if "bad: It is" in question.text else "yes"})

    with serving(JudgeEndpoint(reply)) as endpoint:
        result = run(tmp_path, endpoint, dataset)
    assert result.gate == "fail"
    assert " of bad after 50 of 500 cases" in result.stopping, result.stopping
    assert result.scored == 2 * 50, "both models' rows of a case are judged together"


def test_rows_that_the_judge_cannot_score_count_as_worst_for_a_pass(tmp_path: Path) -> None:
    dataset = write_berths(tmp_path / "rows.jsonl", 100)

    def reply(question: Question) -> str:
        lost = hashlib.sha256(question.text.split("\nYour last reply")[0].encode()).digest()[4] % 4 == 0
        return "Perhaps." if lost else passing(1.0)(question)

    with serving(JudgeEndpoint(reply)) as endpoint:
        result = run(tmp_path, endpoint, dataset)
    assert result.gate == "inconclusive", "coverage"
    assert result.unscored > 10
    assert result.scored + result.unscored == 100, "a pass is not decided while too little is covered"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"fail_on": FailOn.NEVER}, "has nothing to decide"),
        ({"evaluators": ("bleu",)}, "no evaluator of this run asks a judge"),
        ({"gate_on": "corrected"}, "by values that people's labels correct"),
        ({"policy": "information.toml"}, "no metric of a judge can fail the gate"),
    ],
)
def test_what_cannot_be_stopped_is_refused_before_anything_is_paid(
    tmp_path: Path, more: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = write_berths(tmp_path / "rows.jsonl", 60)
    monkeypatch.chdir(tmp_path)
    Path("information.toml").write_text('name = "i"\nbase = "default"\n[rules.judge]\nrole = "information"\n')
    with serving(JudgeEndpoint(passing(1))) as endpoint:
        with pytest.raises(UsageError, match=words):
            run(tmp_path, endpoint, dataset, **more)
        assert not endpoint.log


@pytest.mark.parametrize(("word", "decision"), [("Better", "pass"), ("Worse", "fail")])
def test_a_comparison_is_decided_early_where_the_new_answers_are_clearly_better_or_worse(
    baseline: Baseline, word: str, decision: str
) -> None:
    before = len(baseline.endpoint.log)
    result = baseline.compare(word)
    asked = len(baseline.endpoint.log) - before
    assert asked == result.scored < FEWER * 0.7
    assert f" against run {baseline.run}" in result.stopping
    assert f"after {asked} of {FEWER} cases" in result.stopping
    (change,) = table(baseline.folder, result, "FROM metric_changes")
    assert change["verdict"] == decision
    assert change["n_pairs"] == asked, "only rows that both runs have"
    assert change["ci_low"] < change["effect"] < change["ci_high"]
    (model,) = table(baseline.folder, result, "FROM model_changes")
    assert model["verdict"] == decision


def test_a_comparison_that_was_not_decided_early_has_the_other_half_of_the_level(baseline: Baseline) -> None:
    looked, plain = baseline.compare("Alike"), baseline.compare("Alike", stop_when="never")
    widths = [
        line["ci_high"] - line["ci_low"]
        for result in (looked, plain)
        for line in table(baseline.folder, result, "FROM metric_changes")
    ]
    assert looked.scored == FEWER
    assert looked.stopping.startswith(f"Judged all {FEWER} cases")
    assert widths[0] > 1.1 * widths[1]


@pytest.mark.parametrize(("share", "gate", "early"), [(1.0, "pass", False), (0.3, "fail", True)])
def test_copies_are_judged_with_their_original_and_means_decide_only_a_failure(
    tmp_path: Path, share: float, gate: str, early: bool
) -> None:
    dataset = tmp_path / "rows.jsonl"
    lines = [
        {"case": f"c{n}{copy}", "model": "m", "question": f"How deep is berth {n}{copy}?", "expected_answer": f"{n} m",
         "actual_answer": f"It is {n} m{copy}.",
         "relationships": [{"type": "perturbation_source", "target": f"c{n}"}] if copy else []}
        for n in range(75)
        for copy in ("", "x")
    ]  # fmt: skip
    dataset.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with serving(JudgeEndpoint(passing(share))) as endpoint:
        result = run(tmp_path, endpoint, dataset)
    assert result.gate == gate, result.gate_reason
    if early:
        assert result.scored < 150
        judged = table(
            tmp_path,
            result,
            "SELECT replace(case_key, 'x', '') AS original, count(*) AS n FROM scores JOIN rows USING (row_id) "
            "JOIN cases USING (case_id) WHERE status = 'scored' GROUP BY original",
        )
        assert {line["n"] for line in judged} == {2}
    else:
        assert result.scored == 150
        assert "flips of perturbed copies can fail the gate too" in result.stopping


def test_with_a_store_in_a_bucket_the_waves_are_looked_at_and_found_again_from_another_host(
    tmp_path: Path, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = write_berths(tmp_path / "rows.jsonl", 150)
    found = []
    with serving(JudgeEndpoint(passing(0.88))) as endpoint:
        for host in ("here", "there"):
            for name, value in environment(s3.endpoint, tmp_path / host).items():
                monkeypatch.setenv(name, value)
            told = run(tmp_path, endpoint, dataset, store=s3.url).stopping
            found.append((told.partition(" Saved")[0], len(endpoint.log)))
    assert found[0] == found[1], "the other host decides the same and asks nothing"
    told, asked = found[0]
    assert told.startswith("Decided PASS")
    assert asked < 150


def test_what_fails_without_a_judge_is_decided_after_the_first_wave(tmp_path: Path) -> None:
    dataset = write_berths(tmp_path / "rows.jsonl", 100)
    with serving(JudgeEndpoint(passing(0.78))) as endpoint:
        result = run(tmp_path, endpoint, dataset, evaluators=("databricks.correctness", "json_valid"))
        assert len(endpoint.log) == 50
    assert result.gate == "fail"
    assert result.stopping.startswith("Decided FAIL by JSON"), result.stopping
    assert "whatever judges say of the rest does not change this" in result.stopping
