"""Work that is started on the pages: the form, what may not be asked for, a real command, and its stop."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.deployments.runner import EntrypointType
from prefect.states import Completed
from starlette.testclient import TestClient

from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.sample_labels import SampleLabelsConfig
from leadline.flows.served import collect, compare, improve_judge, sample_labels
from leadline.plugins.ui.app import protected, workbench
from leadline.plugins.ui.audit import AuditLog
from leadline.plugins.ui.prefect_work import TAG
from leadline.plugins.ui.work_forms import KINDS, command_of, form_fields, recorded_settings
from leadline.tasks.judges.labels.label_sets import LabelSet
from leadline.tasks.store.store import Store
from tests.support.stores.runs import make_run

TOKEN = "a token for the page"
DEADLINE_S = 90.0
EVALUATE, COMPARE, COLLECT, SAMPLE, IMPROVE = KINDS.values()
LINE = '{"question": "Who?", "expected_answer": "Ada.", "actual_answer": "Ada.", "model": "m"}\n'


@pytest.fixture
def web(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """A client that is let in, in a folder with a dataset."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[3]}:{tmp_path}")
    monkeypatch.setenv("LEADLINE_SERVER", "none")
    (tmp_path / "answers.jsonl").write_text(LINE)
    (tmp_path / "leadline.toml").write_text('[judges.weak]\nmodel = "openai/weak"\n')
    client = TestClient(protected(workbench(store), TOKEN), follow_redirects=False)
    client.get("/", params={"token": TOKEN})
    return client


def send(web: TestClient, path: str, **fields: str) -> str:
    """Send a form of the page of work; returns where the answer leads, or what it says."""
    csrf = re.search(r'name="csrf" value="(\w+)"', web.get("/work").text)
    assert csrf
    answer = web.post(path, data={"csrf": csrf[1], **fields})
    return answer.headers["location"] if answer.status_code == 303 else answer.text


def evaluated(store: Store) -> str:
    """Evaluate the dataset, and return the run."""
    config = EvaluateConfig(dataset="answers.jsonl", evaluators=("bleu",), store=store.location, dispatch="inline")
    return Evaluate()(config).run


def wait(web: TestClient, page: str, *states: str) -> str:
    end = time.monotonic() + DEADLINE_S
    while True:
        text = web.get(page).text
        if re.search(rf'class="badge[^"]*">({"|".join(states)})<', text):
            return text
        assert time.monotonic() < end, text
        time.sleep(0.2)


def test_the_form_has_the_settings_that_the_commands_help_lists(web: TestClient) -> None:
    page = web.get("/work").text
    assert {"dataset", "evaluators", "judges.model", "fail_on"} <= set(re.findall(r'name="([\w.]+)"', page))
    for kind in KINDS.values():
        assert not {"store", "output", "evaluators_dir", "evaluator_files"} & {one.path for one in form_fields(kind)}
    assert {"baseline", "candidate", "margin"} <= set(re.findall(r'name="(\w+)"', web.get("/work?job=compare").text))
    filled = web.get("/work?job=collect&suite=x.csv&models=a,%20b").text
    assert 'value="x.csv"' in filled
    assert 'value="a, b"' in filled
    refused = web.get("/work?job=improve-judge")
    assert refused.headers["location"] == "/labels", "what is paid for is priced on the page of its queue"


@pytest.mark.slow
def test_answers_are_collected_within_what_is_allowed_and_lead_to_their_evaluation(
    web: TestClient, tmp_path: Path, store: Store
) -> None:
    (tmp_path / "portapp.py").write_text("def answer(question: str) -> str:\n    return 'Ada.'\n")
    (tmp_path / "leadline.toml").write_text('[service]\nallowed_callables = ["portapp:*"]\n')
    form = {"job": "collect", "suite": "answers.jsonl", "models": "python:portapp:answer", "max_calls": "3"}
    page = send(web, "/work", **form)
    said = wait(web, page, "done")
    assert "leadline collect --model=" in said
    assert "/work?job=evaluate&amp;dataset=answers.answers.jsonl" in said
    assert '"Ada."' in (tmp_path / "answers.answers.jsonl").read_text()
    assert "models = [&#39;python:portapp:answer&#39;]" in web.get("/audit").text
    assert [entry.did for entry in AuditLog(store).entries()[0]] == ["started work"]


