"""Asking a judge again about one answer: the reply stands beside the stored ones, and the run stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.shared.judge_access import judges_of
from leadline.plugins.ui.site import PersonRole
from leadline.plugins.ui.tests.test_labels import send, somebody
from leadline.tasks.store.store import Run, Store
from tests.support.judges import judged_run
from tests.support.judges.judge_endpoint import JudgeEndpoint, Question, serving

NAMED = {"case": "c0", "model": "m", "evaluator": "test.brief"}


@dataclass
class JudgedRun:
    """A run whose judge is served, and what it says of brevity now."""

    store: Store
    run: Run
    endpoint: JudgeEndpoint
    said: str = "yes"

    @property
    def path(self) -> str:
        return f"/runs/{self.run.id}/again"

    def page(self, web: TestClient) -> str:
        return web.get(f"{self.path}?{urlencode(NAMED)}").text

    def scores(self) -> bytes:
        return self.run.database.read_bytes()


@pytest.fixture
def judged(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JudgedRun]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")

    def reply(question: Question) -> str:
        return found.said if "brief" in question.text else judged_run.reply(question)

    with serving(JudgeEndpoint(reply)) as endpoint:
        monkeypatch.setenv("LEADLINE_ALLOWED_HOSTS", endpoint.url.split("/")[2])
        file = judged_run.write_rows(tmp_path / "rows.jsonl", 3)
        judge = {"model": "openai/judge", "api_base": endpoint.url}
        config = EvaluateConfig.model_validate({"dataset": str(file), "judges": judge})
        found = JudgedRun(store, store.new_run(), endpoint)
        run = judged_run.evaluate(store, file, judges_of(config.judges))["run"]
        found.run = store.run(run)
        found.run.update({"config": config.model_dump(mode="json"), "status": "completed"})
        yield found


def values(page: str) -> list[tuple[str, float]]:
    """Return the heading of each reply with its value."""
    found = re.findall(r'<h2 id="reply-\d+">([^<]+?) <.*?class="badge">([\d.]+)<', page, re.DOTALL)
    return [(unescape(title), float(value)) for title, value in found]


def test_a_repeat_stands_beside_the_runs_reply_and_changes_no_number(judged: JudgedRun) -> None:
    web = somebody(judged.store, "eve", PersonRole.EDITOR)
    case = web.get(f"/runs/{judged.run.id}/case?case=c0").text
    assert f'href="{judged.path}?{urlencode(NAMED)}"'.replace("&", "&amp;") in case
    page, before, asked = judged.page(web), judged.scores(), len(judged.endpoint.log)
    assert values(page) == [("The run's reply", 1.0)]
    assert "About 1 call," in page
    judged.said = "no"
    assert send(web, judged.path, **NAMED).headers["location"] == f"{judged.path}?{urlencode(NAMED)}"
    page = judged.page(web)
    assert values(page) == [("The run's reply", 1.0), ("A repeat", 0.0)]
    assert page.count(">no</pre>") == 1
    assert len(judged.endpoint.log) == asked + 2, "statements and brevity, of one answer"
    assert judged.scores() == before
    judged.said = "yes"
    send(web, judged.path, **NAMED)
    assert values(judged.page(web))[2:] == [("A repeat", 1.0)]


def test_a_rerun_asks_nothing_and_more_trials_take_the_repeats(judged: JudgedRun) -> None:
    web = somebody(judged.store, "eve", PersonRole.EDITOR)
    judged.said = "no"
    send(web, judged.path, **NAMED)
    judges = judges_of(EvaluateConfig.model_validate(judged.run.read()["config"]).judges)
    again = judged_run.evaluate(judged.store, Path("rows.jsonl"), judges)
    assert again["to_compute"] == 0
    assert [line[5] for line in again["scores"] if line[0] == "brief"] == [1.0, 1.0, 1.0]
    twice = judged_run.evaluate(judged.store, Path("rows.jsonl"), judges, trials=2)
    assert twice["to_compute"] == 5, "two evaluators of three answers, but the one that was asked again"


def test_no_verdict_is_said_and_kept_nowhere(judged: JudgedRun) -> None:
    web = somebody(judged.store, "eve", PersonRole.EDITOR)
    judged.said = "perhaps"
    answer = send(web, judged.path, **NAMED)
    assert (answer.status_code, "gave no verdict" in answer.text) == (400, True)
    assert len(values(judged.page(web))) == 1


def test_another_judge_or_one_that_may_not_be_named_is_not_asked(
    judged: JudgedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    web, asked = somebody(judged.store, "eve", PersonRole.EDITOR), len(judged.endpoint.log)
    config = judged.run.read()["config"]
    judged.run.update({"config": config | {"judges": config["judges"] | {"model": "openai/other"}}})
    answer = send(web, judged.path, **NAMED)
    assert (answer.status_code, "has changed since" in answer.text) == (400, True)
    judged.run.update({"config": config})
    monkeypatch.delenv("LEADLINE_ALLOWED_HOSTS")
    answer = send(web, judged.path, **NAMED)
    assert (answer.status_code, "which requests from outside may not" in answer.text) == (400, True)
    assert len(judged.endpoint.log) == asked


@pytest.mark.parametrize(
    ("changed", "status"), [({"case": "none"}, 404), ({"model": "x"}, 404), ({"evaluator": "bleu"}, 400)]
)
def test_what_the_run_has_not_is_not_asked_about(judged: JudgedRun, changed: dict[str, str], status: int) -> None:
    web = somebody(judged.store, "eve", PersonRole.EDITOR)
    assert send(web, judged.path, **NAMED | changed).status_code == status
    assert web.get(f"{judged.path}?{urlencode(NAMED | changed)}").status_code == status


def test_only_editors_ask_and_all_may_look(judged: JudgedRun) -> None:
    web, asked = somebody(judged.store, "lena", PersonRole.LABELLER), len(judged.endpoint.log)
    page = judged.page(web)
    assert values(page) == [("The run's reply", 1.0)]
    assert "Ask again" not in page
    assert send(web, judged.path, **NAMED).status_code == 403
    assert len(judged.endpoint.log) == asked
