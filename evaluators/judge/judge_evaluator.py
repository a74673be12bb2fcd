"""The bases of evaluators that ask a judge: a prompt file and a few lines.

::

    @leadline.register
    class Politeness(leadline.JudgeEvaluator):
        spec = leadline.Spec.simple("politeness", inputs=["actual_answer"], higher_is_better=True, judge="llm")
        prompts = {"verdict": leadline.prompt_beside(__file__, "politeness.jinja")}

        async def judge_row(self, row, judge, ctx):
            word = await judge.choose("verdict", ("polite", "rude"), answer=row.actual_answer)
            return leadline.RowScore({"politeness": float(word == "polite")})
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, Field

from leadline.evaluators.core import EvalContext, Evaluator, JudgeKey, Params, unparseable, verdict
from leadline.evaluators.core.model_evaluator import EmbeddingParams, UsesEmbedder
from leadline.evaluators.data import Evidence, Json, Reason, Row, RowScore, Severity
from leadline.evaluators.ground import ModelUnavailable, OutOfMemory
from leadline.evaluators.judge.guidance import guidance_identity, guided, without_case
from leadline.evaluators.judge.prompting import Prompt, canonical, draw_fence, prompt, prompt_from, readable
from leadline.evaluators.judge_client.calls import (
    BudgetSpent,
    Call,
    JudgeError,
    JudgeTruncated,
    JudgeUnparseable,
    Reply,
)
from leadline.evaluators.judge_client.client import JudgeClient, identity_of
from leadline.evaluators.judge_client.event_loop import run
from leadline.evaluators.judge_client.reply_parsing import read_json, read_number, read_word
from leadline.evaluators.judge_client.transport import NO_TEXT
from leadline.evaluators.models import weights
from leadline.evaluators.settings import Guidance, JuryConfig
from leadline.evaluators.text.sentences import without_surrogates

log = logging.getLogger("leadline.judge")

M = TypeVar("M", bound=BaseModel)
V = TypeVar("V")

PARSER: Final = "1"
"""Version of the parsers in ``replies``; raised when the same reply could be read as something else.

A parser that only refuses more needs no new one: scores that exist stand, and a row without one is read by today's.
"""

MOST_ATTEMPTS: Final = 10
"""Replies to one question, over all runs, after which a judge is not asked again."""

MOST_ROOM: Final = 4
"""How many times the judge's ``max_tokens`` a reply may take when shorter ones were cut off."""


def prompt_beside(module: str, name: str) -> Path:
    """Return the path of a prompt file beside a module.

    Args:
        module: The module's ``__file__``.
        name: The file's name in the folder ``prompts`` beside it.
    """
    return Path(module).with_name("prompts") / name


