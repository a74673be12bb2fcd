"""The page on which editors improve a judge: price, command, a real start, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from leadline.plugins.ui.site import PersonRole
from leadline.plugins.ui.tests.test_labels import send, somebody
from leadline.tasks.judges.labels.judge_improvement import kept_improvements
from leadline.tasks.store.store import Store
from tests.support.judges.improvable_judge import Improvable
from tests.support.judges.judge_endpoint import serving
from tests.support.judges.labelled_answers import METRIC, labelled_by_people, write_settings

PAGE = f"/labels/labels/improve?metric={METRIC}"
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
    refused = send(editor, "/labels/labels/improve", judge="openai/other", by="weak", metric=METRIC)
    assert (refused.status_code, "no such judge" in refused.text) == (400, True)
    labeller = somebody(store, "anna")
    assert labeller.get(PAGE).status_code == 403
    assert send(labeller, "/labels/labels/improve", judge="weak", by="weak", metric=METRIC).status_code == 403
    assert "improve" not in labeller.get("/labels").text


@pytest.mark.slow
def test_an_editor_sees_the_price_starts_a_try_and_finds_its_guidance(judge: Improvable, tmp_path: Path) -> None:
    store = labelled_by_people(tmp_path, 130)
    editor = somebody(store, "eve", PersonRole.EDITOR)
    assert "Improve the judge" in editor.get("/labels").text
    asked = len(judge.log)
    page = unescape(editor.get(f"{PAGE}&judge=weak&by=teacher").text)
    assert "1 call of <bdi>teacher</bdi>, about $0" in page
    assert f"--labels=labels --metric={METRIC} --by=teacher -- weak" in page
    assert len(judge.log) == asked, "looking costs nothing"
    started = send(editor, "/labels/labels/improve", judge="weak", by="teacher", metric=METRIC).headers["location"]
    end = time.monotonic() + DEADLINE_S
    while not kept_improvements(Store.open(tmp_path / ".leadline")):
        assert time.monotonic() < end, editor.get(started).text
        time.sleep(0.2)
    assert "improve weak by labels" in editor.get("/work").text
    shown = unescape(editor.get(PAGE).text)
    assert "candidate 1 on this held-out half" in shown
    assert "[judges.weak.guidance.sexism]" in shown
    assert "Heed the tone." in shown
