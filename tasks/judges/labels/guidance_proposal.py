"""Guidance that a model proposes from rows on which a judge and people differ.

It is shown rows of the training half alone, and names the rows that become examples by number: what an example says is
copied from the row and its labels, never from the reply.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from leadline.evaluators.data import RowField
from leadline.evaluators.ground import ErrorCode, UsageError, count
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator, prompt_beside
from leadline.evaluators.judge.prompting import prompt
from leadline.evaluators.judge_client.budget import Limits, cost
from leadline.evaluators.judge_client.calls import JudgeUnparseable
from leadline.evaluators.judge_client.client import CHARACTERS_PER_TOKEN
from leadline.evaluators.judge_client.event_loop import run as run_in_loop
from leadline.evaluators.settings import Guidance, GuidanceExample, JudgeConfig
from leadline.tasks.db import attach_dataset, connect
from leadline.tasks.judges.labels.judging import JudgedLabels, Judging
from leadline.tasks.judges.labels.labelled_rows import LabelledRow, texts_of
from leadline.tasks.load.label import TIE
from leadline.tasks.score.chunk import scoring_context
from leadline.tasks.store.store import Store

PURPOSE: Final = "improve"
"""The purpose of the call, as the ledger records it."""

MOST_DIFFERING: Final = 16
"""Rows on which judge and people differ that a model is shown."""
MOST_AGREED: Final = 8
"""Rows on which they agree that it is shown besides, lest it learn one side only."""
MOST_EXAMPLES: Final = 4
MOST_INSTRUCTIONS: Final = 2_000
"""Characters of the instructions that it proposes."""
MOST_TEXT: Final = 2_000
"""Characters of one text of a row; longer ones are shown shortened."""
MOST_EXAMPLE: Final = 2_000
"""Characters of all texts of a row beyond which it is no example: the judge is sent them with every call."""
_REPLY_TOKENS: Final = 600
_NAME: Final = "propose_guidance"


class ProposedGuidance(BaseModel):
    """The model's reply."""

    model_config = ConfigDict(json_schema_extra={"description": "Instructions and examples for a judge."})

    instructions: str = Field(description="How people judge, for a judge to follow.")
    examples: list[int] = Field(description="Numbers of the rows that show it best.")


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row of the training half as the model is shown it.

    Attributes:
        people: What people say: ``good``, ``bad`` or a number.
        judge: The same of the judge.
        texts: What the evaluator reads of it, by the names of an example's fields.
    """

    people: str
    judge: str
    texts: dict[str, str]
    notes: str

    @property
    def is_whole(self) -> bool:
        """True if it can be an example as it is."""
        return 0 < sum(map(len, self.texts.values())) <= MOST_EXAMPLE

    @property
    def shortened(self) -> dict[str, str]:
        """The texts, cut off where they are too long."""
        return {name: text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…" for name, text in self.texts.items()}

    def example(self) -> GuidanceExample:
        """Return it as an example."""
        return GuidanceExample(verdict=self.people, note=self.notes, **self.texts)


@dataclass(frozen=True, slots=True)
class Lesson:
    """Rows that a proposal is made from.

    Attributes:
        rows: The rows that are shown, those that differ first.
        differing: Rows of the training half on which judge and people differ, shown or not.
        compared: Rows of it on which both said something.
    """

    rows: tuple[ShownRow, ...]
    differing: int
    compared: int


def lesson_of(store: Store, judged: JudgedLabels) -> Lesson:
    """Return the rows that teach: those on which the judge is farthest from people, and some on which it is not.

    Raises:
        UsageError: The judge differs from people nowhere.
    """
    metric, rows = judged.judging.metric, judged.labelled.rows
    labels = judged.labelled.values(binary=metric.is_binary)
    values = metric.votes(judged.values()) if metric.is_binary else judged.values()
    apart = np.abs(labels - values)
    told = ~np.isnan(apart) & ((labels != TIE) | (not metric.is_binary))
    places = [int(place) for place in np.flatnonzero(told)]
    differing = sorted((place for place in places if apart[place] > 0), key=lambda place: (-apart[place], place))
    if not differing:
        raise UsageError(
            f"The judge agrees with people on all {count(len(places), 'row')} to learn from: they teach nothing.",
            hint="Label more rows: leadline labels sample",
            code=ErrorCode.LABEL_SET,
        )
    agreed = [place for place in places if apart[place] == 0]
    chosen = [*_of_each_side(differing, labels, MOST_DIFFERING), *_of_each_side(agreed, labels, MOST_AGREED)]
    texts = texts_of_rows(store, judged.judging, [rows[place] for place in chosen])
    shown = (
        ShownRow(
            people=_said(labels[place], binary=metric.is_binary),
            judge=_said(values[place], binary=metric.is_binary),
            texts=texts[rows[place].key],
            notes="\n".join(dict.fromkeys(label.note for label in rows[place].labels if label.note))[:2_000],
        )
        for place in chosen
    )
    return Lesson(tuple(shown), len(differing), len(places))


def _of_each_side(places: Sequence[int], labels: Any, most: int) -> list[int]:
    """Return at most so many places in their order, of the rarer label as many as of the other where there are."""
    sides: defaultdict[float, list[int]] = defaultdict(list)
    for place in places:
        sides[float(labels[place])].append(place)
    ranked = [(rank, place) for side in sides.values() for rank, place in enumerate(side)]
    kept = {place for _, place in sorted(ranked)[:most]}
    return [place for place in places if place in kept]


def _said(value: float, *, binary: bool) -> str:
    return ("good" if value == 1 else "bad") if binary else f"{value:g}"


def texts_of_rows(store: Store, judging: Judging, rows: Sequence[LabelledRow]) -> dict[str, dict[str, str]]:
    """Return what the evaluator reads of rows, by their keys and the names of an example's fields."""
    by_dataset: defaultdict[str, list[LabelledRow]] = defaultdict(list)
    for row in rows:
        by_dataset[row.dataset].append(row)
    found: dict[str, dict[str, str]] = {}
    for dataset, own in by_dataset.items():
        with connect() as connection:
            attach_dataset(connection, store.dataset(dataset))
            texts = texts_of(connection, [row.row_id for row in own])
        found |= {row.key: _read_texts(judging, texts[row.row_id]) for row in own}
    return found