@dataclass
class Judge:
    """A judge as one row of one evaluator sees it; remembers which calls the row's score rests on.

    Attributes:
        client: The client that asks.
        evaluator: Id of the evaluator.
        prompts: Its prompts by name.
        trial: Which repetition.
        cache_salt: Makes questions new although they were asked before, see
            :class:`~leadline.evaluators.judge_client.calls.Call`.
        guidance: What people's labels add to the prompts; ``None`` for nothing.
    """

    client: JudgeClient
    evaluator: str
    prompts: Mapping[str, Prompt]
    trial: int = 0
    cache_salt: str = ""
    guidance: Guidance | None = None
    _asked: list[list[str]] = field(default_factory=list, repr=False)

    @property
    def calls(self) -> list[str]:
        """Digests of the calls made for this row, in the order of the questions, whichever was answered first."""
        return [digest for question in self._asked for digest in question]

    async def ask(self, name: str, kind: type[M], /, *, check: Callable[[M], None] | None = None, **texts: Any) -> M:
        """Ask for a JSON object of a given shape; ``check`` raises :class:`JudgeUnparseable` if it will not do.

        Args:
            name: The prompt.
            kind: The reply's model.
            check: Further check of a reply that fits the model; ``None`` for none.
            **texts: Texts that the prompt shows, by name.
        """

        def parse(text: str) -> M:
            verdict = read_json(text, kind)
            if check is not None:
                check(verdict)
            return verdict

        return await self._read(name, texts, parse, _schema(kind))

    async def choose(self, name: str, words: Sequence[str], /, **texts: Any) -> str:
        """Ask for one of several words; not at all where no reply to the prompt ever was one.

        Args:
            name: The prompt.
            words: The words to choose from; the reply must be one of them.
            **texts: Texts that the prompt shows, by name.
        """
        if self.cache_salt:  # canaries and probes are few
            return await self._read(name, texts, lambda text: read_word(text, words))
        watch = self.client.word_watch(f"{self.evaluator}:{self.prompts[name].digest}", tuple(words))
        async with watch.turn():
            return await self._read(name, texts, watch.read)

    async def number(self, name: str, low: float, high: float, /, **texts: Any) -> float:
        """Ask for a number.

        Args:
            name: The prompt.
            low: Least number allowed.
            high: Greatest number allowed.
            **texts: Texts that the prompt shows, by name.
        """
        return await self._read(name, texts, lambda text: read_number(text, low, high))

    async def say(self, name: str, /, **texts: Any) -> str:
        """Ask for free text."""
        return await self._read(name, texts, _not_empty)

    async def read(self, name: str, parse: Callable[[str], V], /, **texts: Any) -> V:
        """Ask for what a function reads, which raises :class:`JudgeUnparseable` when it cannot.

        Args:
            name: The prompt.
            parse: Reads the reply.
            **texts: Texts that the prompt shows, by name.
        """
        return await self._read(name, texts, parse)

    async def _read(
        self, name: str, texts: dict[str, Any], parse: Callable[[str], V], schema: Mapping[str, Any] | None = None
    ) -> V:
        """Ask, check for truncation, parse; ask again once if that fails, with more room if it was cut off.

        Replies given in earlier runs are read first, by the parser of today; only if none of them can be read is the
        question asked once more in this run.
        """
        call = self._call(name, texts, schema)
        asked: list[str] = []
        self._asked.append(asked)
        max_tokens = self.client.config.max_tokens
        problem: JudgeError | None = None
        while True:
            try:
                reply = await self.client.ask(call, max_tokens=max_tokens)
            except BudgetSpent:
                if problem is not None:
                    raise problem from None
                raise
            asked.append(call.digest)
            try:
                verdict = _whole(reply, parse)
            except JudgeError as error:
                problem = error
            else:
                await self.client.ledger.judged(call.digest, PARSER, _plain(verdict), "")
                return verdict
            await self.client.ledger.judged(call.digest, PARSER, None, str(problem))
            if call.attempt + 1 == MOST_ATTEMPTS or (call.attempt and not reply.earlier):
                raise problem
            if isinstance(problem, JudgeTruncated):
                max_tokens = min(2 * max_tokens, MOST_ROOM * self.client.config.max_tokens)
            call = _again(call, problem)

    def _call(self, name: str, texts: dict[str, Any], schema: Mapping[str, Any] | None) -> Call:
        fence = draw_fence()
        messages = self.prompts[name].messages(fence, texts)
        if self.guidance is not None:
            messages = guided(messages, self.guidance, fence)
        return Call(
            judge=self.client.identity,
            purpose=f"{self.evaluator}:{_occasion(self.cache_salt)}{name}",
            messages=messages,
            canonical=canonical(messages, fence),
            schema=schema,
            trial=self.trial,
            cache_salt=self.cache_salt,
        )


PROBES: Final = ("enrol/", "check/")
"""Beginnings of the cache salts with which a judge is asked whether it is still the same."""


def _occasion(cache_salt: str) -> str:
    """Return the word for why a question is asked that no row needs."""
    if not cache_salt:
        return ""
    return "probe " if cache_salt.startswith(PROBES) else "canary "


@cache
def _schema(kind: type[BaseModel]) -> dict[str, Any]:
    return kind.model_json_schema()


def _whole(reply: Reply, parse: Callable[[str], V]) -> V:
    if reply.finish_reason == "length":
        raise JudgeTruncated("The reply was cut off at the token limit.", hint="Raise the judge's max_tokens.")
    if reply.finish_reason == "content_filter":
        raise JudgeUnparseable("The provider's content filter withheld the reply.")
    if reply.finish_reason == NO_TEXT:
        raise JudgeUnparseable("The reply's content is no text.")
    return parse(reply.text)


def _not_empty(text: str) -> str:
    if not text.strip():
        raise JudgeUnparseable("The reply is empty.")
    return text.strip()


def _plain(verdict: Any) -> Json:
    return verdict.model_dump(mode="json") if isinstance(verdict, BaseModel) else verdict


def _again(call: Call, problem: JudgeError) -> Call:
    """Return the call for another attempt; it says what was wrong, but that is no part of its digest."""
    messages = call.messages[:2]
    if isinstance(problem, JudgeUnparseable):
        complaint = f"Your last reply could not be read. {problem.message} Reply again, in exactly the form asked for."
        messages = (*messages, {"role": "user", "content": without_surrogates(complaint)})
    return replace(call, messages=messages, attempt=call.attempt + 1)


