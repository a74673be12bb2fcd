"""The four abilities that RGB tests in a RAG system: noise, refusal, integration, wrong documents.

Answers are read by one of two readings of RGB's rules: ``space``, its application's; ``official``, the paper's. Both
look for words in the answer, so both have known errors, which are documented here and kept for the sake of comparable
numbers. ``official`` follows Chen et al., *Benchmarking Large Language Models in Retrieval-Augmented Generation*
(AAAI 2024, arXiv:2309.01431), without the judged figures Rej* and ED*.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import Field

from leadline.evaluators.core import DataKind, EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Json, NotApplicable, Reason, Row, RowField, RowScore, Unscored

REFUSALS: Final = (
    "i can not answer the question because of the insufficient information in documents",
    "insufficient information in documents",
    "can not answer",
    "cannot answer",
    "i don't know",
    "i cannot",
    "i can't",
    "unable to",
    "not able to",
    "insufficient information",
    "no information",
    "cannot determine",
    "not enough information",
    "don't have enough",
    "unable to determine",
    "cannot find",
    "no relevant",
    "not mentioned",
    "not provided",
    "not specified",
    "unclear",
    "unknown",
    "i'm not sure",
    "i am not sure",
    "cannot be determined",
    "information is not available",
    "does not provide",
)
"""Words of a refusal, those of the paper's figure 3 first."""

DETECTIONS: Final = (
    "incorrect",
    "wrong",
    "false",
    "error",
    "mistake",
    "inaccurate",
    "not true",
    "not correct",
    "factually incorrect",
    "contradicts",
    "actually",
    "in fact",
    "however",
    "but actually",
    "the correct answer",
    "should be",
)
"""Words by which an answer shows that it noticed an error."""

OVERLAP: Final = 0.8
"""Share of the expected answer's words that must stand in the answer."""

OFFICIAL_REFUSALS: Final = ("信息不足", "insufficient information")
OFFICIAL_DETECTIONS: Final = ("事实性错误", "factual errors")
"""Words of the sentences that the benchmark's prompt demands; upper and lower case differ."""

_ENDS: Final = ".!?,;:"
_CURLY: Final = str.maketrans({"\u2019": "'", "\u2018": "'"})
Language: TypeAlias = Literal["en", "zh"]
NOISE: Final = "noise_robustness"
REJECTION: Final = "negative_rejection"
INTEGRATION: Final = "information_integration"
COUNTERFACTUAL: Final = "counterfactual_robustness"
CLOSED_BOOK: Final = "closed_book"
"""The task without documents, which tests what the model knows by itself."""

_HAN: Final = re.compile("[\u4e00-\u9fff]")

_SOURCE: Final = (
    "Chen et al., Benchmarking Large Language Models in Retrieval-Augmented Generation (RGB), AAAI 2024, "
    "arXiv:2309.01431; RGB Evaluation Calculation Explanation (the application's rules)"
)


@dataclass(frozen=True, slots=True)
class RgbCase:
    """A test case as the scorers need it.

    Attributes:
        task: The ability of RGB that it tests, ``None`` when the dataset does not name one.
        parts: Parts that the answer must contain, each in one of its spellings.
        counterfactual: The wrong answers that the documents give.
        language: Of question and answer; decides whether spaces count.
    """

    task: str | None
    parts: tuple[tuple[str, ...], ...]
    counterfactual: tuple[str, ...]
    language: Language


