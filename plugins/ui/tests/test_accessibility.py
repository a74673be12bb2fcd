"""The workbench and the reports for everybody: WCAG's AA in both themes, wide and narrow, and by keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from leadline import evaluate
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.job import Evaluate
from leadline.plugins.ui.site import PersonRole
from leadline.plugins.ui.tests.test_datasets import rows
from leadline.plugins.ui.tests.test_labels import drawn, row_of, send, somebody
from leadline.plugins.ui.tests.test_trends import judged_nights
from leadline.plugins.ui.tests.test_ui_command import get, running
from leadline.plugins.ui.users import add_user
from leadline.tasks.compare import compare
from leadline.tasks.ledger.ledger import read_ledger
from leadline.tasks.store.store import Store
from tests.support.judges.berths import passing
from tests.support.judges.judge_endpoint import JudgeEndpoint, serving
from tests.support.processes.browser import Page, browse
from tests.support.stores.runs import make_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

EXAMPLES: Final = Path(__file__).parents[3] / "examples"
PAGES: Final = {
    "the token": "",
    "signing in": "{people}/login",
    "runs": "/",
    "runs, none found": "/?q=nothing",
    "a run": "/runs/{run}",
    "a run's report": "/runs/{run}/report.html",
    "a conversation's report": "/runs/{talks}/report.html",
    "a comparison's report": "/comparisons/{compared}/report.html",
    "picking what to compare": "/compare",
    "a comparison": "/compare?run={run}:aldermouth-rag-v1&run={run}:gullwing-mini",
    "cases of all runs": "/cases?q=tide",
    "cases of a run": "/cases?run={run}&metric=bleu.bleu_1&outcome=fails",
    "a case": "/runs/{run}/case?case=tide-springs",
    "a conversation": "/runs/{talks}/case?case=tide-lisbon",
    "calls": "/runs/{run}/calls?case=tide-springs&model=gullwing-mini",
    "a call": "/calls/{call}",
    "a case judged again": "/runs/{run}/again?case=tide-springs&model=gullwing-mini&evaluator={judge}",
    "a case added to a suite": "/runs/{run}/case?case=tide-springs",
    "labels": "/labels",
    "drawing a sample": "/work?job=sample-labels",
    "asking who labels": "/labels/labels/queue?metric=bleu.bleu_1",
    "a queue": "/labels/labels/queue?metric=bleu.bleu_1",
    "what people differ about": "/labels/labels/disagreements?metric=bleu.bleu_1&all=1",
    "improving a judge": "/labels/labels/improve?metric={judge}.correctness",
    "trends": "/trends?dataset=sample",
    "trends of runs": "/trends?dataset=sample&of=run.coverage",
    "datasets over time": "/trends/datasets?dataset=berths",
    "costs": "/costs?days=all",
    "work": "/work",
    "a run made again": "/work?again={run}",
    "comparing": "/work?job=compare",
    "collecting answers": "/work?job=collect",
    "work that failed": "/work?job=compare",
    "the audit log": "/audit",
    "nothing": "/nothing",
}


SENDS: Final = {
    "a queue": ("main form", {"name": "carla"}),
    "work that failed": ("form.fields", {"baseline": "none"}),
    "a case judged again": ("form[action*='/again']", {}),
    "a case added to a suite": ("form[action$='/suites']", {"suite": "suite.jsonl"}),
}
"""Pages that come by the forms of others: the form, and what is filled in before."""

JUDGED: Final = "databricks.correctness"


@dataclass(frozen=True)
class Served:
    """A store behind the workbench.

    Attributes:
        address: The pages, without a token.
        names: What stands in the addresses of :data:`PAGES`.
    """

    address: str
    names: Mapping[str, str]

    def come(self, page: Page, name: str) -> None:
        """Open a page as somebody who has the token, but for the page that asks for it."""
        page.send("Network.clearBrowserCookies")
        if name != "the token":
            page.send("Page.navigate", url=f"{self.address}/?{self.names['token']}")
            page.wait("document.readyState === 'complete' && document.title.startsWith('Runs')")
        path = PAGES[name].format_map(self.names)
        page.send("Page.navigate", url=path if path.startswith("http") else f"{self.address}{path}")
        page.wait("document.readyState === 'complete' && location.protocol === 'http:'")
        status = page.js("performance.getEntriesByType('navigation')[0].responseStatus")
        assert status == {"the token": 401, "signing in": 401, "nothing": 404}.get(name, 200)
        if name.endswith("report"):
            page.wait("document.body.dataset.ready === 'true' || !document.scripts.length")
        if name in SENDS:
            send_form(page, *SENDS[name])
        if name == "work that failed":
            page.wait("document.querySelector('main .badge.fail')", 90)


@pytest.fixture(scope="module")
def judge() -> Iterator[str]:
    """The address of a judge."""
    with serving(JudgeEndpoint(passing(0.67))) as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-none")
        yield endpoint.url


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, judge: str) -> tuple[Store, dict[str, str]]:
    """A store in which every page has something to show, and what stands in the addresses of its pages."""
    store = Store.open(tmp_path_factory.mktemp("pages") / "store")
    calls = {"answered": 4, "unknown_price": 0, "cost_usd": 0.25}
    judged_nights(store, rescored=3, drop=0.1, tags={"production": "x"}, judge_calls=calls)
    make_versions(store)
    few = some_cases()
    file = store.root / "few.json"
    file.write_bytes(orjson.dumps(few))
    before = evaluate_judged(store, judge, file)
    label_twice(store, before, f"{JUDGED}.correctness")
    for answer in few["answers"][::3]:
        answer["actual_answer"] = "Ask the harbour office."
    file.write_bytes(orjson.dumps(few))
    made = evaluate_judged(store, judge, file, against=before)
    label_twice(store, made, "bleu.bleu_1")
    talks = evaluate(
        EXAMPLES / "harbour_agent.jsonl", evaluators=["tool_call_f1", "tool_errors"], store=str(store.root)
    ).run
    compared = compare(store, f"{made}:aldermouth-rag-v1", f"{made}:gullwing-mini")
    call = next(iter(read_ledger(store).asks()))["digest"]
    return store, {
        "run": made, "talks": talks, "compared": compared.id, "call": call,
        "judge": JUDGED,
    }  # fmt: skip


def some_cases() -> dict[str, Any]:
    """Return a part of the sample dataset: axe takes seconds for thousands of elements."""
    harbour: dict[str, Any] = orjson.loads((EXAMPLES / "harbour.json").read_bytes())
    kinds = ("tide-", "secret-", "triage-")
    harbour["cases"] = [case for case in harbour["cases"] if case["key"].startswith(kinds)]
    keys = {case["key"] for case in harbour["cases"]}
    harbour["answers"] = [answer for answer in harbour["answers"] if answer["case"] in keys]
    return harbour


def make_versions(store: Store) -> None:
    """Make two runs between which cases of a dataset came, went and were edited, and its questions drifted."""
    before = {f"b{n}": f"Tell me of the tide at quay {n}" for n in range(60)}
    after = {key: text.replace("quay 5", "pier 5") for key, text in before.items() if key != "b0"}
    after |= {f"n{n}": f"Is a refund due for berth {n}?" for n in range(30)}
    for night, questions in enumerate((before, after), start=1):
        record = {"dataset_name": "berths", "started": f"2026-01-0{night}T10:00:00"}
        make_run(store, f"2026010{night}-b", answers=rows(questions), record=record)


def evaluate_judged(store: Store, url: str, dataset: Path, **more: str) -> str:
    """Evaluate a dataset by everything that a report has a section for, and return the run."""
    config = {
        "dataset": str(dataset), "store": str(store.root), "dispatch": "inline", "slices": ("category",),
        "model_keys": ("aldermouth-rag-v1", "gullwing-mini"),
        "evaluators": (JUDGED, "bleu", "classification", "pii_leakage"),
        "params": {"classification": {"categories": ["classification"]}},
        "judges": {"model": "openai/judge", "api_base": url},
    }  # fmt: skip
    return Evaluate()(EvaluateConfig.model_validate(config | more)).run


def label_twice(store: Store, run: str, metric: str) -> None:
    """Draw a sample of a run, and let two people label a row of it, who differ."""
    drawn(store, run=run, metric=metric)
    row = row_of(somebody(store, "anna").get(f"/labels/labels/queue?metric={metric}").text)
    for person, value in (("anna", "1"), ("ben", "0")):
        form = {"metric": metric, "row": row, "value": value}
        assert send(somebody(store, person), "/labels/labels/label", **form).status_code == 303


@pytest.fixture(scope="module")
def served(
    store: tuple[Store, dict[str, str]], judge: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    users = tmp_path_factory.mktemp("users") / "people.toml"
    add_user(users, "anna", PersonRole.EDITOR, "a long password")
    place, project = store[0].root, tmp_path_factory.mktemp("project")
    (project / "portapp.py").write_text("def answer(question: str) -> str:\n    return 'At noon.'\n")
    (project / "suite.csv").write_text("question,expected_answer\nWhen is high water?,At noon.\n")
    around = {
        "LEADLINE_ALLOWED_HOSTS": judge.split("/")[2], "LEADLINE_ALLOWED_CALLABLES": "portapp:*",
        "LEADLINE_SERVER": "none", "PYTHONPATH": f"{Path.cwd()}:{project}",
    }  # fmt: skip
    with (
        running(place, folder=project, **around) as (address, _),
        running(place, "--users", str(users)) as (people, _),
    ):
        get(people)
        get(address)
        bare = address.partition("/?")[0]
        yield Served(bare, store[1] | {"people": people.rstrip("/"), "token": address.partition("?")[2]})


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browse() as tab:
        yield tab


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_against_wcag_aa(served: Served, page: Page, name: str) -> None:
    """As it comes, and with all that opens opened and all that scrolls scrolled, so that heads of tables stick."""
    served.come(page, name)
    page.resize(1300, 900)
    found = page.violations()
    page.js(OPENED)
    for width, dark in ((1300, False), (1300, True), (420, False), (420, True)):
        page.resize(width, 900, dark=dark)
        found += [f"opened, {width}, {'dark' if dark else 'light'}: {one}" for one in page.violations()]
    assert not found, "\n".join(found)


OPENED: Final = """
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  document.querySelectorAll(".scroll, .tall").forEach((one) => one.scrollTo(60, 60));
  window.scrollTo(0, (document.querySelector("#slices") || document.body).offsetTop + 60);
