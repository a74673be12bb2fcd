"""GPTScore: how likely a language model finds a text after an instruction that names a quality.

``score = -1/N * sum(ln p(t_i | instruction, t_1 … t_(i-1)))`` over the ``N`` tokens of the target, in nats; lower is
better (https://arxiv.org/abs/2302.04166). The tokens are exactly those of the target: none of the instruction, no start
mark and no end mark. A space between instruction and target belongs to the target's first word, as GPT-2's, OPT's and
GPT-J's vocabularies have it. The authors' own code differs in details: it drops the first token of an OPT target, and
counts the end mark of a T5 target as a token.

When instruction and target are longer than the model reads, the instruction stays in front, the rest slides through
the model's window, and the row says that the target was scored after part of the text only.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, NamedTuple

from pydantic import Field

from leadline.evaluators.core import INF, Metric, Params
from leadline.evaluators.core.model_evaluator import ModelEvaluator
from leadline.evaluators.data import Evidence, Flag, Json, Row, RowScore, Severity
from leadline.evaluators.models.catalogue import GPT2_MEDIUM, GPT_SCORE_MODELS
from leadline.evaluators.models.language_models import likelihood
from leadline.evaluators.models.language_models.likelihood import Likelihood, Passage

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext

IN_OTHER_WORDS: Final = " In other words,"


class GptScoreParams(Params):
    """Parameters of all GPTScore evaluators."""

    gpt_score_model: Annotated[
        str,
        Field(
            description="Language model, causal or encoder-decoder: "
            + ", ".join(GPT_SCORE_MODELS)
            + "; or another Hugging Face id, optionally ID@REVISION, or a directory."
        ),
    ] = "gpt2-medium"


class Aspect(NamedTuple):
    """One metric: a quality and the instruction that asks for it.

    Attributes:
        key: Key of the metric.
        name: Name of the metric.
        question: What it measures, as a question to a reader.
        instruction: What stands before the text.
    """

    key: str
    name: str
    question: str
    instruction: str


def metrics_of(aspects: Sequence[Aspect]) -> tuple[Metric, ...]:
    """Return the metrics of some aspects, the first of which is the primary one."""
    return tuple(
        Metric.lower(
            aspect.key, aspect.question, name=aspect.name, range=(0.0, INF), threshold=INF, primary=number == 0
        )
        for number, aspect in enumerate(aspects)
    )


class GptScore(ModelEvaluator[Passage, Likelihood]):
    """An evaluator whose metrics are GPTScores.

    Class attributes:
        aspects: Its metrics with their instructions.
    """

    aspects: ClassVar[tuple[Aspect, ...]]
    parameters: ClassVar[type[Params]] = GptScoreParams
    default_model = GPT2_MEDIUM
    model_parameter = "gpt_score_model"

    @abstractmethod
    def missing(self, row: Row) -> str:
        """Return why a row cannot be measured, or ``""``."""

    @abstractmethod
    def passages(self, row: Row, instruction: str) -> Sequence[Sequence[Passage]]:
        """Return what is scored after an instruction: the average of each group, and of these the best.

        Args:
            row: A row in which nothing is missing.
            instruction: The instruction of one aspect, which asks for its quality.
        """

    def requests(self, row: Row, ctx: EvalContext) -> Sequence[Passage]:
        """Return the passages of all aspects, unless the row cannot be measured."""
        return [] if self.missing(row) else [passage for group in self._groups(row) for passage in group]

    def answers(self, requests: Sequence[Passage], ctx: EvalContext) -> Sequence[Likelihood]:
        """Return how likely each passage is."""
        return likelihood.likelihoods(self.model(ctx), requests, settings=ctx.settings)

    def measure(self, row: Row, results: Sequence[Likelihood], ctx: EvalContext) -> RowScore:
        """Score one row."""
        problem = self.missing(row)
        if problem:
            return self.unscorable(problem)
        if any(each.mean is None for each in results):
            return self.unscorable("A text to be scored has no token.")
        left = iter(results)
        values: dict[str, float] = {}
        shown: dict[str, Json] = {}
        for aspect in self.aspects:
            means = [[next(left).mean or 0.0 for _ in group] for group in self.passages(row, aspect.instruction)]
            averages = [sum(group) / len(group) for group in means]
            best = min(range(len(averages)), key=averages.__getitem__)
            values[aspect.key] = averages[best]
            if len(averages) > 1 or len(means[best]) > 1:
                shown[aspect.key] = {"expected_answer": best, "directions": means[best]}
        cut = [each for each in results if not each.whole]
        flags = (_cut(cut, len(results)),) if cut else ()
        data: dict[str, Json] = {"tokens": sum(each.tokens for each in results), "parts": shown}
        return RowScore(values, Evidence(data=data), flags)

    def _groups(self, row: Row) -> list[Sequence[Passage]]:
        return [group for aspect in self.aspects for group in self.passages(row, aspect.instruction)]


class BothWays(GptScore):
    """Scores the answer after the expected answer and the other way round; the average counts.

    With several expected answers each metric is the best that any of them gives.
    """

    def missing(self, row: Row) -> str:
        """Return which text is blank."""
        if not (row.actual_answer or "").strip():
            return "The answer is blank, so that no token can be scored."
        return "" if _references(row) else "The expected answer is blank."

    def passages(self, row: Row, instruction: str) -> Sequence[Sequence[Passage]]:
        """Return for each expected answer both directions."""
        answer = row.actual_answer or ""
        return [
            (_rewritten(instruction, text, answer), _rewritten(instruction, answer, text)) for text in _references(row)
        ]


def _rewritten(instruction: str, source: str, target: str) -> Passage:
    return Passage(f" {target}", f"{instruction} {source}{IN_OTHER_WORDS}", len(instruction))


def _references(row: Row) -> list[str]:
    return [text for text in row.expected_answers if text.strip()]


def _cut(cut: Sequence[Likelihood], passages: int) -> Flag:
    longest = max(each.length for each in cut)
    return Flag(
        "evaluation",
        Severity.MEDIUM,
        f"{len(cut)} of {passages} texts with instructions are longer (up to {longest} tokens) than the "
        f"{cut[0].limit} that the model reads at once: each target token was scored, but after part of the text.",
    )