class Space:
    """The application's rules: flexible matching by containment or by four fifths of the words.

    Known quirks, kept: an answer shorter than the expected one counts when it stands in it ("is" for "Paris is
    nice"); a negation counts ("not Norway" for "Norway"); "however" counts as detection and "unknown" as refusal.
    Typographic apostrophes are read as plain ones, which the application does not do.

    Args:
        strict: Whether only an equal text counts.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict

    def labels(self, answer: str, case: RgbCase) -> list[int]:
        """Return for each part of the expected answer whether it is there; a refusal is an answer like any other."""
        return [int(any(self.is_correct(answer, text) for text in part)) for part in case.parts]

    def refusal(self, answer: str, case: RgbCase) -> str | None:
        """Return the words that refuse, ``None`` when there are none."""
        return _first(REFUSALS, answer.lower().translate(_CURLY))

    def detection(self, answer: str, case: RgbCase) -> str | None:
        """Return the words that say that the documents are wrong, ``None`` when there are none."""
        text = answer.lower().translate(_CURLY)
        denials = (f"{start}{wrong.lower()}{end}" for wrong in case.counterfactual if wrong
                   for start, end in (("not ", ""), ("", " is wrong")))  # fmt: skip
        return _first((*DETECTIONS, *denials), text)

    def corrects(self, answer: str, case: RgbCase) -> bool:
        """Return whether the right answer is given instead of the documents' wrong one; it need not be detected."""
        if not is_right(self.labels(answer, case)):
            return False
        text = normalized(answer)
        repeats = any(normalized(wrong) in text for wrong in case.counterfactual)
        return not repeats or all(any(normalized(right) in text for right in part) for part in case.parts)

    def is_correct(self, answer: str, truth: str) -> bool:
        """Return whether an answer is one expected text.

        Args:
            truth: The expected text.
        """
        given, wanted = normalized(answer), normalized(truth)
        if not given or not wanted:
            return False
        if self._strict:
            return given == wanted
        if wanted in given or (len(given) < len(wanted) and given in wanted):
            return True
        words = set(wanted.split())
        return len(words & set(given.split())) / len(words) >= OVERLAP


class Official:
    """The paper's rules: every part must stand in the answer, in any letter case; a refusal is no answer.

    In Chinese the spaces of the answer do not count.

    Args:
        refusals_correct: Whether a refusal that noticed the error counts as its correction, as in the benchmark's
            ``evalue.py`` but not in the paper's figures.
    """

    def __init__(self, *, refusals_correct: bool = False) -> None:
        self._refusals_correct = refusals_correct

    def labels(self, answer: str, case: RgbCase) -> list[int]:
        """Return for each part of the expected answer whether it is there, or ``[-1]`` for a refusal."""
        if self.refusal(answer, case):
            return [-1]
        text = _read(answer, case).lower()
        return [int(any(spelling.lower() in text for spelling in part)) for part in case.parts]

    def refusal(self, answer: str, case: RgbCase) -> str | None:
        """Return the words that refuse, ``None`` when there are none."""
        return _first(OFFICIAL_REFUSALS, _read(answer, case))

    def detection(self, answer: str, case: RgbCase) -> str | None:
        """Return the words that say that the documents are wrong, ``None`` when there are none."""
        return _first(OFFICIAL_DETECTIONS, _read(answer, case))

    def corrects(self, answer: str, case: RgbCase) -> bool:
        """Return whether the right answer is given instead of the documents' wrong one."""
        labels = self.labels(answer, case)
        return is_right(labels) or (self._refusals_correct and labels == [-1])


Scorer: TypeAlias = Space | Official


class RgbParams(Params):
    """Parameters of RGB's evaluators."""

    scorer: Annotated[
        Literal["space", "official"],
        Field(
            description="'space': the RGB application's rules (key words; containment or 80 % of the words). "
            "'official': the paper's (every part must stand in the answer; the prompt's own sentences)."
        ),
    ] = "space"
    strict: Annotated[bool, Field(description="With 'space': only an answer that equals an expected one is right.")] = (
        False
    )


class CounterfactualParams(RgbParams):
    """Parameters of counterfactual robustness."""

    refusals_correct: Annotated[
        bool,
        Field(
            description="With 'official': a refusal counts as a correction, as in the benchmark's evalue.py but not "
            "in the paper's figures."
        ),
    ] = False


class RgbEvaluator(RowEvaluator):
    """Base of the four RGB evaluators: the cases that they score, and the rules by which answers are read.

    Class attributes:
        tasks: RGB's tasks whose cases they score; cases that name another are not applicable.
    """

    parameters = RgbParams
    params: RgbParams
    tasks: ClassVar[tuple[str, ...]]

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Score a row whose case names no task, or one of this evaluator's."""
        case = rgb_case(row)
        if case.task is not None and case.task not in self.tasks:
            values = NotApplicable(f"The case tests another ability: {case.task}.")
            return RowScore(dict.fromkeys(self.row_metrics, values))
        return self.read(row.actual_answer or "", case, self.scorer)

    @property
    def scorer(self) -> Scorer:
        """The rules by which answers are read."""
        params = self.params
        if params.scorer == "space":
            return Space(strict=params.strict)
        return Official(refusals_correct=isinstance(params, CounterfactualParams) and params.refusals_correct)

    @abstractmethod
    def read(self, answer: str, case: RgbCase, scorer: Scorer) -> RowScore:
        """Score an answer.

        Args:
            case: The test case.
            scorer: The rules by which it is read.
        """


