"""The workbench and the reports for everybody: WCAG's AA in both themes, wide and narrow, and by keyboard alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
import pytest

from leadline import evaluate
from leadline.evaluators.judge_client.calls import Reply
from leadline.plugins.ui.site import PersonRole
from leadline.plugins.ui.tests.test_labels import drawn, row_of, send, somebody
from leadline.plugins.ui.tests.test_trends import nights, wobble
from leadline.plugins.ui.tests.test_ui_command import get, running
from leadline.plugins.ui.users import add_user
from leadline.tasks.compare import compare
from leadline.tasks.ledger.ledger import open_ledger
from leadline.tasks.store.store import Store
from tests.support.judges.scripted_judge import question
from tests.support.processes.browser import Page, browse

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
    "calls": "/runs/{first}/calls?case=c1&model=alpha",
    "a call": "/calls/{call}",
    "labels": "/labels",
    "drawing a sample": "/labels/draw",
    "a queue": "/labels/labels/queue?metric=bleu.bleu_1",
    "what people differ about": "/labels/labels/disagreements?metric=bleu.bleu_1",
    "trends": "/trends?dataset=sample",
    "trends of runs": "/trends?dataset=sample&of=run.coverage",
    "costs": "/costs?days=all",
    "work": "/work",
    "a run made again": "/work?run={run}",
    "nothing": "/nothing",
}


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


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, dict[str, str]]:
    """A store in which every page has something to show, and what stands in the addresses of its pages."""
    store = Store.open(tmp_path_factory.mktemp("pages") / "store")
    nightly = nights(
        store, [value - 0.2 * (number >= 14) for number, value in enumerate(wobble(20))], judge="judge-a",
        tags={"production": "x"}, judge_calls={"answered": 4, "unknown_price": 0, "cost_usd": 0.25},
    )  # fmt: skip
    place = str(store.root)
    harbour = orjson.loads((EXAMPLES / "harbour.json").read_bytes())
    keys = {case["key"] for case in harbour["cases"][:12]}
    few = {"cases": harbour["cases"][:12], "answers": [one for one in harbour["answers"] if one["case"] in keys]}
    (store.root / "few.json").write_bytes(orjson.dumps(harbour | few))  # axe takes seconds for thousands of elements
    made = evaluate(store.root / "few.json", evaluators=["bleu", "pii_leakage"], store=place).run
    talks = evaluate(EXAMPLES / "harbour_agent.jsonl", evaluators=["tool_call_f1", "tool_errors"], store=place).run
    compared = compare(store, f"{made}:aldermouth-rag-v1", f"{made}:gullwing-mini")
    drawn(store, run=made, metric="bleu.bleu_1")
    row = row_of(somebody(store, "anna").get("/labels/labels/queue?metric=bleu.bleu_1").text)
    for person, value in (("anna", "1"), ("ben", "0")):
        form = {"metric": "bleu.bleu_1", "row": row, "value": value}
        assert send(somebody(store, person), "/labels/labels/label", **form).status_code == 303
    call = question("> A1", purpose="faithfulness:verdicts")

    async def judged() -> None:
        ledger = open_ledger(store, nightly[0].id)
        await ledger.intend(call)
        await ledger.answered(call, Reply("yes"))

    asyncio.run(judged())
    return store, {
        "run": made, "talks": talks, "first": nightly[0].id, "compared": compared.id, "call": call.digest
    }  # fmt: skip


@pytest.fixture(scope="module")
def served(store: tuple[Store, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    users = tmp_path_factory.mktemp("users") / "people.toml"
    add_user(users, "anna", PersonRole.EDITOR, "a long password")
    with running(store[0].root) as (address, _), running(store[0].root, "--users", str(users)) as (people, _):
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
    served.come(page, name)
    found = []
    for width, dark in ((1300, False), (1300, True), (420, False), (420, True)):
        page.resize(width, 900, dark=dark)
        found += [f"{width}, {'dark' if dark else 'light'}: {one}" for one in page.violations()]
    assert not found, "\n".join(found)


CONTROLS: Final = """[...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
  .filter((one) => one.tabIndex >= 0 && !one.disabled && one.type !== "hidden" && one.checkVisibility())"""
FOCUSED: Final = """(() => {
  const one = document.activeElement;
  one.dataset.reached = "yes";
  return one === document.body || getComputedStyle(one).outlineStyle !== "none" ? "" : one.outerHTML.slice(0, 120);
})()"""


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
