"""Dialogues in the page: what was said before a question that is given, and the turns of what a model said."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from leadline.api import Result, evaluate
from leadline.evaluators.data import Row
from tests.support.processes.browser import Page, browse

GIVEN = [
    {"role": "user", "content": "I want to appeal."},
    {"role": "assistant", "content": "Hire a lawyer.", "tool_calls": [{"id": "a", "name": "look", "arguments": {}}]},
    {"role": "tool", "tool_call_id": "a", "content": "three lawyers"},
    {"role": "user", "content": "On what grounds?"},
]
SAID = [
    {"role": "user", "content": "When is low water?"},
    {"role": "assistant", "content": "At noon."},
    {"role": "user", "content": "And a berth?"},
    {"role": "assistant", "content": "Berth 7."},
]


def is_short(row: Row) -> bool:
    """Return whether an answer is short."""
    return len(row.actual_answer or "") < 9


def run(folder: Path, records: Sequence[Mapping[str, Any]]) -> Result:
    path = folder / "talks.jsonl"
    path.write_text("".join(json.dumps({"model": "m", **record}) + "\n" for record in records), encoding="utf-8")
    return evaluate(path, metrics=[is_short], store=folder / "store", progress=False)


def page_of(result: Result) -> Path:
    return result.folder / "results" / "report.html"


def data_of(result: Result) -> Any:
    packed = re.search(r'id="data">([A-Za-z0-9+/=]+)<', page_of(result).read_text(encoding="utf-8"))
    assert packed
    return json.loads(gzip.decompress(base64.b64decode(packed[1])))


def test_models_that_were_asked_the_same_share_what_was_said_before(tmp_path: Path) -> None:
    given = {"case": "appeal", "messages": GIVEN}
    data = data_of(
        run(
            tmp_path,
            [given | {"model": model, "actual_answer": f"A mistake, says {model}."} for model in ("one", "two")]
            + [{"case": "fresh", "messages": GIVEN[:1], "actual_answer": "Why?"}],
        )
    )
    assert data["histories"] == [
        [
            ["user", "I want to appeal.", [], ""],
            ["assistant", "Hire a lawyer.", [["look", "{}", "three lawyers", None]], ""],
        ]
    ]
    assert [talk["history"] for talk in data["dialogues"].values()] == [0, 0]
    assert not any(talk["messages"] for talk in data["dialogues"].values())


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [{"case": "appeal", "messages": GIVEN, "actual_answer": "A mistake."}, {"case": "tide", "messages": SAID}]
    return page_of(run(tmp_path_factory.mktemp("talks"), records))


@pytest.fixture
def tab() -> Iterator[Page]:
    with browse() as tab:
        yield tab
    assert tab.complaints == []


@pytest.mark.browser
def test_a_case_shows_what_was_said_before_then_its_question_and_the_answer(tab: Page, report: Path) -> None:
    tab.open(report, "#case=appeal")
    tab.wait("document.querySelector('.dialogue')")
    said = tab.js("[...document.querySelectorAll('.dialogue .message')].map(item => item.innerText).join('|')")
    assert re.sub(r"\s+", " ", said) == "User I want to appeal.|Assistant Hire a lawyer. look|User On what grounds?"
    assert "A mistake." in tab.text(".answer")


@pytest.mark.browser
def test_a_conversation_is_drawn_turn_by_turn(tab: Page, report: Path) -> None:
    tab.open(report, "#case=tide")
    tab.wait("document.querySelector('.dialogue')")
    turns = tab.js("[...document.querySelectorAll('.dialogue .turn')].map(item => item.innerText).join('|')")
    assert turns.startswith("Turn 1")
    assert "|Turn 2" in turns


def test_the_share_of_failing_conversations_is_drawn_by_turn_with_interval_and_number(tmp_path: Path) -> None:
    short = [*SAID[:3], {"role": "assistant", "content": "Every berth is taken."}]
    records = [{"case": "a", "messages": SAID}, {"case": "b", "messages": short}, {"case": "c", "messages": SAID[:2]}]
    page = page_of(run(tmp_path, records)).read_text(encoding="utf-8")
    section = page[page.index('<section id="turns"') :]
    lines = re.findall(r'<tr><th scope="row">(\d)</th>\s*<td class="num">(.*?)</td>', section)
    assert lines == [("1", "0 % (0 % – 84.2 %), n 2"), ("2", "50 % (1.3 % – 98.7 %), n 2")]
    assert section.count("<circle") == 2


def test_a_dataset_without_conversations_of_several_turns_has_no_curves(tmp_path: Path) -> None:
    page = page_of(run(tmp_path, [{"case": "c", "messages": SAID[:2]}])).read_text(encoding="utf-8")
    assert '<section id="turns"' not in page
