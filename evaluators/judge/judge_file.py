"""The files that describe a judge evaluator: a user's YAML, and the front matter of a built-in prompt.

A user's file is YAML with the prompt under ``prompt``, in which placeholders stand for a row's texts. A built-in
evaluator is a prompt in Jinja whose front matter, between two lines of three hyphens, has the same keys and a few
more::

    ---
    id: contact_information
    name: Contact Information Evaluator
    ...
    ---
    You are examining written text content. Here is the text:
    {{ text | data("text") }}
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from leadline.evaluators.core import FAMILIES, DataKind, OverTurns, Unit
from leadline.evaluators.data import Json, Row, RowField
from leadline.evaluators.ground import ErrorCode, UsageError, refusals_of
from leadline.evaluators.judge.prompting import RowPrompt, user_prompt

MOST_BYTES: Final = 1_000_000
_HYPHENS: Final = "---\n"

Input: TypeAlias = Literal[
    "question", "expected_answer", "retrieved_context", "actual_answer", "messages", "history", "tool_calls", "tools",
    "expected_outcome", "scenario",
]  # fmt: skip
F = TypeVar("F", bound="JudgeFile")


def _spelled(value: object) -> object:
    """Take a number for the word that stands there; refuse true and false, which YAML makes of ``yes`` and ``no``."""
    if isinstance(value, bool):
        raise ValueError("put words that YAML takes for true or false between quotes")
    return str(value) if isinstance(value, int | float) else value


def _as_list(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Word: TypeAlias = Annotated[str, BeforeValidator(_spelled), Field(min_length=1, max_length=100)]
Inputs: TypeAlias = Annotated[tuple[Input, ...], BeforeValidator(_as_list), Field(min_length=1)]
Key: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=100)]


class _FileTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Settled(_FileTable):
    """The result of a row about which the judge is not asked.

    Attributes:
        result: A value of the metric, ``pass`` or ``fail`` where there are classes, or ``not applicable``.
        message: Why, in a sentence.
    """

    result: Annotated[float, Field(strict=True)] | Literal["pass", "fail", "not applicable"]
    message: str = Field("", max_length=1_000)


class MetricText(_FileTable):
    """The names of the metric, where they are not the evaluator's; its key is the last part of the id by default.

    Attributes:
        over_turns: How the values of a conversation's turns make its own.
    """

    key: Key | None = None
    name: str | None = Field(None, min_length=1, max_length=200)
    description: str | None = Field(None, min_length=1, max_length=5_000)
    over_turns: OverTurns = "mean"


class JudgeFile(_FileTable):
    """The keys that both kinds of file have.

    Attributes:
        id: Identifier of the evaluator.
        name: Name for people.
        description: What is judged, in a sentence.
        details: The rest of its page: the method and its edge cases, in Markdown.
        prompt: What the judge is asked.
        unit: Whether it judges each turn of a conversation, or the conversation as a whole.
        family: The topic that it is listed under.
        classes: The words of which the judge must say exactly one.
        scale: Least and greatest number that the judge may say.
        whole: Whether the number must be a whole one.
        rating: Whether the judge replies in JSON with a ``rationale`` and a ``rating``, which is yes or no.
        passing: The classes that pass, or the number from which on (down to which) a row is good.
        higher_is_better: Whether a higher number is better.
        blank: What becomes of a row in which a field is blank; the first that is decides. Other blank texts are shown.
        metric: What the metric is called, if there is but one.
        metrics: Names of the five metrics that classes give, by key: rows that pass, that fail, whose context fails,
            whose answer fails, whose reply cannot be read.
        looks_for: What classes are a check for, as it reads after "for"; the evaluator's name by default.
        topic: The topic of its problems and insights.
        suits: Kinds of dataset that it is for; all when empty.
        rag_only: Whether it is about systems that retrieve, and not about plain language models.
        keywords: Labels to find it by.
        source: Where its method is published; the file's name by default.
    """

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*(\.[a-z0-9_]+)*$", max_length=100)
    name: str = Field(min_length=1, max_length=200)
    description: str = Field(min_length=1, max_length=5_000)
    details: str = Field("", max_length=50_000)
    prompt: str = Field(min_length=1, max_length=200_000)
    unit: Unit = "turn"
    family: str = "generation"
    classes: tuple[Word, ...] = ()
    scale: tuple[float, float] | None = None
    whole: bool = False
    rating: bool = False
    passing: tuple[Word, ...] | float | None = None
    higher_is_better: bool = True
    blank: dict[Input, Settled] = {}
    metric: MetricText = MetricText()
    metrics: dict[Key, str] = {}
    looks_for: str = Field("", max_length=200)
    topic: str = Field("accuracy", min_length=1, max_length=100)
    suits: tuple[DataKind, ...] = ()
    rag_only: bool = False
    keywords: tuple[str, ...] = ()
    source: str = Field("", max_length=1_000)

    @field_validator("family")
    @classmethod
    def _is_a_family(cls, value: str) -> str:
        if value not in FAMILIES:
            raise ValueError(f"families are {', '.join(FAMILIES)}")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> JudgeFile:
        self._check_reply()
        self._check_fields()
        self._check_classes() if self.classes else self._check_scale()
        self._check_blank()
        return self

    @abstractmethod
    def _check_reply(self) -> None:
        """Refuse a file that says not just once how the judge replies."""

    @abstractmethod
    def _check_fields(self) -> None:
        """Refuse a file whose inputs and prompt do not fit."""

    def _check_classes(self) -> None:
        if len({word.lower() for word in self.classes}) != len(self.classes) or len(self.classes) < 2:
            raise ValueError("classes must be at least two different words")
        if not isinstance(self.passing, tuple) or not 0 < len(self.passing) < len(self.classes):
            raise ValueError("passing must name some of the classes, not none and not all")
        unknown = [word for word in self.passing if word not in self.classes]
        if unknown:
            raise ValueError(f"passing names {unknown[0]!r}, which is none of the classes")
        if len(self.metrics) not in (0, 5):
            raise ValueError("metrics must be five: of rows that pass, that fail, whose context, answer, reply fails")

    def _check_scale(self) -> None:
        low, high = self.scale or (0.0, 1.0)
        if not low < high:
            raise ValueError("scale must go from a number to a greater one")
        if isinstance(self.passing, tuple) or (self.passing is not None and not low <= self.passing <= high):
            raise ValueError("passing must be a number on the scale")
        if self.metrics or self.looks_for:
            raise ValueError("metrics and looks_for are for classes; the only metric is named under metric")
        if self.whole and not (self.scale and low.is_integer() and high.is_integer()):
            raise ValueError("whole is for a scale from a whole number to another")

    def _check_blank(self) -> None:
        low, high = self.range
        for field, settled in self.blank.items():
            if field not in self.shown:
                raise ValueError(f"blank.{field}: the prompt does not show this field")
            if settled.result in ("pass", "fail") and not self.classes:
                raise ValueError(f"blank.{field}: a row can {settled.result} where there are classes")
            if isinstance(settled.result, float) and (self.classes or not low <= settled.result <= high):
                raise ValueError(f"blank.{field}: {settled.result:g} is no value of the metric")

    @property
    def range(self) -> tuple[float, float]:
        """Least and greatest value of the metric."""
        low, high = self.scale or (0.0, 1.0)
        return (int(low), int(high)) if self.whole else (low, high)

    @property
    @abstractmethod
    def asked(self) -> RowPrompt:
        """The prompt, which knows the fields that it shows."""

    @property
    @abstractmethod
    def listed(self) -> tuple[RowField, ...]:
        """The fields that the evaluator is about, in the order of its description."""

    @property
    def required(self) -> tuple[RowField, ...]:
        """The fields without which a row is not applicable."""
        return self.listed

    @property
    def shown(self) -> tuple[RowField, ...]:
        """The fields that can change a value, in the order of :class:`RowField`."""
        return self.asked.fields

    @property
    def prompt_name(self) -> str:
        """The name of the prompt in scores' keys."""
        return "assessment" if self.rating else "verdict"

    def settled(self, row: Row) -> Settled | None:
        """Return the result of a row that a blank field decides."""
        texts: Mapping[Input, str] = {
            "expected_answer": "".join(row.expected_answers),
            "retrieved_context": "".join(chunk.content for chunk in row.retrieved_context),
        }
        for field, settled in self.blank.items():
            value = texts[field] if field in texts else getattr(row, field)
            if not (value.strip() if isinstance(value, str) else value):
                return settled
        return None