@pytest.mark.slow
def test_a_sample_is_drawn_by_the_form_and_leads_to_its_queue_without_the_place_of_the_store(
    web: TestClient, store: Store
) -> None:
    run = evaluated(store)
    form = web.get("/work?job=sample-labels").text
    assert '<option value="bleu.bleu_1">' in form
    assert f'value="{run}" required' in form
    page = send(web, "/work", job="sample-labels", run=run, metric="bleu", rows="5", how="uniform", labels="berths")
    said = wait(web, page, "done")
    [sample] = LabelSet(store, "berths").samples()
    assert (sample.run, sample.question, len(sample.rows)) == (run, "bleu.bleu_1", 1)
    assert "1 answer of 1 row that bleu scored: the queue of berths" in said
    assert f"leadline labels sample --queue --metric=bleu --n=5 --set=berths -- {run}<" in said
    assert 'href="/labels">The queues' in said
    assert str(store.root) not in said
    assert "labels = berths" in web.get("/audit").text
    refused = wait(web, send(web, "/work", job="sample-labels", run=run, metric="none"), "failed")
    assert "has no metric" in refused
    assert "The queues" not in refused


@pytest.mark.slow
def test_a_comparison_is_started_and_its_outcome_said(web: TestClient) -> None:
    page = send(web, "/work", job="compare", baseline="nope", candidate="latest")
    said = wait(web, page, "failed")
    assert "There is no run" in said
    assert "leadline compare --baseline=nope" in said


@pytest.mark.slow
def test_a_run_is_started_says_how_it_goes_and_stands_in_the_list(web: TestClient, store: Store) -> None:
    page = send(web, "/work", dataset="answers.jsonl", evaluators="bleu, rouge", name="from the page")
    said = wait(web, page, "done")
    assert "leadline evaluate " in said
    assert str(store.root) not in said
    time.sleep(2.1)  # a list of runs may be that old
    assert "from the page" in web.get("/").text
    run = re.search(r'href="/runs/([\w-]+)"', web.get("/").text)
    assert run
    again = web.get(f"/work?again={run[1]}").text
    assert 'value="bleu, rouge"' in again
    assert 'value="answers.jsonl"' in again


@pytest.mark.slow
def test_a_command_is_stopped_as_by_ctrl_c(web: TestClient) -> None:
    page = send(web, "/work", dataset="answers.jsonl", evaluators="bleu")
    assert send(web, f"{page}/stop") == page
    wait(web, page, "stopped")
    assert "stopped work" in web.get("/audit").text


@pytest.mark.slow
def test_samples_and_better_judges_are_made_by_prefects_workers_too(
    web: TestClient, store: Store, api_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", api_url)
    monkeypatch.setenv("LEADLINE_SERVER", "auto")
    sample = {"run": evaluated(store), "metric": "bleu"}
    better = {"judges.model": "weak", "labels": "berths", "judges.max_cost": "2"}
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="ui-labels", type="process"))
        client.send_worker_heartbeat("ui-labels", "a worker")
        runs = []
        for flow, form in ((sample_labels, sample), (improve_judge, better)):
            deployment = flow.to_deployment(name=flow.name, entrypoint_type=EntrypointType.MODULE_PATH)
            deployment.apply(work_pool_name="ui-labels")  # type: ignore[union-attr]
            page = send(web, "/work", job=flow.name, **form)
            runs.append(client.read_flow_run(page.rpartition("/")[2]))  # type: ignore[arg-type]
        drawing, improving = ({**run.parameters["config"]} for run in runs)
        assert [run.name for run in runs] == [f"sample bleu of {sample['run']}", "improve weak by berths"]
        assert (improving["judges"]["model"], improving["judges"]["max_cost"]) == ("weak", 2)
        assert drawing.items() >= (sample | {"rows": 100, "store": store.location}).items()
        sample_labels(SampleLabelsConfig.model_validate(drawing))  # as its worker does
        assert [one.run for one in LabelSet(store).samples()] == [sample["run"]]
        client.set_flow_run_state(runs[0].id, Completed(), force=True)
        assert "The queues" in web.get(f"/work/{runs[0].id}").text
        client.set_flow_run_state(runs[1].id, Completed(), force=True)
        assert "/labels/berths/improve" in web.get(f"/work/{runs[1].id}").text


