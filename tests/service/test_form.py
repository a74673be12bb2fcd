"""The form in Prefect's UI, filled in as a person does in headless Chromium."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.browser import Page, browse
from tests.support.processes.service import LiveService
from tests.support.processes.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.service, pytest.mark.timeout(400)]

CASES = Path(__file__).parents[2] / "examples" / "cases.csv"

FIELD = """
(label, kind) => {
  const found = [...document.querySelectorAll('label')].find(one => one.innerText.replace(' (Optional)', '') === label);
  return found && found.closest('.group').querySelector(kind);
}
"""


def element(label: str, kind: str) -> str:
    """Return an expression for the control below a label."""
    return f"({FIELD})({json.dumps(label)}, {json.dumps(kind)})"


def write(page: Page, label: str, text: str, kind: str = "textarea") -> None:
    page.wait(element(label, kind))
    page.js(f"{element(label, kind)}.focus()")
    page.send("Input.insertText", text=text)
    page.wait(f"{element(label, kind)}.value.endsWith({json.dumps(text)})")


def click(page: Page, expression: str) -> None:
    """Click with the mouse: the controls of this UI do not listen to scripts."""
    page.wait(expression)
    page.wait("getComputedStyle(document.body).pointerEvents !== 'none' || document.querySelector('[role=option]')")
    page.js(f"({expression}).scrollIntoView({{block: 'center'}})")
    box = page.js(
        f"(() => {{ const b = ({expression}).getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }})()"
    )
    point = {"x": box[0] + box[2] / 2, "y": box[1] + box[3] / 2, "button": "left", "clickCount": 1}
    for kind in ("mousePressed", "mouseReleased"):
        page.send("Input.dispatchMouseEvent", type=kind, **point)


def button(text: str) -> str:
    return f"[...document.querySelectorAll('button')].find(one => one.innerText.trim() === {json.dumps(text)})"


def option(text: str) -> str:
    return f"[...document.querySelectorAll('[role=option]')].find(one => one.innerText.trim() === {json.dumps(text)})"


def form(page: Page, service: LiveService, deployment: str) -> None:
    page.resize(1400, 4000)
    page.send("Page.navigate", url=f"{service.ui}/v2/deployments/deployment/{service.deployment(deployment)['id']}/run")
    page.wait("document.querySelector('label')", 60)


def test_the_form_of_evaluate_is_filled_in_and_starts_a_run(service: LiveService) -> None:
    with browse() as page:
        form(page, service, "evaluate/evaluate")
        write(page, "Dataset", str(CASES))
        click(page, element("Evaluators", ":scope > fieldset button"))
        write(page, "Evaluators", "bleu")
        click(page, element("Fail on", "button[aria-label^=Select]"))
        click(page, option("high"))
        page.wait("!document.querySelector('[role=option]')")
        write(page, "Name", "by hand")
        click(page, button("Submit"))
        page.wait("document.body.innerText.includes('scheduled to start now')", 60)
    [flow_run] = [one["id"] for one in service.runs_of("evaluate/evaluate") if one["parameters"]["config"].get("name")]
    run = service.ended(flow_run)
    assert (run["state_type"], run["name"]) == ("COMPLETED", "evaluate by hand"), run["state"]
    config = run["parameters"]["config"]
    assert (config["dataset"], config["fail_on"], config["evaluators"]) == (str(CASES), "high", ["bleu"])
    keys = {one["key"] for one in artifacts(service, flow_run)}
    assert {"leadline-summary", "leadline-leaderboard", "leadline-problems", "leadline-report"} <= keys


def artifacts(service: LiveService, flow_run: str) -> list[dict[str, Any]]:
    wanted = {"artifacts": {"flow_run_id": {"any_": [flow_run]}}}
    return eventually(lambda: service.post("/artifacts/filter", wanted), 20, "artifacts")


@pytest.mark.parametrize(
    "deployment", ["evaluate/evaluate", "on-model-version/collect-and-evaluate", "compare/compare"]
)
def test_every_field_of_every_form_has_a_label_and_a_help_text(service: LiveService, deployment: str) -> None:
    with browse() as page:
        form(page, service, deployment)
        page.wait("document.querySelectorAll('label').length > 8", 30)
        fields = page.js(
            "[...document.querySelectorAll('fieldset')].map(one => {"
            " const group = one.closest('.group'); const label = group && group.querySelector('label');"
            " const help = group && group.querySelector('p');"
            " return [label ? label.innerText : '', help ? help.innerText : '']; })"
        )
    named = [(label, help_) for label, help_ in fields if label]
    assert len(named) > 8
    assert [label for label, help_ in named if len(help_) < 8] == []
    secret = ("api key", "token", "password")
    assert [label for label, _ in named if label.lower().replace(" (optional)", "") in secret] == []