class UserFile(JudgeFile):
    """The keys of a user's file, whose prompt has placeholders.

    Attributes:
        inputs: The fields that the prompt shows; may be left out.
    """

    inputs: tuple[Input, ...] = ()

    @field_validator("prompt")
    @classmethod
    def _can_be_read(cls, value: str) -> str:
        user_prompt("prompt", value)
        return value

    def _check_reply(self) -> None:
        if sum(map(bool, (self.classes, self.scale, self.rating))) != 1:
            raise ValueError("give either classes or a scale, or rating: true")

    def _check_fields(self) -> None:
        shown = {field.value for field in self.shown}
        if self.inputs and set(self.inputs) != shown:
            raise ValueError(f"inputs are {', '.join(self.inputs)}, but the prompt shows {', '.join(sorted(shown))}")

    @cached_property
    def asked(self) -> RowPrompt:
        """The prompt with its placeholders read."""
        return user_prompt(self.id, self.prompt)

    @property
    def listed(self) -> tuple[RowField, ...]:
        """The fields that the prompt shows."""
        return self.asked.fields

    @property
    def required(self) -> tuple[RowField, ...]:
        """The fields that the prompt shows, but for what was said before: a first turn has no history."""
        return tuple(field for field in self.listed if field is not RowField.HISTORY) or self.listed

    def identity(self) -> dict[str, Json]:
        """Return what a score depends on, apart from the prompt; on a scale ``passing`` is but the threshold."""
        out: dict[str, Json] = {}
        if self.classes:
            out = {"classes": self.classes, "passing": self.passing if isinstance(self.passing, tuple) else ()}
        elif self.scale:
            out = {"scale": self.scale, "higher_is_better": self.higher_is_better}
        keys = [*self.metrics] or ([self.metric.key] if self.metric.key else [])
        blank: dict[str, Json] = {field: settled.result for field, settled in self.blank.items()}
        more: dict[str, Json] = {"whole": self.whole, "rating": self.rating, "blank": blank, "metrics": keys}
        return out | {name: value for name, value in more.items() if value}