@pytest.mark.slow
def test_what_a_worker_of_prefect_serves_becomes_a_flow_run_and_is_cancelled_there(
    web: TestClient, store: Store, api_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", api_url)
    monkeypatch.setenv("LEADLINE_SERVER", "auto")
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="ui-flows", type="process"))
        deployment = compare.to_deployment(name="compare", entrypoint_type=EntrypointType.MODULE_PATH)
        id_ = deployment.apply(work_pool_name="ui-flows")  # type: ignore[union-attr]
        assert "no worker is online in the work pool" in web.get("/work?job=compare").text
        assert "evaluate/evaluate or its work pool does not exist" in web.get("/work").text
        client.send_worker_heartbeat("ui-flows", "a worker")
        assert "It becomes a run in Prefect" in web.get("/work?job=compare").text
        page = send(web, "/work", job="compare", baseline="latest~1", candidate="latest", margin="0.1")
        run = client.read_flow_run(page.rpartition("/")[2])  # type: ignore[arg-type]
        assert (run.deployment_id, run.name) == (id_, "compare latest with latest~1")
        given = {name: run.parameters["config"][name] for name in ("baseline", "margin", "store")}
        assert given == {"baseline": "latest~1", "margin": 0.1, "store": store.location}
        assert "waiting" in web.get(page).text
        assert page in web.get("/work").text
        other = TestClient(workbench(Store.open(tmp_path / "other")))
        assert other.get(page).status_code == 404
        assert page not in other.get("/work").text
        stranger = client.create_flow_run_from_deployment(id_, parameters={"config": {"baseline": "x"}}, tags=[TAG])
        assert web.get(f"/work/{stranger.id}").status_code == 404
        assert "There is no such page" in send(web, f"/work/{stranger.id}/stop")
        assert send(web, f"{page}/stop") == page
        assert "stopped" in web.get(page).text
        deployment = collect.to_deployment(name="collect", entrypoint_type=EntrypointType.MODULE_PATH)
        config = {"suite": "berths.csv", "store": store.location}
        collecting = client.create_flow_run_from_deployment(
            deployment.apply(work_pool_name="ui-flows"),  # type: ignore[union-attr]
            parameters={"config": config},
            tags=[TAG, "job:collect"],
        )
        assert "Evaluate these answers" not in web.get(f"/work/{collecting.id}").text
        client.set_flow_run_state(collecting.id, Completed(), force=True)
        assert "job=evaluate&amp;dataset=berths.answers.jsonl" in web.get(f"/work/{collecting.id}").text
        assert client.read_flow_run(run.id).state.type.value == "CANCELLED"  # type: ignore[union-attr]
        assert client.read_flow_run(stranger.id).state.type.value == "SCHEDULED"  # type: ignore[union-attr]
    assert [entry.did for entry in AuditLog(store).entries()[0]] == ["stopped work", "started work"]