"""
CONTROLS: Final = """[...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
  .filter((one) => one.tabIndex >= 0 && !one.disabled && one.type !== "hidden" && one.checkVisibility())"""
FOCUSED: Final = """(() => {
  const one = document.activeElement;
  one.dataset.reached = "yes";
  return one === document.body || getComputedStyle(one).outlineStyle !== "none" ? "" : one.outerHTML.slice(0, 120);
})()"""


def send_form(page: Page, form: str, fields: Mapping[str, str]) -> None:
    """Fill in a form and send it by its button; returns when the answer is shown."""
    for name, value in fields.items():
        page.fill(f"{form} [name='{name}']", value)
    follow(page, f"{form} [type=submit]")


def follow(page: Page, selector: str) -> None:
    """Press on what leads to another page; returns when that is shown."""
    page.js("window.left = false")
    page.press(selector)
    page.wait("window.left === undefined && document.readyState === 'complete'")


def press(page: Page, key: str, code: int) -> None:
    page.send("Input.dispatchKeyEvent", type="rawKeyDown", key=key, code=key, windowsVirtualKeyCode=code)
    page.send("Input.dispatchKeyEvent", type="char", key=key, text={"Enter": "\\r"}.get(key, ""))
    page.send("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)


@pytest.mark.parametrize("name", PAGES)
def test_every_control_is_reached_by_tab_and_seen_when_it_is(served: Served, page: Page, name: str) -> None:
    served.come(page, name)
    page.resize(1300, 900)
    page.js("document.activeElement.blur()")
    unseen = set()
    for _ in range(page.js(f"{CONTROLS}.length") + 8):  # the scrolled parts of a page take the focus, too
        press(page, "Tab", 9)
        unseen.add(page.js(FOCUSED))
    assert unseen == {""}
    assert page.js(f"{CONTROLS}.filter((one) => !one.dataset.reached).map((one) => one.outerHTML.slice(0, 120))") == []


@pytest.mark.parametrize("name", ["runs", "a run's report", "a comparison's report"])
def test_the_first_tab_leads_past_the_navigation(served: Served, page: Page, name: str) -> None:
    served.come(page, name)
    press(page, "Tab", 9)
    focused = "document.activeElement"
    assert page.js(f"{focused}.matches('.skip') && {focused}.getBoundingClientRect().left >= 0")
    press(page, "Enter", 13)
    page.wait("location.hash")
    press(page, "Tab", 9)
    assert page.js(f"Boolean({focused}.closest('main'))")


@pytest.mark.parametrize(
    ("page_name", "fields", "leads_to"),
    [
        (
            "comparing",
            {"baseline": "{run}:aldermouth-rag-v1", "candidate": "{run}:gullwing-mini"},
            "aldermouth-rag-v1 → gullwing-mini",
        ),
        ("collecting answers", {"suite": "suite.csv", "models": "python:portapp:answer"}, "Work"),
        ("drawing a sample", {"run": "{run}", "metric": "bleu.bleu_1", "labels": "other"}, "Labels"),
    ],
)
def test_a_form_of_work_starts_it_shows_its_progress_and_leads_to_what_came_of_it(
    served: Served, page: Page, page_name: str, fields: dict[str, str], leads_to: str
) -> None:
    served.come(page, page_name)
    send_form(page, "form.fields", {name: value.format_map(served.names) for name, value in fields.items()})
    page.wait("document.querySelector('main .badge')?.innerText === 'done'", 90)
    assert page.violations() == []
    follow(page, "#live a.btn")
    assert page.text("h1") == leads_to


def test_a_judge_is_asked_again_and_each_reply_stands_beside_the_runs(served: Served, page: Page) -> None:
    counts = []
    for _ in range(2):
        served.come(page, "a case judged again")
        counts.append(page.js("document.querySelectorAll('main article').length"))
    assert counts[1] == counts[0] + 1
    assert page.text("main article h2").startswith("The run's reply")