class ItemVerdicts(_FileTable):
    """A yes or no about each of several items; the metric is the share of yes.

    Attributes:
        of: The items, which the prompt numbers as ``items``: the retrieved contexts, the calls of tools, or what the
            judge first lists of the answer. Those that are ``found`` the judge lists itself, with a verdict on each.
        message: The evidence's sentence, in which ``{yes}`` and ``{all}`` stand for the counts.
        without: The value of a row of which nothing is listed.
        without_message: The sentence of such a row, if it has another.
        idk: Whether the judge may say that it does not know, which is no yes.
        noted: What a context is noted as where the verdict is yes, and where it is not.
    """

    of: Literal["contexts", "statements", "claims", "opinions", "calls", "found"]
    message: str = Field(max_length=1_000)
    without: Annotated[float, Field(ge=0, le=1)] | Literal["not applicable"] = 0.0
    without_message: str = Field("", max_length=1_000)
    idk: bool = False
    noted: tuple[Word, Word] | None = None

    @model_validator(mode="after")
    def _notes_contexts(self) -> ItemVerdicts:
        if (self.of == "contexts") != (self.noted is not None):
            raise ValueError("contexts need noted, and nothing else does")
        return self

    def said(self, yes: int, of_all: int) -> str:
        """Return the sentence with its counts."""
        if not of_all and self.without_message:
            return self.without_message
        return self.message.replace("{yes}", str(yes)).replace("{all}", str(of_all))


