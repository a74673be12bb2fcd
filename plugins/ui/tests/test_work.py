"""Work that is started on the pages: the form, what may not be asked for, a real command, and its stop."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from leadline.plugins.ui.app import protected, workbench
from leadline.plugins.ui.pages.work import command_of, form_fields, recorded_settings
from leadline.tasks.store.store import Store
from tests.support.stores.runs import make_run

TOKEN = "a token for the page"
DEADLINE_S = 90.0
LINE = '{"question": "Who?", "expected_answer": "Ada.", "actual_answer": "Ada.", "model": "m"}\n'


@pytest.fixture
def web(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """A client that is let in, in a folder with a dataset."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    (tmp_path / "answers.jsonl").write_text(LINE)
    client = TestClient(protected(workbench(store), TOKEN), follow_redirects=False)
    client.get("/", params={"token": TOKEN})
    return client


def send(web: TestClient, path: str, **fields: str) -> str:
    """Send a form of the page of work; returns where the answer leads, or what it says."""
    csrf = re.search(r'name="csrf" value="(\w+)"', web.get("/work").text)
    assert csrf
    answer = web.post(path, data={"csrf": csrf[1], **fields})
    return answer.headers["location"] if answer.status_code == 303 else answer.text


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
    assert not {"store", "output", "evaluators_dir", "evaluator_files"} & {field.path for field in form_fields({})}


@pytest.mark.slow
def test_a_run_is_started_says_how_it_goes_and_stands_in_the_list(web: TestClient) -> None:
    page = send(web, "/work", dataset="answers.jsonl", evaluators="bleu, rouge", name="from the page")
    said = wait(web, page, "done")
    assert "leadline evaluate --store" in said
    time.sleep(2.1)  # a list of runs may be that old
    assert "from the page" in web.get("/").text
    run = re.search(r'href="/runs/([\w-]+)"', web.get("/").text)
    assert run
    again = web.get(f"/work?run={run[1]}").text
    assert 'value="bleu, rouge"' in again
    assert 'value="answers.jsonl"' in again


@pytest.mark.slow
def test_a_command_is_stopped_as_by_ctrl_c(web: TestClient) -> None:
    page = send(web, "/work", dataset="answers.jsonl", evaluators="bleu")
    assert send(web, f"{page}/stop") == page
    wait(web, page, "stopped")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"dataset": ""}, "dataset"),
        ({"dataset": "/etc/passwd"}, "allowed_files"),
        ({"dataset": "../outside.csv"}, "allowed_files"),
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
    found = command_of({"dataset": "--debug", "name": "x --store /"}, "S")
    assert found == ["evaluate", "--store", "S", '--set=name="x --store /"', "--", "--debug"]


def test_a_recorded_run_gives_its_settings_without_places_of_this_host() -> None:
    config = {"dataset": "a.csv", "output": "/tmp/x", "store": "/s", "evaluators": ["bleu"], "fail_on": "never",
              "judges": {"model": "openai/x", "trials": 1}}  # fmt: skip
    assert recorded_settings({"config": config}) == {
        "dataset": "a.csv", "evaluators": ["bleu"], "judges.model": "openai/x",
    }  # fmt: skip
    assert recorded_settings({}) == recorded_settings({"config": 7}) == {}


def test_nobody_without_the_role_sees_the_form(store: Store) -> None:
    make_run(store, "20260101-a")
    web = TestClient(workbench(store))  # nobody said who asks: a viewer
    assert "<form" not in web.get("/work").text
    assert web.post("/work", data={"dataset": "x"}).status_code == 403
    assert "Run again" not in web.get("/runs/20260101-a").text
