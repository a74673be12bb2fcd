"""The outcome of a check, and the summary for a pull request: it fits, and hostile texts do nothing on a forge."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from leadline.flows.evaluate.config import EvaluateResult
from leadline.plugins.ci import change_summary
from leadline.plugins.ci.change_facts import (
    BrokenMetric,
    ChangedAnswer,
    ChangeFacts,
    CheckOutcome,
    FixedRows,
    StandingProblem,
    Untold,
    Verdict,
    decide,
    exit_code,
)
from leadline.plugins.ci.change_summary import LARGEST, block, code, headline, sentence, summarise, worst
from leadline.plugins.ci.config import CheckConfig
from leadline.tasks.analyse.changes import MetricChange
from leadline.tasks.ground.timeline import RunTime
from leadline.tasks.policy.questions import Question
from leadline.tasks.runs.run_facts import Answer
from leadline.tasks.runs.run_sentences import Spending

NOTHING = ChangeFacts(
    n_cases=4, n_rows=4, models=("bot",), compared=True, note="", notes=(), worse={}, broken=(), n_broken=0, fixed=(),
    n_fixed=0, n_rejudged=0, metrics=(), untold=(), unmeasured=(), problems=(), regressions=(), calls=(),
)  # fmt: skip


def facts(**changes: Any) -> ChangeFacts:
    return replace(NOTHING, **changes)


def result(gate: str = "fail", scored: int = 4) -> EvaluateResult:
    return EvaluateResult.model_validate(
        {
            "run": "r", "folder": Path(), "report": Path("report.html"), "gate": gate, "gate_reason": "Because.",
            "problems": {}, "problems_by_fault": {}, "scored": scored, "unscored": 0, "not_applicable": 0, "reused": 0,
            "computed": 4, "time": RunTime(1.0, {}, {}),
        }
    )  # fmt: skip


def config(**settings: Any) -> CheckConfig:
    return CheckConfig.model_validate({"dataset": "d.csv"} | settings)


LONG = "Ω`@x" * 500
MOVED = MetricChange(
    1, 1, "bleu.bleu_4", "BLEU", "should", 1.0, False, "fail", "worse", "", 0.5, 0.2, -0.3, -0.4, -0.2, 4, 0, 3, 0
)
FOUND = facts(
    metrics=(("bot", MOVED),),
    worse={"bot": "Worse by 30 points."},
    notes=("New cases: 2.",),
    broken=(BrokenMetric("BLEU", "bot", 3, ChangedAnswer("c1", "Q?", "before", "after", "why"), ("c2", "c3")),),
    n_broken=3,
    fixed=(FixedRows("bot", 1, ("c4",)),),
    n_fixed=1,
    n_rejudged=2,
    untold=(Untold("ROUGE", "bot", "Too few cases (4; at least 73 needed)."),),
    unmeasured=("Fluency could not score 2 (timeout)",),
    problems=(StandingProblem("high", "bot leaks", 2),),
    calls=(Spending("", 10, 9, 1, 0, 0, None, None, "$0.12 and 2 calls of unknown price"),),
)
JUDGED = result().model_copy(update={"judge_calls": 9, "judge_cost_usd": 0.12, "judge_unknown_price": 2})
FAILED = CheckOutcome("", "d.csv", "fail", "Because.", "Compared with run r0 of the branch main.", 1, JUDGED, FOUND)


def summary(*outcomes: CheckOutcome, link: str = "") -> str:
    return summarise(outcomes, title="Leadline", where="the job's artifacts", link=link)


def test_it_says_all_that_a_reviewer_wants() -> None:
    text = summary(replace(FAILED, report="https://ui.example/runs/r/report.html", tag="branch.main"))
    for said in (
        "### ✗ Leadline: the check fails",
        "**Fail.** Because. Compared with run r0 of the branch main.",
        "**`bot` is worse by more than is tolerated.** Worse by 30 points.",
        "**BLEU** of `bot`: 3 answers, for example `c1`; also `c2`, `c3`.",
        "- `bot`: `c4`",
        "| BLEU | `bot` | 0.500 → 0.200 | worse | ✗ fail |",
        "2 answers are the same and were judged differently",
        "- ROUGE of `bot`: Too few cases (4; at least 73 needed).",
        "- Fluency could not score 2 (timeout)",
        "- high: bot leaks",
        "9 judge calls, $0.12 and 2 calls of unknown price, 1 call failed; 0 row scores reused, 4 computed, in 1.0 s.",
        "[Report](https://ui.example/runs/r/report.html), run `r`, tagged `branch.main`.",
        "All results are in the job's artifacts.",
    ):
        assert said in text, said
    assert "\n\n\n" not in text


@pytest.mark.parametrize("detail", change_summary.DETAILS, ids=lambda detail: f"{detail.text}-{detail.names}")
def test_paragraphs_stand_one_blank_line_apart(monkeypatch: pytest.MonkeyPatch, detail: change_summary.Detail) -> None:
    monkeypatch.setattr(change_summary, "DETAILS", (detail,))
    many = replace(FOUND, **{name: getattr(FOUND, name) * 20 for name in ("broken", "fixed", "untold", "problems")})
    for found in (FOUND, many, replace(FOUND, broken=(), n_broken=0), replace(FOUND, fixed=(), n_fixed=0), facts()):
        for outcomes in ([replace(FAILED, facts=found)], [replace(FAILED, name=name, facts=found) for name in "ab"]):
            text = summary(*outcomes, link="https://forge.example/job")
            assert "\n\n\n" not in text
            for line in re.finditer(r"^(####|<details>|\*\*|\[)", text, re.MULTILINE):
                assert text[: line.start()].endswith("\n\n"), text[line.start() :][:80]


def test_the_questions_take_the_place_of_the_reason_that_they_give() -> None:
    asked = (
        Answer(Question.RIGHT, True, "fail", "3 of 4 answers look wrong."),
        Answer(Question.FORM, False, "not looked at", "No form was asked for.", "-e format"),
    )
    decided = replace(FAILED, result=result().model_copy(update={"questions": asked}))
    text = summary(decided)
    assert "**Fail.** Compared with run r0 of the branch main." in text
    assert "| Are the answers right? | FAIL | 3 of 4 answers look wrong. |" in text
    assert "| not looked at | No form was asked for. To decide it: `-e format` |" in text
    assert "\n\n\n" not in text
    assert "**Fail.** Because of the changes." in summary(replace(decided, reason="Because of the changes."))


def test_a_check_that_changed_nothing_says_so() -> None:
    text = summary(replace(FAILED, verdict="pass", facts=facts()))
    assert "No answer is newly broken, and none newly fixed." in text


def test_a_comparison_that_could_not_be_made_is_said() -> None:
    text = summary(replace(FAILED, facts=facts(compared=False, note="not compared with run r0: no model in common")))
    assert "Nothing was compared: not compared with run r0: no model in common." in text
    assert "newly broken" not in text


def test_a_check_without_a_result_has_its_error_alone() -> None:
    text = summary(CheckOutcome("", "d.csv", "error", "[LL-DATA-01] The dataset was refused.", exit_code=2))
    assert "**Error.** \\[LL-DATA-01\\] The dataset was refused." in text
    assert "Cost" not in text


@pytest.mark.parametrize("checks", [1, 60])
def test_it_always_fits_into_a_comment(checks: int) -> None:
    answer = ChangedAnswer(LONG, LONG, LONG, LONG, LONG)
    many = facts(
        broken=tuple(BrokenMetric(LONG, LONG, 99, answer, (LONG,) * 50) for _ in range(30)),
        n_broken=99,
        fixed=(FixedRows(LONG, 99, (LONG,) * 50),) * 30,
        n_fixed=99,
        untold=(Untold(LONG, LONG, LONG),) * 30,
        unmeasured=(LONG,) * 30,
        problems=(StandingProblem("high", LONG, 9),) * 30,
    )
    outcomes = [replace(FAILED, name=f"check{n}" if checks > 1 else "", facts=many) for n in range(checks)]
    text = summary(*outcomes)
    assert len(text.encode()) <= LARGEST
    assert text.startswith("### ✗ Leadline: ")
    assert text.count("<details>") == text.count("</details>")


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        (("pass", "pass"), "all 2 checks pass"),
        (("pass", "fail", "inconclusive"), "1 of 3 checks fail; of 1 of 3 checks it cannot be told whether they pass"),
        (("inconclusive",), "it cannot be told whether the check passes"),
    ],
)
def test_the_heading_names_all_verdicts(verdicts: tuple[Verdict, ...], words: str) -> None:
    outcomes = [replace(FAILED, verdict=verdict) for verdict in verdicts]
    assert headline(outcomes) == words
    assert worst(outcomes) in verdicts


HOSTILE = (
    "@harbour/all please look",
    "see https://evil.example/x?y=1 or www.evil.example",
    "mail a@evil.example",
    "fixes #12, !34, ~bug, %5, &6, GH-12, $3",
    "/close",
    "<img src=x onerror=alert(1)> <!-- leadline-ci --> </details>",
    "[click](https://evil.example) ![x](https://evil.example/pixel.png) <https://evil.example>",
    "| a | b |\n| --- | --- |\n| 1 | 2 |",
    "```\nout of the block\n```",
    "`` ` ```` `",
    "\n/assign @me\n\n# Heading\n> quote\n- item",
    "right\u202eto left \x1b[31m red \x00",
    "$$x$$ :smile: *bold* __under__ ~~gone~~ \\",
    "",
)
SIGNS = st.text(st.sampled_from("`@#!~%&$<>[]()|*_\\/:.-+=\n\r \tahtpsw1{}\"'\u202e\x1b"), max_size=60)
ACTING = re.compile(
    r"(?<![\w`])@[A-Za-z0-9]|[#!~%&]\w|https?://|www\.\w|\w@\w+\.\w|\bGH-\d|\$\S.*\$|^/\w", re.MULTILINE
)
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def tokens(source: str) -> list[Token]:
    flat: list[Token] = []
    for token in MARKDOWN.parse(source):
        flat += [token, *(token.children or [])]
    return flat


def seen(source: str) -> str:
    """Return the text that Markdown leaves outside of code, which a forge looks through for names and links."""
    return "".join(token.content for token in tokens(source) if token.type == "text")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_sentence_calls_nobody_and_links_to_nothing(text: str) -> None:
    source = f"It says {sentence(text)}"
    kinds = {token.type for token in tokens(source)}
    assert kinds <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special"}
    shown = "".join(token.content for token in tokens(source) if token.type in ("text", "text_special"))
    assert not ACTING.search(shown), shown
    assert "\n" not in source


@pytest.mark.parametrize("text", HOSTILE)
def test_code_stays_code_in_a_line_and_in_a_table(text: str) -> None:
    source = f"| a | b |\n| --- | --- |\n| {code(text)} | end |"
    kinds = [token.type for token in tokens(source)]
    assert kinds.count("td_open") == 2
    assert kinds.count("code_inline") == 1
    assert not {"link_open", "image", "html_inline"} & set(kinds)
    assert seen(source) == "abend"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_block_holds_all_of_its_text(text: str) -> None:
    source = f"<details>\n\n{block(text)}\n\n</details>\n\nafter"
    kinds = [token.type for token in MARKDOWN.parse(source)]
    assert kinds == ["html_block", "fence", "html_block", "paragraph_open", "inline", "paragraph_close"]


@given(text=SIGNS)
def test_no_text_gets_out(text: str) -> None:
    said = f"It says {sentence(text)} and {code(text)} so"
    kinds = {token.type for token in tokens(said)}
    assert kinds <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special", "code_inline"}
    shown = "".join(token.content for token in tokens(said) if token.type in ("text", "text_special"))
    assert not ACTING.search(shown), shown
    assert [token.type for token in MARKDOWN.parse(block(text))] == ["fence"]


def test_a_secret_of_this_process_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARBOUR_API_KEY", "quay-secret-0815")
    for show in (sentence, code, block):
        assert "quay-secret-0815" not in show("the key is quay-secret-0815")


def test_texts_are_cut() -> None:
    assert len(code("x" * 999)) <= 122
    assert "399 more characters" in block("x" * 999)
    assert len(sentence("x" * 9999)) < 700


@pytest.mark.parametrize("gate", ["pass", "fail", "inconclusive"])
def test_the_gate_decides(gate: str) -> None:
    assert decide(config(), result(gate), facts(regressions=("high",))) == (gate, "Because.")


@pytest.mark.parametrize(
    ("fail_on", "changes", "scored", "verdict"),
    [
        ("high", {"regressions": ("high",), "worse": {"bot": "Worse."}}, 4, "fail"),
        ("high", {"regressions": ("medium",)}, 4, "pass"),
        ("medium", {"regressions": ("medium",)}, 4, "fail"),
        ("high", {}, 4, "pass"),
        ("high", {"compared": False}, 4, "pass"),
        ("high", {"compared": False, "note": "not compared with run r: no model in common"}, 4, "inconclusive"),
        ("high", {}, 0, "inconclusive"),
    ],
    ids=["worse", "medium", "fail on medium", "nothing", "no base", "no comparison", "nothing scored"],
)
def test_only_what_is_worse_can_fail_where_that_was_asked(
    fail_on: str, changes: dict[str, Any], scored: int, verdict: str
) -> None:
    asked = config(only_changes=True, fail_on=fail_on)
    assert decide(asked, result(scored=scored), facts(**changes))[0] == verdict


@pytest.mark.parametrize(
    ("settings", "codes"),
    [({}, (0, 1, 1)), ({"inconclusive": "pass"}, (0, 1, 0)), ({"fail_on": "never"}, (0, 0, 0))],
    ids=["as it is", "inconclusive passes", "never"],
)
def test_the_job_leaves_with_what_the_settings_say(settings: dict[str, Any], codes: tuple[int, ...]) -> None:
    assert tuple(exit_code(config(**settings), verdict) for verdict in ("pass", "fail", "inconclusive")) == codes