class RgbAccuracy(RgbEvaluator):
    """An RGB evaluator of right answers."""

    def read(self, answer: str, case: RgbCase, scorer: Scorer) -> RowScore:
        """Score 1 when every part of the expected answer is there."""
        if not case.parts:
            nothing = Unscored(Reason.UNSCORABLE, "The case has no expected answer.")
            return RowScore(dict.fromkeys(self.row_metrics, nothing))
        labels = scorer.labels(answer, case)
        return RowScore({"accuracy": float(is_right(labels))}, Evidence(_absent(labels, case), data={"label": labels}))


def _accuracy(description: str) -> tuple[Metric, ...]:
    return (
        Metric(
            "accuracy", "Accuracy", higher_is_better=True, primary=True, share=True, threshold=None,
            description=description,
        ),
    )  # fmt: skip


@register
class NoiseRobustness(RgbAccuracy):
    """Measures how often the answer is right although some of the documents are noise.

    **Method.** The share of rows whose answer contains the expected answer. With ``scorer=space`` both are put into
    lower case, without punctuation at the end and with single spaces; the answer is right when it contains the
    expected one, when it is shorter and contained in it, or when at least 80 % of the expected answer's different
    words are in it. With ``scorer=official`` every part of the expected answer must be contained in it, letter case
    apart; in Chinese the answer's spaces do not count; an answer with the refusal that the prompt asks for is wrong.

    **Cases.** ``leadline data rgb build`` writes them, with the noise level in the metadata, so that ``leadline data
    rgb table`` shows accuracy by noise. Cases of RGB's other tasks are not applicable; cases that name no task
    are scored. Several expected answers are spellings of one; ``rgb.answer`` in the metadata has RGB's own notation
    (parts that must all be there, each in one of its spellings), and each part is then looked for alone.

    **Edge cases.**

    * The words are looked for and not understood: "not Norway" is right for "Norway" under both scorers, and "a" is
      right for "Tampa, Florida" under ``space``. The rules are kept for the sake of comparable figures.
    * A blank answer is wrong. A case without an expected answer is unscored.
    * Accuracy without any document (the paper's *Acc*) is measured on cases of the task ``closed_book``.
    """

    tasks = (NOISE, CLOSED_BOOK)
    spec = Spec(
        id="rgb.noise_robustness",
        name="Noise Robustness (RGB)",
        origin="rgb",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        also_reads=(RowField.METADATA,),
        metrics=_accuracy("Share of answers that contain the expected answer, although documents are noise."),
        suits=(DataKind.RGB,),
        insight_type="robustness",
        problem_type="robustness",
        keywords=("rgb", "rag", "noise", "robustness"),
        source=_SOURCE,
    )


@register
class InformationIntegration(RgbAccuracy):
    """Measures how often the answer is right when its parts stand in different documents.

    **Method.** As noise robustness: the share of rows whose answer contains the expected answer, by the same rules and
    the same two scorers. The cases differ: each part of the expected answer comes from another document.

    **Edge cases.**

    * With RGB's own notation of the answer (``rgb.answer`` in the metadata, as ``leadline data rgb build`` writes it)
      every part must be there. With one plain expected answer ``space`` is content with 80 % of its words: the
      application's example about the climate has 7 of 11 words and is wrong by its own rule, although its text calls
      it right.
    * A refusal is wrong under ``official``; under ``space`` it is read like any other answer.
    * A case without an expected answer is unscored; a case of another task is not applicable.
    """

    tasks = (INTEGRATION,)
    spec = Spec(
        id="rgb.information_integration",
        name="Information Integration (RGB)",
        origin="rgb",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        also_reads=(RowField.METADATA,),
        metrics=_accuracy("Share of answers that contain every part of an answer that no single document gives."),
        suits=(DataKind.RGB,),
        insight_type="robustness",
        problem_type="robustness",
        keywords=("rgb", "rag", "integration", "robustness"),
        source=_SOURCE,
    )


