"""BYOP, bring your own prompt: whatever a user asks a judge about each row, answered by one of two words."""

from __future__ import annotations

from functools import cache

from pydantic import Field, field_validator

from leadline.evaluators.core import JudgeKey, Spec, boolean_metrics, register
from leadline.evaluators.data import Json, Row, RowField
from leadline.evaluators.judge.judge_evaluator import Judge, PassFailEvaluator, prompt_beside
from leadline.evaluators.judge.prompting import Prompt, RowPrompt, user_prompt


@cache
def default_prompt() -> str:
    """Return the reference's prompt, which asks whether the language is safe."""
    return prompt_beside(__file__, "byop.txt").read_text(encoding="utf-8")


@cache
def _parsed(text: str) -> RowPrompt:
    return user_prompt("byop", text)


class ByopParams(JudgeKey):
    """Parameters of BYOP."""

    prompt_template: str = Field(
        "",
        max_length=200_000,
        description="The prompt, with at least one of {INPUT}, {EXPECTED_OUTPUT}, {CONTEXT} and {ACTUAL_OUTPUT}; "
        "other braces are text. Empty: the reference's, which asks whether the language is safe.",
    )
    classes: tuple[str, str] = Field(
        ("false", "true"), description="The words by which the judge says that a row fails, and that it passes."
    )

    @field_validator("prompt_template")
    @classmethod
    def _can_be_read(cls, value: str) -> str:
        if value.strip():
            _parsed(value)
        return value

    @field_validator("classes")
    @classmethod
    def _differ(cls, value: tuple[str, str]) -> tuple[str, str]:
        failing, passing = (word.strip() for word in value)
        if not failing or not passing or failing.lower() == passing.lower():
            raise ValueError("they must be two different words")
        return failing, passing

    @property
    def prompt(self) -> RowPrompt:
        """The prompt in use."""
        return _parsed(self.prompt_template if self.prompt_template.strip() else default_prompt())


@register
class Byop(PassFailEvaluator):
    """Asks a judge a user's own question about each row, to be answered by one of two words.

    **Method.** The placeholders of ``prompt_template`` are filled with the row's texts, each fenced as data:
    ``{INPUT}`` the question, ``{EXPECTED_OUTPUT}`` the expected answer, ``{CONTEXT}`` the chunks joined by line feeds,
    ``{ACTUAL_OUTPUT}`` the answer. Only what the prompt names is needed. One of the two ``classes`` (failing, passing;
    "false" and "true" by default) must stand alone in the reply, in any case. The metrics are the shares of rows.

    **Edge cases.**

    * With several expected answers, and a prompt that shows them, a row passes if it does for one of them.
    * A blank text is shown as it is: what it means is up to the prompt.
    * A prompt without a placeholder, or with a misspelt one, is refused before anything is asked. Doubled braces
      around a placeholder do as well; any other brace is text, so that a prompt can show JSON.
    * A reply with neither or both of the words, or with one in a sentence, is asked for again, and then counts as a
      parsing failure: the row neither passes nor fails. (In the reference such a row counts as failed.)
    * Where 20 rows got no reply with one of the words, and none did, no further row is asked about, and the reason
      says what the replies hold. With ``classes`` that name these words, the same replies are read again for free.

    **Source.** H2O Sonar evaluator reference, "Parameterizable BYOP Evaluator", whose default prompt it is.
    """

    spec = Spec(
        id="byop",
        name="Parameterizable BYOP Evaluator",
        origin="h2o",
        inputs=(RowField.QUESTION, RowField.EXPECTED_ANSWER, RowField.RETRIEVED_CONTEXT, RowField.ACTUAL_ANSWER),
        metrics=boolean_metrics(
            ("model_passes", "Model passes"),
            ("model_failures", "Model failures"),
            ("model_retrieval_failures", "Model retrieval failures"),
            ("model_generation_failures", "Model generation failures"),
            ("model_parse_failures", "Model parse failures"),
            what="what the prompt asks",
        ),
        judge="llm",
        leaderboard="bool",
        keywords=("judge", "custom", "prompt"),
        source="H2O Sonar evaluator reference: Parameterizable BYOP Evaluator",
    )
    parameters = ByopParams
    params: ByopParams

    @property
    def required(self) -> tuple[RowField, ...]:
        """The fields that the prompt names."""
        return self.params.prompt.fields

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The fields that the prompt names."""
        return self.params.prompt.fields

    def all_prompts(self) -> dict[str, Prompt]:
        """Return the user's prompt."""
        return {"verdict": self.params.prompt.prompt}

    async def fails(self, row: Row, judge: Judge) -> tuple[bool, Json]:
        """Ask about one row; with several expected answers one after the other until one passes."""
        prompt = self.params.prompt
        shown = dict.fromkeys(row.expected_answers) if RowField.EXPECTED_ANSWER in prompt.fields else {}
        word = ""
        for expected in shown or [""]:
            word = await judge.choose("verdict", self.params.classes, **prompt.texts(row, expected))
            if word == self.params.classes[1]:
                return False, word
        return True, word
