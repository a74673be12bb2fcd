"""What a scripted judge is asked by the evaluators by RAGAS, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from leadline.evaluators.data import ContextChunk, Row, RowScore
from tests.support.judges.agreeable_judge import tools_with
from tests.support.judges.judged import ScriptedJudge, judged

STATEMENTS = "Take the following text apart"
FAITHFULNESS = "judge the faithfulness"
RECALL = "sentences of the answer and classify"
PRECISION = "useful in arriving at the given answer"
RELEVANT = "are from a context"
QUESTIONS = "different questions to which"
CORRECTNESS = "An answer is compared with a ground truth"

ROW = Row(
    case="c",
    model="m",
    question="the question",
    expected_answers=("First truth. Second truth.",),
    retrieved_context=(ContextChunk("One. Two."), ContextChunk("Three."), ContextChunk("Four. Five.")),
    actual_answer="The pump starts. It stops.",
)
SAID = {"statements": ["The pump starts.", "The pump stops."]}
TABLE = {
    "the question": (1.0, 0.0),
    "near": (1.0, 0.0),
    "aslant": (0.6, 0.8),
    "across": (0.0, 1.0),
    "away": (-1.0, 0.0),
}


def verdicts(*words: str) -> Mapping[str, Any]:
    return {"verdicts": [{"reason": f"because {word}", "verdict": word} for word in words]}


def questions(*texts: str, noncommittal: bool = False) -> Mapping[str, Any]:
    return {"noncommittal": noncommittal, "questions": list(texts)}


FOUR = {
    STATEMENTS: SAID,
    FAITHFULNESS: verdicts("yes", "no"),
    RECALL: verdicts("yes", "no"),
    PRECISION: verdicts("yes", "no", "yes"),
    QUESTIONS: questions("near", "near", "aslant"),
}


def score(evaluator: str, script: Mapping[str, Any], row: Row = ROW, **params: Any) -> tuple[RowScore, ScriptedJudge]:
    judge = ScriptedJudge(script)
    (result,) = judged(evaluator, judge, row, ctx=tools_with(judge, TABLE), **params)
    return result, judge


def changed(**fields: Any) -> Row:
    return replace(ROW, **fields)
