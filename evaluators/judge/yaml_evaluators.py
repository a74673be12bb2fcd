"""Judges without Python: each YAML file of a folder is an evaluator.

::

    id: politeness
    name: Politeness
    description: Whether the answer is polite.
    prompt: |
      Is the following answer polite?
      {actual_answer}
      Reply with one word: "polite", "neutral" or "rude".
    classes: [polite, neutral, rude]
    passing: [polite, neutral]

With ``scale: [1, 5]`` instead of ``classes`` the judge replies with a number, and ``passing`` is the threshold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from leadline.evaluators.core.base import Evaluator, Spec
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.core.metric import Metric, boolean_metrics
from leadline.evaluators.core.registry import FAMILIES, find, register
from leadline.evaluators.data.row import Evidence, Json, Row, RowField, RowScore
from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.paths import from_home
from leadline.evaluators.ground.refusal import refusals_of
from leadline.evaluators.judge.judge_evaluator import Judge, JudgeEvaluator
from leadline.evaluators.judge.pass_fail import PassFailEvaluator
from leadline.evaluators.judge.placeholders import UserPrompt, user_prompt
from leadline.evaluators.judge.prompting import Prompt

MOST_BYTES: Final = 1_000_000
ENDINGS: Final = (".yaml", ".yml")

Input: TypeAlias = Literal["question", "expected_answer", "retrieved_context", "actual_answer"]


def _spelled(value: object) -> object:
    """Take a number for the word that stands there; refuse true and false, which YAML makes of ``yes`` and ``no``."""
    if isinstance(value, bool):
        raise ValueError("put words that YAML takes for true or false between quotes")
    return str(value) if isinstance(value, int | float) else value


Word: TypeAlias = Annotated[str, BeforeValidator(_spelled), Field(min_length=1, max_length=100)]


class JudgeFile(BaseModel):
    """The contents of a file.

    Attributes:
        id: Identifier of the evaluator.
        name: Name for people.
        description: What is judged, in a sentence.
        prompt: What the judge is asked, with placeholders.
        family: The topic that it is listed under.
        inputs: The fields that the prompt shows; may be left out.
        classes: The words of which the judge must say exactly one.
        scale: Least and greatest number that the judge may say.
        passing: The classes that pass, or the number from which on (down to which) a row is good.
        higher_is_better: Whether a higher number is better.
        keywords: Labels to find it by.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*(\.[a-z0-9_]+)*$", max_length=100)
    name: str = Field(min_length=1, max_length=200)
    description: str = Field(min_length=1, max_length=5_000)
    prompt: str = Field(min_length=1, max_length=200_000)
    family: str = "generation"
    inputs: tuple[Input, ...] = ()
    classes: tuple[Word, ...] = ()
    scale: tuple[float, float] | None = None
    passing: tuple[Word, ...] | float | None = None
    higher_is_better: bool = True
    keywords: tuple[str, ...] = ()

    @field_validator("family")
    @classmethod
    def _is_a_family(cls, value: str) -> str:
        if value not in FAMILIES:
            raise ValueError(f"families are {', '.join(FAMILIES)}")
        return value

    @field_validator("prompt")
    @classmethod
    def _can_be_read(cls, value: str) -> str:
        user_prompt("prompt", value)
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> JudgeFile:
        if bool(self.classes) == (self.scale is not None):
            raise ValueError("give either classes or a scale")
        shown = {field.value for field in self.asked.fields}
        if self.inputs and set(self.inputs) != shown:
            raise ValueError(f"inputs are {', '.join(self.inputs)}, but the prompt shows {', '.join(sorted(shown))}")
        self._check_classes() if self.classes else self._check_scale()
        return self

    def _check_classes(self) -> None:
        if len({word.lower() for word in self.classes}) != len(self.classes) or len(self.classes) < 2:
            raise ValueError("classes must be at least two different words")
        if not isinstance(self.passing, tuple) or not 0 < len(self.passing) < len(self.classes):
            raise ValueError("passing must name some of the classes, not none and not all")
        unknown = [word for word in self.passing if word not in self.classes]
        if unknown:
            raise ValueError(f"passing names {unknown[0]!r}, which is none of the classes")

    def _check_scale(self) -> None:
        low, high = self.scale or (0.0, 0.0)
        if not low < high:
            raise ValueError("scale must go from a number to a greater one")
        if isinstance(self.passing, tuple) or (self.passing is not None and not low <= self.passing <= high):
            raise ValueError("passing must be a number on the scale")

    @property
    def asked(self) -> UserPrompt:
        """The prompt with its placeholders read."""
        return user_prompt(self.id, self.prompt)

    def identity(self) -> Json:
        """Return what a score depends on, apart from the prompt; on a scale ``passing`` is but the threshold."""
        if self.scale is not None:
            return {"scale": self.scale, "higher_is_better": self.higher_is_better}
        return {"classes": self.classes, "passing": self.passing if isinstance(self.passing, tuple) else ()}


class _FromFile(JudgeEvaluator):
    """The base of both kinds."""

    judge_file: ClassVar[JudgeFile]
    asked: ClassVar[UserPrompt]

    def all_prompts(self) -> dict[str, Prompt]:
        """Return the file's prompt."""
        return {"verdict": self.asked.prompt}

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Add what the file says to what keys cover."""
        return super().identity(ctx) | {"file": self.judge_file.identity()}

    def shown(self, row: Row) -> list[dict[str, str]]:
        """Return a row's texts, once for each expected answer if the prompt shows it."""
        expected = dict.fromkeys(row.expected_answers) if RowField.EXPECTED_ANSWER in self.asked.fields else {}
        return [self.asked.texts(row, text) for text in expected or [""]]


