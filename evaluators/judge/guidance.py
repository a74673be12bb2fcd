"""Guidance: instructions and examples, learned from people's labels, that an evaluator's prompts have besides.

It stands in ``leadline.toml`` with the judge, is part of the score's key, and follows the system message::

    [judges.small.guidance.faithfulness]
    instructions = "A figure that was rounded is faithful."

An example shows what the evaluator reads of its case. Whoever judges that case is not shown it: a verdict that repeats
the example says nothing of the judge.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from leadline.evaluators.data import Json, Row, RowField
from leadline.evaluators.judge.prompting import prompt
from leadline.evaluators.judge_client.client import identity_of
from leadline.evaluators.settings import Guidance, GuidanceExample, JudgeConfig, Settings, members_of
from leadline.evaluators.text.sentences import without_surrogates

_TEMPLATE: Final = Path(__file__).with_name("guidance.jinja")


def guidance_identity(judge: JudgeConfig, evaluator: str, settings: Settings) -> dict[str, Json]:
    """Return what of a judge's guidance belongs into score keys; nothing where there is none.

    Args:
        settings: The run's settings, for the number format of a local judge.
    """
    found = [(member, member.guidance_for(evaluator)) for member in members_of(judge)]
    guided: list[Json] = [
        {
            "judge": identity_of(member, settings),
            "template": prompt(_TEMPLATE).digest,
            **guidance.model_dump(mode="json", exclude={"evaluator"}),
        }
        for member, guidance in found
        if guidance is not None
    ]
    return {"guidance": sorted(guided, key=str)} if guided else {}


def without_case(guidance: Guidance, row: Row, reads: Collection[RowField]) -> Guidance:
    """Return guidance without the examples of a row's own case, told by what the evaluator reads of it.

    Args:
        reads: The fields that the row's score depends on.
    """

    def own(example: GuidanceExample) -> bool:
        if example.question and RowField.QUESTION in reads:
            return example.question == row.question
        return bool(example.answer) and RowField.ACTUAL_ANSWER in reads and example.answer == row.actual_answer

    kept = tuple(each for each in guidance.examples if not own(each))
    return guidance.model_copy(update={"examples": kept})


def guided(messages: tuple[Mapping[str, str], ...], guidance: Guidance, fence: str) -> tuple[dict[str, str], ...]:
    """Return a prompt's messages with guidance after the system message.

    Args:
        fence: The mark around texts that the messages were made with.
    """
    text = prompt(_TEMPLATE).template.render(guidance=guidance, examples=guidance.examples, fence=fence)
    system, *others = messages
    content = without_surrogates(f"{system['content']}\n\n{text.rstrip()}")
    return ({"role": "system", "content": content}, *map(dict, others))
