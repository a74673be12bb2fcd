"""``leadline evaluate`` and ``plan`` around a flow that is not Prefect's: outcomes, exit codes, what is printed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leadline.cli.main import run
from leadline.evaluators.ground import DatasetError, Fault, StoreError
from leadline.flows.evaluate.config import EvaluateConfig, EvaluateResult
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.evaluate.prepare import PlanEntry, PlanPreview
from leadline.flows.prefect.server import ServerUse
from leadline.flows.shared.settings import Gate
from leadline.tasks.ground.timeline import RunTime
from leadline.tasks.load.dataset import LoadedDataset
from leadline.tasks.store.store import Store


def result_of(tmp_path: Path, gate: Gate = "pass", **changes: Any) -> EvaluateResult:
    values: dict[str, Any] = {
        "run": "20260101-100000-aaaaaa",
        "folder": tmp_path,
        "report": tmp_path / "my results" / "report.html",
        "gate": gate,
        "gate_reason": "2 problems of high severity.",
        "problems": {"high": 2, "medium": 0, "low": 1},
        "problems_by_fault": {"model": {"high": 2, "medium": 0, "low": 1}, "instrument": {}},
        "scored": 1234,
        "unscored": 5,
        "not_applicable": 6,
        "reused": 700,
        "computed": 300,
        "time": RunTime(12.34, {"start": 1.0, "score": 11.34}, {"cpu": 2.0, "judge": 11.3}),
    }
    return EvaluateResult(**values | changes)


LOADED = LoadedDataset(
    digest="d",
    path=Path("nowhere"),
    format="leadline",
    container="json",
    rows=2,
    cases=1,
    models=("alpha", "beta"),
    name="d",
    source="d.json",
    warnings=(),
    reused=False,
)


class World:
    """What surrounds the command: a flow, a server, a dataset."""

    def __init__(self, tmp_path: Path) -> None:
        self.result = result_of(tmp_path)
        Store(tmp_path / "store").run(self.result.run).path.mkdir(parents=True)
        self.configs: list[EvaluateConfig] = []
        self.choices: list[ServerUse] = []
        self.without_prefect = 0
        self.flow: Callable[[EvaluateConfig], EvaluateResult] = lambda config: self.result
        self.load: Callable[..., Any] = lambda *_, **__: LOADED

    def evaluate(self, config: EvaluateConfig) -> EvaluateResult:
        self.configs.append(config)
        return self.flow(config)

    @contextmanager
    def ensure_api(self, say: Callable[[str], None], use: ServerUse) -> Iterator[str | None]:
        self.choices.append(use)
        say("a server is up")
        yield None if use is ServerUse.NONE else "api"

    def directly(self, _: Evaluate, config: EvaluateConfig, *__: Any) -> EvaluateResult:
        self.without_prefect += 1
        return self.evaluate(config)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    world = World(tmp_path)
    monkeypatch.setattr(
        "leadline.flows.command.running.recorded", lambda api, job, config, checked: world.evaluate(config)
    )
    monkeypatch.setattr("leadline.flows.command.running.ensure_api", world.ensure_api)
    monkeypatch.setattr(Evaluate, "run", lambda *args: world.directly(*args))
    monkeypatch.delenv("LEADLINE_SERVER", raising=False)
    prepare = "leadline.flows.evaluate.prepare"
    monkeypatch.setattr(f"{prepare}.load_dataset", lambda *args, **options: world.load(*args, **options))
    monkeypatch.setattr(f"{prepare}.applicable_to", lambda choice, dataset: choice)
    monkeypatch.setenv("LEADLINE_STORE", str(tmp_path / "store"))
    return world


def test_the_outcome_is_printed_and_nothing_else(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "d.json"]) == 0
    streams = capsys.readouterr()
    assert "pass: 2 problems of high severity." in streams.out
    assert "1,234 scored, 5 unscored, 6 not applicable" in streams.out
    assert "700 row scores reused, 300 computed" in streams.out
    time = re.search(r"^Time +\d+\.\d s: start \d+\.\d, load 0\.\d$", streams.out, flags=re.M)
    assert time, "that of the command, not of the flow"
    assert "2 high, 1 low" in streams.out
    assert str(world.result.report) in streams.out
    assert "file:///" in streams.out
    assert "/my%20results/report.html" in streams.out
    assert "a server is up" in streams.err
    assert "a server is up" not in streams.out
    assert "for want of a judge (--judge MODEL)" in streams.err
    assert "leadline evaluate --plan says why" in streams.err


def test_the_outcome_says_what_the_gate_counted_and_whose_the_problems_are(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.result = result_of(
        tmp_path,
        gate_counted="counted: model problems of high severity",
        problems={"high": 1, "medium": 2, "low": 0},
        problems_by_fault={
            "model": {"high": 0, "medium": 2, "low": 0},
            "instrument": {"high": 1, "medium": 0, "low": 0},
        },
        worst=["alpha: 1 of 9 answers leaks \x1b[31m", "beta: slow"],
        recommendation="Choose beta.",
    )
    assert run(["evaluate", "d.json"]) == 0
    out = capsys.readouterr().out
    assert "Worst      alpha: 1 of 9 answers leaks \\x1b[31m\n           beta: slow\nChoose     Choose beta.\n" in out
    assert "Gate       pass (counted: model problems of high severity): " in out
    assert "Problems   of models: 2 medium; of the instrument or the data: 1 high (these never fail the gate)\n" in out


def test_quiet_leaves_standard_error_empty(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", "evaluate", "d.json"]) == 0
    assert capsys.readouterr().err == ""


def test_json_is_the_flows_result(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "d.json", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["gate"] == "pass"
    assert printed["report"] == str(world.result.report)


@pytest.mark.parametrize(
    ("gate", "fail_on", "code", "said"),
    [
        ("pass", "high", 0, None),
        ("fail", "high", 1, "The gate failed: 2 problems"),
        ("fail", "medium", 1, "The gate failed: 2 problems"),
        ("inconclusive", "high", 1, "The gate could not be decided"),
        ("fail", "never", 0, None),
        ("inconclusive", "never", 0, None),
    ],
)
def test_the_gate_decides_the_exit_code_when_it_is_asked_for(
    world: World,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    gate: Gate,
    fail_on: str,
    code: int,
    said: str | None,
) -> None:
    world.result = result_of(tmp_path, gate)
    assert run(["-q", "evaluate", "d.json", "--fail-on", fail_on]) == code
    error = capsys.readouterr().err
    assert said in error if said else error == ""


def test_a_refused_dataset_is_said_before_a_server_is_looked_for(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise DatasetError([Fault("d.json", 3, "question", "is a number, not a text")])

    world.load = refuse
    assert run(["evaluate", "d.json"]) == 2
    assert "d.json, row 3, question: is a number" in capsys.readouterr().err
    assert world.choices == []
    assert world.configs == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-e", "nonsense"], "nonsense"),
        (["--suite", "nonsense"], "nonsense"),
        (["-e", "bleu", "--param", "bleu.nonsense=1"], "bleu.nonsense"),
        (["-e", "bleu", "--param", "rouge.min_test_cases=1"], "rouge"),
        (["--model", "gamma"], "alpha, beta"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_a_server_is_looked_for(
    world: World, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(["evaluate", "d.json", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert world.choices == []


@pytest.mark.parametrize(
    ("option", "environment", "file", "chosen"),
    [
        ([], {}, "", ServerUse.AUTO),
        ([], {}, "[server]\nuse = 'none'", ServerUse.NONE),
        ([], {"LEADLINE_SERVER": "auto"}, "[server]\nuse = 'none'", ServerUse.AUTO),
        (["--server", "none"], {"LEADLINE_SERVER": "auto"}, "", ServerUse.NONE),
    ],
)
def test_the_option_the_environment_or_the_file_says_whether_a_server_is_used(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    option: list[str],
    environment: dict[str, str],
    file: str,
    chosen: ServerUse,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leadline.toml").write_text(file)
    assert run(["evaluate", "d.json", *option]) == 0
    assert world.choices == [chosen]
    assert world.without_prefect == (chosen is ServerUse.NONE)


@pytest.mark.parametrize(
    ("file", "environment"),
    [("[server]\nuse = 'kept'", {}), ("", {"LEADLINE_SERVER": "kept"}), ("server = 1", {}), ("[server", {})],
)
def test_a_choice_of_servers_that_makes_no_sense_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leadline.toml").write_text(file)
    assert run(["evaluate", "d.json"]) == 2
    assert world.configs == []


def test_an_interrupt_says_that_finished_chunks_are_kept(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(_: EvaluateConfig) -> EvaluateResult:
        raise KeyboardInterrupt

    world.flow = interrupt
    assert run(["-q", "evaluate", "d.json"]) == 130
    error = capsys.readouterr().err
    assert "Finished chunks are kept" in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("failure", [StoreError("The disk is full."), RuntimeError("odd")])
def test_a_run_that_fails_has_a_code_of_its_own(
    world: World, capsys: pytest.CaptureFixture[str], failure: Exception
) -> None:
    def fail(_: EvaluateConfig) -> EvaluateResult:
        raise failure

    world.flow = fail
    assert run(["-q", "evaluate", "d.json"]) == 3
    streams = capsys.readouterr()
    assert streams.out == ""
    assert str(failure) in streams.err
    assert "Traceback" not in streams.err


def test_a_text_from_the_dataset_cannot_drive_the_terminal(
    world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    world.result = result_of(tmp_path, gate_reason="model \x1b]0;x\x07 \u202e[red]bad[/red]\nGate pass")
    run(["evaluate", "d.json"])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "[red]bad[/red]" in out
    assert sum(line.startswith("Gate") for line in out.splitlines()) == 1


def preview_of(**changes: Any) -> PlanPreview:
    entry = {
        "evaluator": "bleu", "lane": "cpu", "applicable": 9, "not_applicable": 2, "host_errors": 1, "reused": 4,
        "to_compute": 5, "models": (), "missing": "",
    }  # fmt: skip
    return PlanPreview(
        dataset="d.json",
        format="ragas",
        rows=12,
        cases=6,
        models=("alpha", "beta"),
        columns={"question": "question", "gold": "expected_answer"},
        metadata_columns=("page",),
        warnings=("column 'lable\x1b' was not used",),
        splitter="punkt",
        embedder="offline, since BAAI/bge-small-en is not on this machine",
        left_out={
            "toxicity": "some/weights are not on this machine",
            "context_recall": "no row has a retrieved context",
            "faithfulness": "no row has a retrieved context",
        },
        entries=(PlanEntry(**entry | changes),),
    )


@pytest.fixture
def planning(monkeypatch: pytest.MonkeyPatch, world: World) -> Callable[..., None]:
    def pretend(**changes: Any) -> None:
        monkeypatch.setattr("leadline.flows.evaluate.prepare.preview", lambda config: preview_of(**changes))

    return pretend


def test_a_plan_of_conversations_counts_their_turns_and_calls(
    monkeypatch: pytest.MonkeyPatch, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = replace(preview_of(), turns=42, tool_calls=1)
    monkeypatch.setattr("leadline.flows.evaluate.prepare.preview", lambda config: planned)
    assert run(["evaluate", "--plan", "d.json"]) == 0
    assert "Conversations: 42 turns, 1 call of tools" in capsys.readouterr().out


@pytest.mark.parametrize("option", [("--profile", "p.json"), ("--server", "none")])
def test_a_plan_refuses_options_that_it_would_ignore(
    option: tuple[str, str], planning: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    planning()
    assert run(["evaluate", "--plan", "d.json", *option]) == 2
    assert "takes neither --profile nor --server" in capsys.readouterr().err


def test_a_plan_shows_what_is_reused_and_what_is_to_compute(
    planning: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    planning()
    assert run(["evaluate", "--plan", "d.json"]) == 0
    out, err = capsys.readouterr()
    assert "d.json (ragas): 12 rows, 6 cases, models alpha, beta" in out
    assert "\nColumns: question, gold → expected_answer; metadata: page\n" in out
    assert "Warning: column 'lable\\x1b' was not used.\n" in err
    line = next(line for line in out.splitlines() if line.startswith("bleu"))
    assert line.split() == ["bleu", "cpu", "4", "5", "2", "1"]
    assert "4 row scores are reused, 5 are to compute." in out
    assert "judge calls" not in out


def test_a_plan_names_judge_calls_and_cost_where_there_are_some(
    planning: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    planning(judge_calls=1500, cost_usd=1.5)
    assert run(["evaluate", "--plan", "d.json"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("bleu"))
    assert line.split()[-2:] == ["1,500", "1.50"]


def test_a_plan_says_what_cannot_run_and_how_to_mend_it(
    planning: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    planning(missing="a/b is not on this machine: leadline evaluators models pull a/b")
    assert run(["evaluate", "--plan", "d.json"]) == 0
    streams = capsys.readouterr()
    assert "leadline evaluators models pull a/b" in streams.out
    assert "unscored: bleu" in streams.err


def test_a_plan_as_json_has_every_count(planning: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    planning()
    assert run(["evaluate", "--plan", "d.json", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["entries"][0]["to_compute"] == 5
    assert printed["models"] == ["alpha", "beta"]


def test_columns_that_were_not_understood_are_named_before_scoring(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.load = lambda *_, **__: replace(LOADED, column_warnings=("column 'expectd' was not used",))
    said: list[str] = []
    world.flow = lambda config: said.append(capsys.readouterr().err) or world.result  # type: ignore[func-returns-value]
    run(["evaluate", "d.json", "-e", "rouge"])
    assert "Warning: column 'expectd' was not used.\n" in said[0]


def test_the_mapping_of_columns_and_the_models_name_reach_the_flow(world: World) -> None:
    run(["evaluate", "d.json", "--map", "expected=gold", "--map", "metadata=a", "--map", "metadata=b",
         "--model-name", "rag"])  # fmt: skip
    (config,) = world.configs
    assert config.map == {"expected": "gold", "metadata": ["a", "b"]}
    assert config.model_name == "rag"


def test_a_mapping_without_a_column_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "d.json", "--map", "gold"]) == 2
    assert "--map: 'gold' is not FIELD=COLUMN" in capsys.readouterr().err


def test_a_plan_says_why_each_evaluator_is_left_out_and_which_embedder_is_used(
    planning: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    planning()
    assert run(["evaluate", "--plan", "d.json"]) == 0
    out = capsys.readouterr().out
    assert "Embedder: offline, since BAAI/bge-small-en is not on this machine" in out
    assert "Left out, 3 evaluators (-e ID runs one all the same):" in out
    assert "  no row has a retrieved context\n    context_recall, faithfulness\n" in out