@register
class NegativeRejection(RgbEvaluator):
    """Measures how often a system refuses to answer when none of its documents contains the answer.

    **Method.** The share of rows whose answer is a refusal. With ``scorer=space`` it is one when it contains one of
    27 phrases, letter case apart: those of the paper's figure 3 ("can not answer", "insufficient information in
    documents", …) and further key words ("unable to", "not mentioned", "unknown", …). With ``scorer=official`` it
    must contain "insufficient information" or "信息不足" as written here, from the sentence that the prompt asks for.

    **Edge cases.**

    * The key words of ``space`` are generous: "Paris is correct; the unknown soldier is elsewhere" is a refusal. The
      evidence names the phrase that decided.
    * A blank answer is no refusal.
    * Only cases whose documents lack the answer make sense. Cases that name another of RGB's tasks are not
      applicable; cases that name no task are scored.
    * The paper's second figure, Rej*, asks a judge with a prompt of the benchmark; it is not computed here.
    """

    tasks = (REJECTION,)
    spec = Spec(
        id="rgb.negative_rejection",
        name="Negative Rejection (RGB)",
        origin="rgb",
        inputs=(RowField.ACTUAL_ANSWER,),
        also_reads=(RowField.METADATA,),
        metrics=(
            Metric(
                "rejection_rate", "Rejection rate", higher_is_better=True, primary=True, share=True, threshold=None,
                description="Share of refusals among the answers to questions that the documents do not answer.",
            ),
        ),
        suits=(DataKind.RGB,),
        insight_type="robustness",
        problem_type="robustness",
        keywords=("rgb", "rag", "rejection", "robustness"),
        source=_SOURCE,
    )  # fmt: skip

    def read(self, answer: str, case: RgbCase, scorer: Scorer) -> RowScore:
        """Score 1 for a refusal."""
        words = scorer.refusal(answer, case)
        message = "The answer has no words of a refusal." if words is None else f"The answer refuses: {words!r}."
        return RowScore({"rejection_rate": float(words is not None)}, Evidence(message, data={"refusal": words}))


@register
class CounterfactualRobustness(RgbEvaluator):
    """Measures how often a system notices that its documents are wrong, and how often it gives the right answer then.

    **Method.** The error detection rate is the share of rows whose answer says that something is wrong. The error
    correction rate is the share of rows whose answer is right. With ``scorer=space`` detection is one of 16 key words
    ("incorrect", "wrong", "however", …) or the wrong answer in "not …" or "… is wrong"; an answer corrects when it
    is right by the rules of noise robustness and does not merely repeat the wrong one; both rates are over all
    rows. With ``scorer=official`` detection is "factual errors" or "事实性错误" as written here, from the sentence
    that the prompt asks for, and the correction rate is over the rows where the error was detected, as in the
    paper's table 7.

    **Inputs.** The documents' wrong answer stands in the metadata as ``counterfactual_answer`` (a column of that
    name will do); without it only the key words show a detection.

    **Edge cases.**

    * Under ``official`` the correction of a row whose error was not detected is not applicable, not 0. A refusal
      corrects nothing, unless ``refusals_correct``.
    * Under ``space`` a correction needs no detection, and "However, the answer is London" is a detection. The evidence
      names the words that decided.
    * A case without an expected answer leaves the correction rate unscored. Cases of another task are not applicable.
    * The paper's second figure, ED*, asks a judge with a prompt of the benchmark; it is not computed here.
    """

    tasks = (COUNTERFACTUAL,)
    parameters = CounterfactualParams
    spec = Spec(
        id="rgb.counterfactual_robustness",
        name="Counterfactual Robustness (RGB)",
        origin="rgb",
        inputs=(RowField.EXPECTED_ANSWER, RowField.METADATA, RowField.ACTUAL_ANSWER),
        optional=frozenset({RowField.METADATA}),
        input_names=("expected_answer", "counterfactual_answer", "actual_answer"),
        metrics=(
            Metric(
                "error_detection_rate", "Error detection rate", higher_is_better=True, share=True, threshold=None,
                description="Share of answers that say that the documents are wrong.",
            ),
            Metric(
                "error_correction_rate", "Error correction rate", higher_is_better=True, primary=True, share=True,
                threshold=None,
                description="Share of answers that are right although the documents are wrong; with the official "
                "scorer among those that notice it.",
            ),
        ),
        suits=(DataKind.RGB,),
        insight_type="robustness",
        problem_type="robustness",
        keywords=("rgb", "rag", "counterfactual", "robustness"),
        source=_SOURCE,
    )  # fmt: skip

    def read(self, answer: str, case: RgbCase, scorer: Scorer) -> RowScore:
        """Score detection and correction."""
        words = scorer.detection(answer, case)
        labels = scorer.labels(answer, case)
        data: dict[str, Json] = {"detection": words, "label": labels, "correct": is_right(labels)}
        message = "Nothing says that the documents are wrong." if words is None else f"Says that they err: {words!r}."
        return RowScore(
            {
                "error_detection_rate": float(words is not None),
                "error_correction_rate": self._correction(answer, case, scorer, detected=words is not None),
            },
            Evidence(f"{message} {_absent(labels, case)}".strip(), data=data),
        )

    def _correction(
        self, answer: str, case: RgbCase, scorer: Scorer, *, detected: bool
    ) -> float | Unscored | NotApplicable:
        if not case.parts:
            return Unscored(Reason.UNSCORABLE, "The case has no expected answer.")
        if isinstance(scorer, Official) and not detected:
            return NotApplicable("The error was not detected, so there is none to correct.")
        return float(scorer.corrects(answer, case))