@dataclass(frozen=True, slots=True)
class PairsToAsk:
    """The pairs of models' answers to a case that an evaluator asks about, each once for the rows of both models.

    Attributes:
        calls: Calls for each pair.
        most_rivals: The most pairs that an answer is in.
        baseline: Key of the model that is in all pairs; ``""`` for none.
    """

    calls: float
    most_rivals: int
    baseline: str = ""


class JudgeEvaluator(Evaluator):
    """An evaluator that asks a judge about each row.

    Class attributes:
        prompts: Its prompts by name: files (see :func:`prompt_beside`), or the templates themselves as text.
    """

    prompts: ClassVar[Mapping[str, Path | str]] = {}
    parameters: ClassVar[type[Params]] = JudgeKey

    def judge_key(self) -> str:
        """Return the key of the judge to ask, ``""`` for the run's default."""
        return str(getattr(self.params, "custom_eval_judge_config_key", ""))

    def all_prompts(self) -> dict[str, Prompt]:
        """Return the prompts in use; one whose text is a parameter overrides it."""
        return {
            name: prompt(source) if isinstance(source, Path) else prompt_from(name, source)
            for name, source in self.prompts.items()
        }

    def criterion(self) -> list[str]:
        """Return what it asks a judge, for people who are to judge by the same."""
        return [readable(prompt) for prompt in self.all_prompts().values()]

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Add the prompts and the judge with its guidance to what a score's key covers."""
        config = ctx.judge_config(self.judge_key())
        found: dict[str, Json] = super().identity(ctx) | {
            "prompts": {name: template.digest for name, template in self.all_prompts().items()},
            "parser": PARSER,
            "judge": None if config is None else identity_of(config, ctx.settings),
        }
        return found if config is None else found | guidance_identity(config, self.spec.id, ctx.settings)

    def pairs_to_ask(self) -> PairsToAsk | None:
        """Return the pairs of models' answers whose number its calls depend on; ``None`` for one that asks by row."""
        return None

    def calls_per_row(self) -> float:
        """Return about how many calls a row takes, for the estimate of a plan."""
        return 1.0

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Judge all rows at once in the judges' event loop; the judges of a jury do so at the same time."""
        config = ctx.judge_config(self.judge_key())
        if isinstance(config, JuryConfig):
            from leadline.evaluators.judge.jury import score_by_jury

            return score_by_jury(self, rows, ctx, config, self.settled_by_jury)
        try:
            client = ctx.judge_client(self.judge_key())  # here: importing LiteLLM in the loop would delay all calls
        except JudgeError as error:
            return [RowScore.unscored(self.row_metrics, error.reason, str(error))] * len(rows)
        return run(self._judge_all(rows, client, ctx))

    def settled_by_jury(self, combined: RowScore, scores: Sequence[RowScore]) -> RowScore:
        """Return a jury's score of a row, with what of it only the evaluator can combine.

        Args:
            combined: The score, with its values combined and the rest from one judge.
            scores: The scores of the judges that gave one.
        """
        return combined

    async def _judge_all(self, rows: Sequence[Row], client: JudgeClient, ctx: EvalContext) -> list[RowScore]:
        prompts = self.all_prompts()
        return list(await asyncio.gather(*(self._judge_one(row, client, prompts, ctx) for row in rows)))

    async def _judge_one(
        self, row: Row, client: JudgeClient, prompts: Mapping[str, Prompt], ctx: EvalContext
    ) -> RowScore:
        judge = Judge(client, self.spec.id, prompts, ctx.trial, ctx.cache_salt, self._guidance(row, ctx))
        try:
            score = await self.judge_row(await self.seen(row, judge, ctx), judge, ctx)
        except JudgeError as error:
            score = self.without_verdict(row, error)
        except Exception as error:
            log.exception("%s failed on case %r of model %r", self.spec.id, row.case, row.model)
            score = RowScore.unscored(self.row_metrics, Reason.EVALUATOR_ERROR, f"{type(error).__name__}: {error}")
        return replace(score, evidence=_traced(score.evidence, judge.calls))

    def _guidance(self, row: Row, ctx: EvalContext) -> Guidance | None:
        """Return what labels add to the prompts; nothing for probes, which are about the model alone."""
        config = ctx.judge_config(self.judge_key())
        found = None if config is None else config.guidance_for(self.spec.id)
        return None if found is None or ctx.cache_salt.startswith(PROBES) else without_case(found, row, self.reads)

    async def seen(self, row: Row, judge: Judge, ctx: EvalContext) -> Row:
        """Return a row as it is to be judged, by default as it is.

        Args:
            judge: The judge, which may be asked to change it.
        """
        return row

    def without_verdict(self, row: Row, error: JudgeError) -> RowScore:
        """Return the score of a row that got no verdict; pass/fail evaluators count parse failures here.

        Args:
            error: Why there is no verdict.
        """
        return RowScore.unscored(self.row_metrics, error.reason, str(error))

    @abstractmethod
    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row that has all required inputs; a :class:`JudgeError` leaves it unscored.

        Args:
            judge: The judge, which records its calls for this row.
            ctx: What the process has loaded, and the run's settings.
        """


def _traced(evidence: Evidence, calls: Sequence[str]) -> Evidence:
    if not calls:
        return evidence
    return replace(evidence, data={**evidence.data, "calls": list(calls)})


class PassFailEvaluator(JudgeEvaluator):
    """An evaluator whose metrics are those of :func:`leadline.evaluators.core.spec.boolean_metrics`.

    A row whose reply cannot be read, twice, is a parsing failure: it neither passes nor fails, and is a problem.
    """

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row."""
        (fails, answer), (context_fails, context_answer) = await asyncio.gather(
            self.fails(row, judge), self.context_fails(row, judge)
        )
        data: dict[str, Json] = {} if answer is None else {"verdict": answer}
        if context_answer is not None:
            data["context_verdict"] = context_answer
        return RowScore(verdict(self.metrics, generation=fails, retrieval=context_fails), Evidence(data=data))

    @abstractmethod
    async def fails(self, row: Row, judge: Judge) -> tuple[bool, Json]:
        """Return whether a row fails, and the judge's verdict; ``None`` where it was not asked.

        Args:
            judge: The judge to ask.
        """

    async def context_fails(self, row: Row, judge: Judge) -> tuple[bool, Json]:
        """Return whether the row's retrieved context fails, and the judge's verdict; by default it is not checked.

        Args:
            judge: The judge to ask.
        """
        return False, None

    def without_verdict(self, row: Row, error: JudgeError) -> RowScore:
        """Return the score of a row that got no verdict."""
        if not isinstance(error, JudgeUnparseable):
            return super().without_verdict(row, error)
        return unparseable(self.metrics, str(error), why=error.reason, severity=Severity.HIGH)


