"""The summary for a pull request: its sentences, and that it always fits."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from leadline.plugins.ci import change_summary
from leadline.plugins.ci.change_facts import (
    BrokenMetric,
    ChangedAnswer,
    CheckOutcome,
    FixedRows,
    StandingProblem,
    Untold,
    Verdict,
)
from leadline.plugins.ci.change_summary import LARGEST, headline, summarise, worst
from leadline.plugins.ci.tests.test_check_outcome import facts, result
from leadline.tasks.analyse.changes import MetricChange
from leadline.tasks.policy.questions import Question
from leadline.tasks.runs.run_facts import Answer
from leadline.tasks.runs.run_sentences import Spending

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