def test_a_server_that_is_away_is_said_and_work_runs_here(web: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    monkeypatch.setenv("LEADLINE_SERVER", "auto")
    assert "It runs on this server: Prefect&#39;s API at http://127.0.0.1:9/api" in web.get("/work").text
    assert web.get("/work/7e1b9d3e-5f0c-4ac4-9a76-0d7bb1a1f0f3").status_code == 503
    assert web.get("/work/nothing").status_code == 404


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"dataset": ""}, "dataset"),
        ({"dataset": "/etc/passwd"}, "allowed_files"),
        ({"dataset": "../outside.csv"}, "allowed_files"),
        ({"dataset": "answers.jsonl", "policy": "/etc/passwd"}, "allowed_files"),
        ({"job": "compare", "baseline": ""}, "name a baseline"),
        ({"job": "compare", "baseline": "x", "policy": "../policy.toml"}, "allowed_files"),
        ({"job": "collect", "suite": "/etc/passwd", "models": "m"}, "allowed_files"),
        ({"job": "collect", "suite": "answers.jsonl", "models": "python:os:system"}, "allowed_callables"),
        ({"job": "collect", "suite": "answers.jsonl", "models": "http://169.254.169.254/"}, "allowed_hosts"),
        ({"job": "collect", "suite": "answers.jsonl", "models": "m", "targets": "/etc/hosts"}, "allowed_files"),
        ({"job": "sample-labels", "run": "latest"}, "name either a metric or a question"),
        ({"job": "sample-labels", "run": "latest", "metric": "bleu", "rows": "0"}, "rows"),
        ({"job": "improve-judge", "judges.model": "openai/other", "labels": "labels"}, "allowed_models"),
        ({"job": "improve-judge", "judges.model": "weak", "proposer": "openai/other"}, "allowed_models"),
        ({"job": "shell", "dataset": "answers.jsonl"}, "There is no such page"),
        ({"dataset": "s3://elsewhere/answers.csv"}, "allowed_stores"),
        ({"dataset": "answers.jsonl", "fail_on": "sometimes"}, "fail_on"),
        ({"dataset": "answers.jsonl", "judges.max_cost": "much"}, "not a number"),
        (
            {"dataset": "answers.jsonl", "judges.model": "openai/x", "judges.api_base": "http://169.254.169.254/"},
            "allowed_models",
        ),
    ],
)
def test_what_makes_no_sense_or_is_not_allowed_is_refused_before_it_starts(
    web: TestClient, fields: dict[str, str], said: str
) -> None:
    answer = send(web, "/work", **fields)
    assert said in answer
    assert "Nothing was started" in web.get("/work").text


def test_options_in_a_value_stay_a_value() -> None:
    found = command_of(EVALUATE, {"dataset": "--debug", "name": "x --store /", "params": {"a": {"b": 1}}}, "S")
    options = ['--set=params={"a": {"b": 1}}', "--name=x --store /"]
    assert found == ["evaluate", "--store", "S", *options, "--", "--debug"]
    found = command_of(COMPARE, {"baseline": "--help", "candidate": "-h", "all_metrics": True, "margin": 0.05}, "S")
    assert found == ["compare", "--store", "S", "--baseline=--help", "--all-metrics", "--", "-h"]
    found = command_of(COLLECT, {"suite": "a.csv", "models": ["x", "y"], "copies": 2}, "S")
    assert found == ["collect", "--store", "S", "--model=x", "--model=y", "--copies=2", "--", "a.csv"]
    found = command_of(SAMPLE, {"run": "-x", "metric": "bleu", "rows": 8, "labels": "--disagreed"}, "S")
    options = ["--metric=bleu", "--n=8", "--set=--disagreed"]
    assert found == ["labels", "sample", "--queue", "--store", "S", *options, "--", "-x"]
    found = command_of(IMPROVE, {"judges.model": "--json", "proposer": "big", "labels": "x", "judges.max_cost": 2}, "S")
    options = ["--by=big", "--labels=x", "--max-cost=2"]
    assert found == ["judges", "improve", "--store", "S", *options, "--", "--json"]


def test_a_recorded_run_gives_its_settings_without_places_of_this_host() -> None:
    config = {"dataset": "a.csv", "output": "/tmp/x", "store": "/s", "evaluators": ["bleu"], "fail_on": "never",
              "judges": {"model": "openai/x", "trials": 1}}  # fmt: skip
    assert recorded_settings(EVALUATE, {"config": config}) == {
        "dataset": "a.csv", "evaluators": ["bleu"], "judges.model": "openai/x",
    }  # fmt: skip
    assert recorded_settings(EVALUATE, {}) == recorded_settings(EVALUATE, {"config": 7}) == {}


def test_nobody_without_the_role_sees_the_form(store: Store) -> None:
    make_run(store, "20260101-a")
    web = TestClient(workbench(store))  # nobody said who asks: a viewer
    assert "<form" not in web.get("/work").text
    assert web.post("/work", data={"dataset": "x"}).status_code == 403
    assert "Run again" not in web.get("/runs/20260101-a").text
