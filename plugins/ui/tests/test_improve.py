"""The page on which editors improve a judge: price, command, a real start, and what came of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from leadline.plugins.ui.site import PersonRole
from leadline.plugins.ui.tests.test_labels import send, somebody
from leadline.tasks.judges.labels.judge_improvement import kept_improvements
from tests.support.judges.improvable_judge import Improvable
from tests.support.judges.judge_endpoint import serving
from tests.support.judges.labelled_answers import METRIC, labelled_by_people, write_settings

PAGE = f"/labels/labels/improve?metric={METRIC}"
FORM = {
    "job": "improve-judge", "judges.model": "weak", "proposer": "teacher", "labels": "labels", "metric": METRIC,
}  # fmt: skip
DEADLINE_S = 120.0


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Improvable]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEADLINE_STORE", raising=False)
    monkeypatch.setenv("LEADLINE_SERVER", "none")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    with serving(Improvable("Heed the tone.")) as endpoint:
        write_settings(tmp_path, endpoint.url, {"weak": "weak", "teacher": "teacher"})
        yield endpoint


def test_too_few_labels_are_told_and_only_judges_of_the_settings_can_be_named(
    judge: Improvable, tmp_path: Path
) -> None:
    store = labelled_by_people(tmp_path, 20)
    editor = somebody(store, "eve", PersonRole.EDITOR)
    page = editor.get(PAGE).text
    assert "Improving a judge takes 20 labelled rows" in page
    assert ">Start<" not in page
    assert "Nothing was tried yet." in page
    refused = send(editor, "/work", **FORM | {"judges.model": "openai/other"})
    assert (refused.status_code, "allowed_models" in refused.text) == (400, True)
    labeller = somebody(store, "anna")
    assert labeller.get(PAGE).status_code == 403
    assert send(labeller, "/work", **FORM).status_code == 403
    assert "improve" not in labeller.get("/labels").text


@pytest.mark.slow
def test_an_editor_sees_the_price_starts_a_try_and_finds_its_guidance(judge: Improvable, tmp_path: Path) -> None:
    store = labelled_by_people(tmp_path, 130)
    editor = somebody(store, "eve", PersonRole.EDITOR)
    assert "Improve the judge" in editor.get("/labels").text
    asked = len(judge.log)
    page = unescape(editor.get(f"{PAGE}&judge=weak&by=teacher").text)
    assert "1 call of <bdi>teacher</bdi>, about $0" in page
    assert str(tmp_path) not in page
    assert len(judge.log) == asked, "looking costs nothing"
    form = dict(re.findall(r'<input type="hidden" name="([\w.]+)" value="([^"]*)"', page))
    assert form == {"csrf": "proof", "metric": METRIC} | FORM
    started = send(editor, "/work", **form, **{"judges.max_cost": "0.5"}).headers["location"]
    end = time.monotonic() + DEADLINE_S
    while "badge pass" not in (said := unescape(editor.get(started).text)):
        assert time.monotonic() < end, said
        time.sleep(0.2)
    assert f"--by=teacher --labels=labels --metric={METRIC} --max-cost=0.5 -- weak" in said
    assert "judging: rows to learn from" in said
    assert str(tmp_path) not in said
    assert f'href="{PAGE}">What came of it' in said
    assert len(kept_improvements(store)) == 1
    assert "improve weak by labels" in editor.get("/work").text
    shown = unescape(editor.get(PAGE).text)
    assert "candidate 1 on this held-out half" in shown
    assert "[judges.weak.guidance.sexism]" in shown
    assert "Heed the tone." in shown