class ClassesFromFile(_FromFile, PassFailEvaluator):
    """A file's evaluator whose judge says one of several words."""

    async def fails(self, row: Row, judge: Judge) -> tuple[bool, Json]:
        """Ask about one row; with several expected answers one after the other until one passes."""
        passing = self.judge_file.passing
        assert isinstance(passing, tuple)  # noqa: S101
        word = ""
        for texts in self.shown(row):
            word = await judge.choose("verdict", self.judge_file.classes, **texts)
            if word in passing:
                return False, word
        return True, word


class ScaleFromFile(_FromFile):
    """A file's evaluator whose judge says a number."""

    async def judge_row(self, row: Row, judge: Judge, ctx: EvalContext) -> RowScore:
        """Ask about one row; with several expected answers the best number counts."""
        low, high = self.judge_file.scale or (0.0, 1.0)
        numbers = [await judge.number("verdict", low, high, **texts) for texts in self.shown(row)]
        best = max(numbers) if self.judge_file.higher_is_better else min(numbers)
        return RowScore({self.metrics[0].key: best}, Evidence(data={"verdict": best}))


def load_folder(folder: str | Path) -> tuple[type[Evaluator], ...]:
    """Register the evaluators of a folder's YAML files, and return them in the order of the files' names.

    Loading a folder again registers what its files say by then.

    Raises:
        UsageError: The folder or a file cannot be read, or what a file says makes no sense.
    """
    path = from_home(folder)
    if not path.is_dir():
        raise UsageError(
            f"There is no folder {folder}.",
            hint="It should hold a YAML file for each evaluator.",
            code=ErrorCode.JUDGE_FILE,
        )
    files = sorted(file for file in path.iterdir() if file.suffix in ENDINGS and not file.name.startswith("."))
    if not files:
        raise UsageError(
            f"{folder} holds no YAML file.",
            hint="An evaluator is a file such as politeness.yaml.",
            code=ErrorCode.JUDGE_FILE,
        )
    return tuple(_registered(file) for file in files)


def _registered(file: Path) -> type[Evaluator]:
    kind = evaluator_from(file)
    known = find(kind.spec.id)
    if known is not None and known.__qualname__ != kind.__qualname__:
        raise UsageError(
            f"{file}: id: there is an evaluator called {kind.spec.id!r} already.",
            hint="Choose another id.",
            code=ErrorCode.JUDGE_FILE,
        )
    return register(kind)


def evaluator_from(file: Path) -> type[Evaluator]:
    """Return the evaluator that a file describes.

    Raises:
        UsageError: It cannot be read, or makes no sense.
    """
    judge_file = _read(file)
    asked = judge_file.asked
    kind: type[_FromFile] = ClassesFromFile if judge_file.classes else ScaleFromFile
    place = hashlib.sha256(str(file.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    spec = Spec(
        id=judge_file.id,
        name=judge_file.name,
        family=judge_file.family,
        inputs=asked.fields,
        metrics=_metrics(judge_file),
        judge="llm",
        lane="judge",
        leaderboard="bool" if judge_file.classes else "heatmap",
        keywords=("judge", *judge_file.keywords),
        source=file.name,
    )
    name = f"FromFile_{place}_{judge_file.id}"
    return type(
        name,
        (kind,),
        {
            "spec": spec,
            "judge_file": judge_file,
            "asked": asked,
            "__doc__": judge_file.description,
            "__module__": __name__,
        },
    )


def _metrics(judge_file: JudgeFile) -> tuple[Metric, ...]:
    if judge_file.scale is None:
        return boolean_metrics(
            ("model_passes", f"{judge_file.name} (pass)"),
            ("model_failures", f"{judge_file.name} (fail)"),
            ("model_retrieval_failures", f"{judge_file.name} retrieval failures"),
            ("model_generation_failures", f"{judge_file.name} generation failures"),
            ("model_parse_failures", f"{judge_file.name} parsing failures"),
            what=judge_file.name,
        )
    threshold = judge_file.passing if isinstance(judge_file.passing, float | int) else None
    key = judge_file.id.rpartition(".")[2]
    return (
        Metric(
            key,
            judge_file.name,
            judge_file.higher_is_better,
            judge_file.scale,
            threshold,
            primary=True,
            description=judge_file.description,
        ),
    )


def _read(file: Path) -> JudgeFile:
    import yaml

    try:
        if file.stat().st_size > MOST_BYTES:
            raise UsageError(f"{file} is larger than 1 MB.", code=ErrorCode.JUDGE_FILE)
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}.", code=ErrorCode.JUDGE_FILE) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise UsageError(
            f"{file}{where}: this is no YAML: {getattr(error, 'problem', None) or error}.", code=ErrorCode.JUDGE_FILE
        ) from None
    if not isinstance(document, Mapping):
        raise UsageError(f"{file} must hold keys such as id, name and prompt.", code=ErrorCode.JUDGE_FILE)
    return _checked(file, document)


def _checked(file: Path, document: Mapping[Any, Any]) -> JudgeFile:
    try:
        return JudgeFile.model_validate({str(key): value for key, value in document.items()})
    except ValidationError as error:
        known = ", ".join(JudgeFile.model_fields)
        faults = "; ".join(refusals_of(error, JudgeFile))
        raise UsageError(f"{file}: {faults}.", hint=f"Keys: {known}.", code=ErrorCode.JUDGE_FILE) from None