def _absent(labels: list[int], case: RgbCase) -> str:
    """Return which part of the expected answer is not there."""
    if labels == [-1]:
        return "The answer is a refusal."
    absent = [" / ".join(part) for label, part in zip(labels, case.parts, strict=True) if label == 0]
    return f"Not in the answer: {'; '.join(absent)[:500]}." if absent else ""


def is_right(labels: Sequence[int]) -> bool:
    """Return whether every part of the expected answer is there."""
    return 1 in labels and 0 not in labels and -1 not in labels


def normalized(text: str) -> str:
    """Return a text in lower case, without punctuation at its end, with single spaces."""
    return " ".join(text.lower().strip().rstrip(_ENDS).split())


def _read(answer: str, case: RgbCase) -> str:
    return answer.replace(" ", "") if case.language == "zh" else answer


def _first(wanted: Sequence[str], text: str) -> str | None:
    return next((words for words in wanted if words in text), None)


def rgb_case(row: Row) -> RgbCase:
    """Read a row's metadata ``rgb``, as ``leadline data rgb build`` writes it; without it the row's own fields.

    ``rgb.answer`` is RGB's own notation: a text, or a list of parts that must all be there, each a text or a list of
    spellings. Without it the expected answers are the spellings of one part. ``counterfactual_answer`` (in ``rgb``
    or beside it) is the wrong answer of the documents, or several.
    """
    given = row.metadata.get("rgb")
    tags: Mapping[str, Json] = given if isinstance(given, Mapping) else {}
    task = tags.get("task")
    wrong = tags.get("counterfactual_answer", row.metadata.get("counterfactual_answer"))
    parts = tuple(_parts(tags["answer"])) if tags.get("answer") else _one_part(row.expected_answers)
    return RgbCase(
        task=task if isinstance(task, str) else None,
        parts=parts,
        counterfactual=tuple(_texts(wrong)),
        language=_language(tags.get("language"), row),
    )


def _one_part(spellings: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return (spellings,) if spellings else ()


def _parts(answer: Json) -> Iterator[tuple[str, ...]]:
    for part in answer if isinstance(answer, list | tuple) else (answer,):
        spellings = tuple(_texts(part))
        if spellings:
            yield spellings


def _texts(value: Json) -> Iterator[str]:
    for each in value if isinstance(value, list | tuple) else (value,):
        if isinstance(each, str):
            yield each
        elif isinstance(each, int | float) and not isinstance(each, bool):
            yield str(each)


def _language(tag: Json, row: Row) -> Language:
    if tag == "zh":
        return "zh"
    if tag == "en":
        return "en"
    texts = (*row.expected_answers, row.actual_answer or "")
    return "zh" if any(_HAN.search(text) for text in texts) else "en"
