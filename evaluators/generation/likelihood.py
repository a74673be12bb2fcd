"""Likelihood of a text by a language model: perplexity, and GPTScore after an instruction that names a quality.

``GPTScore = -1/N * sum(ln p(t_i | instruction, t_1 … t_(i-1)))`` over the ``N`` tokens of the target, in nats; lower is
better (https://arxiv.org/abs/2302.04166). The tokens are exactly those of the target: none of the instruction, no start
mark and no end mark. A space between instruction and target belongs to the target's first word, as GPT-2's, OPT's and
GPT-J's vocabularies have it. The authors' own code differs in details: it drops the first token of an OPT target, and
counts the end mark of a T5 target as a token.

When instruction and target are longer than the model reads, the instruction stays in front, the rest slides through
the model's window, and the row says that the target was scored after part of the text only.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import Field

from leadline.evaluators.core import INF, Metric, Params, Spec, one_metric, register
from leadline.evaluators.core.model_evaluator import ModelEvaluator
from leadline.evaluators.data import Evidence, Flag, Json, Row, RowField, RowScore, Severity
from leadline.evaluators.models import inference
from leadline.evaluators.models.catalogue import DISTILGPT2, GPT2_MEDIUM, GPT_SCORE_MODELS
from leadline.evaluators.models.results import Likelihood, Passage

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext

IN_OTHER_WORDS: Final = " In other words,"


class GptScoreParams(Params):
    """Parameters of all GPTScore evaluators."""

    gpt_score_model: str = Field(
        "gpt2-medium",
        description="Language model, causal or encoder-decoder: "
        + ", ".join(GPT_SCORE_MODELS)
        + "; or another Hugging Face id, optionally ID@REVISION, or a directory.",
    )


QUESTIONS: Final = {
    "accuracy": "Are there inaccuracies, missing, or unfactual content in the answer?",
    "coherence": "How much does the answer make sense?",
    "consistency": "Is the answer consistent in the information it provides?",
    "correctness": "Is the answer correct or was there a misunderstanding of the source text?",
    "engagement": "Is the answer engaging?",
    "factuality": "Does the answer preserve the factual statements of the source text?",
    "fluency": "Is the answer well-written and grammatical?",
    "informativeness": "How well does the answer capture the key ideas of its source text?",
    "interest": "Is the answer interesting?",
    "multidimensional_quality_metrics": "How is the overall quality of the answer?",
    "relevance": "How well is the answer relevant to its source text?",
    "semantic_coverage": "How many semantic content units from the reference text are covered by the answer?",
    "semantically_appropriate": "Is the answer semantically appropriate?",
    "specific": "Is the answer generic or specific to the source text?",
    "understandability": "Is the answer understandable?",
}
"""Qualities that GPTScore measures, by the keys of their metrics, as questions to a reader."""


def gptscore_metrics(qualities: Iterable[str]) -> tuple[Metric, ...]:
    """Return the metrics of some :data:`QUESTIONS`, the first of which is the primary one."""
    return tuple(
        Metric.lower(
            key,
            QUESTIONS[key],
            name=key.replace("_", " ").title(),
            range=(0.0, INF),
            threshold=INF,
            primary=number == 0,
        )
        for number, key in enumerate(qualities)
    )


class GptScore(ModelEvaluator[Passage, Likelihood]):
    """An evaluator whose metrics are GPTScores.

    Class attributes:
        instructions: What stands before the text, by the metric that it asks for.
    """

    instructions: ClassVar[Mapping[str, str]]
    parameters: ClassVar[type[Params]] = GptScoreParams
    default_model = GPT2_MEDIUM
    model_parameter = "gpt_score_model"

    @abstractmethod
    def missing(self, row: Row) -> str:
        """Return why a row cannot be measured, or ``""``."""

    @abstractmethod
    def passages(self, row: Row, instruction: str) -> Sequence[Sequence[Passage]]:
        """Return what is scored after an instruction: the average of each group, and of these the best."""

    def requests(self, row: Row, ctx: EvalContext) -> Sequence[Passage]:
        """Return the passages of all metrics, unless the row cannot be measured."""
        if self.missing(row):
            return []
        groups = (self.passages(row, instruction) for instruction in self.instructions.values())
        return [passage for of_metric in groups for group in of_metric for passage in group]

    def answers(self, requests: Sequence[Passage], ctx: EvalContext) -> Sequence[Likelihood]:
        """Return how likely each passage is."""
        return inference.likelihoods(self.model(ctx), requests, settings=ctx.settings)

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
        for key, instruction in self.instructions.items():
            means = [[next(left).mean or 0.0 for _ in group] for group in self.passages(row, instruction)]
            averages = [sum(group) / len(group) for group in means]
            best = min(range(len(averages)), key=averages.__getitem__)
            values[key] = averages[best]
            if len(averages) > 1 or len(means[best]) > 1:
                shown[key] = {"expected_answer": best, "directions": means[best]}
        cut = [each for each in results if not each.whole]
        flags = (_cut(cut, len(results)),) if cut else ()
        data: dict[str, Json] = {"tokens": sum(each.tokens for each in results), "parts": shown}
        return RowScore(values, Evidence(data=data), flags)


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


TARGET: Final = "Answer: Yes"

_ASKED: Final = {
    "interest": "interesting",
    "engagement": "engaging",
    "understandability": "understandable",
    "relevance": "relevant to the conversation",
    "specific": "generic or specific to the conversation",
    "correctness": "correct to conversations",
    "semantically_appropriate": "semantically appropriate",
    "fluency": "fluently written",
}
"""What the model is asked of the responses."""


@register
class GptScoreQuestionAnswering(GptScore):
    """Assesses an answer by how readily a language model says yes when it is asked about a quality of it.

    Each metric is GPTScore's average negative log-likelihood per token (https://arxiv.org/abs/2302.04166; lower is
    better) of ``Answer: Yes`` after a question about the conversation, which is ``human: {question}`` and, on the next
    line, ``AI: {answer}``. Only the tokens of ``Answer: Yes`` count. An empty answer is part of a conversation like any
    other and is scored. When the conversation is longer than the model reads, its end and the question about it stay,
    and the row says so.
    """

    spec = Spec(
        id="gptscore_question_answering",
        name="Question Answering (GPTScore) Evaluator",
        origin="h2o",
        inputs=(RowField.QUESTION, RowField.ACTUAL_ANSWER),
        metrics=gptscore_metrics(_ASKED),
        gpu=True,
        keywords=("GPTScore", "language model", "dialogue"),
        source="H2O Sonar evaluator reference: Question Answering (GPTScore) Evaluator; https://arxiv.org/abs/2302.04166",
    )
    instructions = {  # noqa: RUF012
        key: "Answer the question based on the conversation between a human and AI.\n"
        f"Question: Are the responses of AI {whether}? (a) Yes. (b) No.\n"
        "Conversation: "
        for key, whether in _ASKED.items()
    }

    def missing(self, row: Row) -> str:
        """Return nothing: every conversation can be asked about."""
        return ""

    def passages(self, row: Row, instruction: str) -> Sequence[Sequence[Passage]]:
        """Return the one passage whose target is the word yes."""
        history = f"human: {row.question or ''}\nAI: {row.actual_answer or ''}"
        return [(Passage(TARGET, f"{instruction}{history}\n", len(instruction)),)]


_REWRITE: Final = {
    "accuracy": "Rewrite the following text with its core information and consistent facts:",
    "fluency": "Rewrite the following text to make it more grammatical and well-written:",
    "multidimensional_quality_metrics": "Rewrite the following text into high-quality text with its core information:",
}


@register
class GptScoreMachineTranslation(BothWays):
    """Assesses a translation against an expected one by the likelihood that a language model gives them.

    Each metric is GPTScore's average negative log-likelihood per token (https://arxiv.org/abs/2302.04166; lower is
    better) of ``{hypo_ref}`` in ``INSTRUCTION {ref_hypo} In other words, {hypo_ref}``: once with the expected answer as
    ``{ref_hypo}`` and the answer as ``{hypo_ref}``, once the other way round, averaged. Only the tokens that follow
    ``In other words,`` count. With several expected answers it is the best of them. A blank answer or expected answer
    has no token to be scored: unscored.
    """

    spec = Spec(
        id="gptscore_machine_translation",
        name="Machine Translation (GPTScore) Evaluator",
        origin="h2o",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=gptscore_metrics(_REWRITE),
        gpu=True,
        keywords=("GPTScore", "language model", "translation"),
        source="H2O Sonar evaluator reference: Machine Translation (GPTScore) Evaluator; https://arxiv.org/abs/2302.04166",
    )
    instructions = _REWRITE


class PerplexityParams(Params):
    """Parameters of :class:`Perplexity`."""

    perplexity_model: str | None = Field(
        None,
        description="Language model: a Hugging Face id, optionally ID@REVISION, or a directory. By default distilgpt2.",
    )


@register
class Perplexity(ModelEvaluator[Passage, Likelihood]):
    """Measures how well a language model predicts the answer; lower means more predictable.

    ``perplexity = exp(mean over the answer's tokens of -ln p(token | tokens before it))`` by ``distilgpt2``, as the
    package ``lmppl`` computes it: the first token is given and not predicted, since GPT-2 has no start mark. A model
    whose tokenizer puts one before the text (OPT) predicts the first token too.

    An answer that is longer than the model reads (1,024 tokens) is scored in sliding windows: every token counts
    once, after at least the 512 tokens before it; ``lmppl`` would cut it off. The evidence says so. An answer of no
    token or of one has no token to be predicted, so that its perplexity is not defined (``lmppl`` gives NaN or fails):
    unscored. A mean too large for its power to be a finite float gives infinity.
    """

    spec = Spec(
        id="perplexity",
        name="Perplexity Evaluator",
        origin="h2o",
        inputs=(RowField.ACTUAL_ANSWER,),
        metrics=one_metric(
            "perplexity",
            "Number of tokens among which the language model hesitates on average when it predicts "
            "the next token of the answer. 1 is the least that can be reached.",
            range=(0.0, INF),
            threshold=0.5,
            higher_is_better=False,
        ),
        gpu=True,
        keywords=("fluency", "language model"),
        source="H2O Sonar evaluator reference: Perplexity Evaluator; https://github.com/asahi417/lmppl",
    )
    parameters = PerplexityParams
    default_model = DISTILGPT2
    model_parameter = "perplexity_model"

    def requests(self, row: Row, ctx: EvalContext) -> Sequence[Passage]:
        """Return the answer."""
        return [Passage(row.actual_answer or "")]

    def answers(self, requests: Sequence[Passage], ctx: EvalContext) -> Sequence[Likelihood]:
        """Return how likely each answer is."""
        return inference.likelihoods(self.model(ctx), requests, settings=ctx.settings)

    def measure(self, row: Row, results: Sequence[Likelihood], ctx: EvalContext) -> RowScore:
        """Score one row."""
        found = results[0]
        if found.mean is None:
            return self.unscorable(f"The answer has {found.length} tokens, none of which can be predicted.")
        message = (
            ""
            if found.whole
            else f"The answer has {found.length} tokens and was read in sliding windows of {found.limit}: each token "
            f"was predicted from at least the {found.limit // 2} tokens before it, not from all."
        )
        try:
            value = math.exp(found.mean)
        except OverflowError:
            value = INF
        return RowScore({"perplexity": value}, Evidence(message, data={"tokens": found.tokens}))