class TextCheckParams(JudgeKey):
    """Parameters of evaluators that look for something unwanted in a text."""

    evaluate_retrieved_context: Annotated[
        bool,
        Field(description="Check the retrieved context too, with a call of its own; a row fails when it does."),
    ] = False


class EmbeddingJudgeParams(EmbeddingParams, JudgeKey):
    """The choice of a judge and of an embedder."""


class EmbeddingJudgeEvaluator(JudgeEvaluator, UsesEmbedder):
    """An evaluator that asks a judge about each row and compares embeddings; without its embedder a row is unscored."""

    parameters: ClassVar[type[Params]] = EmbeddingJudgeParams
    default_embedder = weights.BGE_SMALL_EN_V15

    async def cosines(self, text: str, others: Sequence[str], ctx: EvalContext) -> list[float]:
        """Return the cosine of a text with each of several others; that of a blank text is 0.

        Args:
            text: The text to compare.
            others: The texts to compare it with, in the order of the result.
            ctx: Gives the embedder's vectors.
        """
        vectors = await ctx.embed_soon(self.embedder(ctx), [text, *others])
        return [float(cosine) for cosine in vectors[1:].astype("float64") @ vectors[0].astype("float64")]

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row; one that cannot be embedded is unscored."""
        try:
            return await self.judge_and_compare(row, judge, ctx)
        except ModelUnavailable as error:
            return RowScore.unscored(self.row_metrics, Reason.MODEL_UNAVAILABLE, str(error))
        except OutOfMemory as error:
            return RowScore.unscored(self.row_metrics, Reason.OUT_OF_MEMORY, str(error))

    @abstractmethod
    async def judge_and_compare(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Judge one row that has all required inputs.

        Embed what is known before the judge is asked, so that nothing is paid for where there is no embedder.

        Args:
            judge: The judge, which records its calls for this row.
            ctx: Gives the embedder's vectors.
        """