class BuiltInFile(JudgeFile):
    """The keys of a built-in file, whose prompt is in Jinja below its front matter.

    Attributes:
        origin: The system whose method it is.
        version: Raised whenever the same input could get another value.
        inputs: The fields that it is about, in the reference's order.
        needs: The fields without which a row is not applicable, if these are not the inputs.
        shows: The fields that the prompt's variables show.
        needs_of_scenario: The key of the scenario whose text a row must have.
        verdicts: Instead of classes, a scale or a rating: verdicts on several items.
        context_as: A variable in which a second call shows the retrieved context, where the parameter
            ``evaluate_retrieved_context`` is set; a row whose context fails fails.
        asked_as: What scores' keys call the prompt, if not as by default.
    """

    origin: str
    version: str = "1"
    inputs: Inputs
    needs: Inputs | None = None
    shows: dict[Key, Inputs]
    needs_of_scenario: Key | None = None
    verdicts: ItemVerdicts | None = None
    context_as: Key | None = None
    asked_as: Key | None = None

    def _check_reply(self) -> None:
        if sum(map(bool, (self.classes, self.scale, self.rating, self.verdicts))) != 1:
            raise ValueError("give one of classes, scale, rating and verdicts")
        if self.context_as and not self.classes:
            raise ValueError("context_as is for classes")

    def _check_fields(self) -> None:
        if self.verdicts is not None and RowField.EXPECTED_ANSWER in self.shown:
            raise ValueError("verdicts are for prompts that show no expected answer, of which there may be several")

    @cached_property
    def asked(self) -> RowPrompt:
        """The prompt, which is compiled where somebody asks."""
        shows = {name: tuple(map(RowField, fields)) for name, fields in self.shows.items()}
        return RowPrompt(self.id, self.prompt, shows, apart=True)

    @property
    def prompt_name(self) -> str:
        """The name of the prompt in scores' keys."""
        return self.asked_as or ("verdicts" if self.verdicts else super().prompt_name)

    @property
    def listed(self) -> tuple[RowField, ...]:
        """The inputs."""
        return tuple(map(RowField, self.inputs))

    @property
    def required(self) -> tuple[RowField, ...]:
        """The fields that it needs; its inputs by default."""
        return tuple(map(RowField, self.needs or self.inputs))

    @property
    def shown(self) -> tuple[RowField, ...]:
        """The fields that the prompt shows, and the one that the items are of."""
        fields = {*self.asked.fields}
        if self.verdicts is not None and self.verdicts.of != "found":
            named = {"contexts": RowField.RETRIEVED_CONTEXT, "calls": RowField.TOOL_CALLS}
            fields.add(named.get(self.verdicts.of, RowField.ACTUAL_ANSWER))
        return tuple(field for field in RowField if field in fields)

    def settled(self, row: Row) -> Settled | None:
        """Return the result of a row that a blank field decides, or that its scenario says too little for."""
        key = self.needs_of_scenario
        if key and not str((row.scenario or {}).get(key) or "").strip():
            return Settled(result="not applicable", message=f"The scenario has no {key}.")
        return super().settled(row)


def user_file(file: Path) -> UserFile:
    """Read a user's file.

    Raises:
        UsageError: It cannot be read, or makes no sense.
    """
    return _checked(file, UserFile, _document(file, _text(file)))


def built_in_file(file: Path) -> BuiltInFile:
    """Read a built-in prompt with its front matter; its family is that of its folder.

    Raises:
        UsageError: It cannot be read, or makes no sense.
    """
    before, _, text = _text(file).partition(_HYPHENS)
    matter, closing, prompt = text.partition(f"\n{_HYPHENS}")
    if before or not closing:
        raise UsageError(f"{file} has no front matter between two lines of three hyphens.", code=ErrorCode.JUDGE_FILE)
    matter = f"\n{matter}"  # so that a fault has the line of the file
    return _checked(
        file, BuiltInFile, {**_document(file, matter, own=True), "prompt": prompt, "family": file.parent.name}
    )


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise UsageError(f"{file} is larger than 1 MB.", code=ErrorCode.JUDGE_FILE)
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}.", code=ErrorCode.JUDGE_FILE) from None


def _document(file: Path, text: str, *, own: bool = False) -> Mapping[Any, Any]:
    """Return the keys of a YAML text.

    Args:
        own: Whether the text is Leadline's: libyaml reads it in a seventh of the time, and ends the process where
            brackets are nested too deeply.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader) if own else yaml.SafeLoader
    try:
        document = loader(text).get_single_data()
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise UsageError(
            f"{file}{where}: this is no YAML: {getattr(error, 'problem', None) or error}.", code=ErrorCode.JUDGE_FILE
        ) from None
    if not isinstance(document, Mapping):
        raise UsageError(f"{file} must hold keys such as id, name and prompt.", code=ErrorCode.JUDGE_FILE)
    return document


def _checked(file: Path, model: type[F], document: Mapping[Any, Any]) -> F:
    try:
        return model.model_validate({str(key): value for key, value in document.items()})
    except ValidationError as error:
        known = ", ".join(model.model_fields)
        faults = "; ".join(refusals_of(error, model))
        raise UsageError(f"{file}: {faults}.", hint=f"Keys: {known}.", code=ErrorCode.JUDGE_FILE) from None