def _read_texts(judging: Judging, seen: dict[str, Any]) -> dict[str, str]:
    parts = {
        "question": (RowField.QUESTION, seen["question"]),
        "context": (RowField.RETRIEVED_CONTEXT, "\n\n".join(seen["contexts"])),
        "expected": (RowField.EXPECTED_ANSWER, "\n".join(seen["expected"])),
        "answer": (RowField.ACTUAL_ANSWER, seen["answer"]),
    }
    return {name: text for name, (field, text) in parts.items() if text and field in judging.evaluator.reads}


def propose(
    store: Store, judging: Judging, proposer: JudgeConfig, lesson: Lesson, *, limits: Limits, occasion: str
) -> Guidance:
    """Return the guidance that a model proposes for a judge; the same rows get the same reply from the ledger.

    Args:
        occasion: The name under which the call is put on record.

    Raises:
        JudgeError: The model gives no usable reply, or may not be asked.
    """

    def usable(reply: ProposedGuidance) -> None:
        if not 0 < len(reply.instructions.strip()) <= MOST_INSTRUCTIONS:
            raise JudgeUnparseable(f"The instructions must have 1 to {MOST_INSTRUCTIONS} characters.")
        if any(not 1 <= each <= len(lesson.rows) for each in reply.examples):
            raise JudgeUnparseable(f"The examples must be numbers from 1 to {len(lesson.rows)}.")

    ctx = scoring_context(store, replace(judging.settings, judges=(proposer,)), occasion, limits)
    judge = Judge(ctx.judge_client(), PURPOSE, {_NAME: prompt(prompt_beside(__file__, f"{_NAME}.jinja"))})
    evaluator, asking = judging.job.evaluator, judging.evaluator
    present = judging.settings.judges[0].guidance_for(evaluator)
    reply = run_in_loop(
        judge.ask(
            _NAME,
            ProposedGuidance,
            check=usable,
            metric=judging.metric,
            criterion=asking.criterion() if isinstance(asking, JudgeEvaluator) else [],
            present=present.instructions if present else "",
            rows=lesson.rows,
            most_examples=MOST_EXAMPLES,
            most_instructions=MOST_INSTRUCTIONS,
        )
    )
    named = [lesson.rows[each - 1] for each in dict.fromkeys(reply.examples)]
    examples = tuple(row.example() for row in named if row.is_whole)[:MOST_EXAMPLES]
    return Guidance(evaluator=evaluator, instructions=reply.instructions.strip(), examples=examples)


def longest_guidance(evaluator: str, rows: Sequence[dict[str, str]]) -> Guidance:
    """Return guidance of about the greatest length that a proposal from rows can have, for the price of following it.

    Args:
        rows: Texts of rows, by the names of an example's fields.
    """
    lengths = sorted(sum(map(len, texts.values())) for texts in rows)
    fitting = [length for length in lengths if length <= MOST_EXAMPLE][-MOST_EXAMPLES:]
    examples = tuple(GuidanceExample(verdict="good", answer="x" * length) for length in fitting)
    return Guidance(evaluator=evaluator, instructions="x" * MOST_INSTRUCTIONS, examples=examples)


def price_of_proposal(proposer: JudgeConfig, rows: Sequence[dict[str, str]]) -> float | None:
    """Return about the price of a proposal in USD, ``None`` where the model's is unknown.

    Args:
        rows: Texts of rows, by the names of an example's fields.
    """
    lengths = sorted((sum(min(len(text), MOST_TEXT) for text in texts.values()) for texts in rows), reverse=True)
    shown = sum(lengths[: MOST_DIFFERING + MOST_AGREED])
    return cost(proposer, int(1_000 + shown / CHARACTERS_PER_TOKEN), _REPLY_TOKENS)
