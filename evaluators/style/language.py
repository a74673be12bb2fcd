"""Language: is the answer in the language of the question, or in one that is asked for?

A language is found by py3langid, a classifier of byte n-grams that comes with its model.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping
from functools import cache
from typing import Annotated, Any, Final, NamedTuple

from pydantic import AfterValidator, Field

from leadline.evaluators.core import EvalContext, Params, RowEvaluator, Spec, one_metric, register
from leadline.evaluators.data import Evidence, Reason, Row, RowField, RowScore
from leadline.evaluators.text.sentences import LANGUAGES

ENGLISH: Final = "en"

LEAST_BYTES: Final = 16
"""Bytes of letters, in UTF-8, below which a text is too short to tell: four words or so, eight Cyrillic letters, six
Chinese characters. Below it names fail, which are in no language."""

LEAST_OF_QUESTIONS: Final = 12
"""Bytes of letters of a question, which is no name."""

MOST_CHARACTERS: Final = 5_000
"""Characters of a text that are looked at: more make no surer."""

CERTAIN: Final = 0.9
"""Probability from which a language counts as found."""

FAVOUR: Final = 25.0
"""How much more probable the language that is expected is than any other one before the text is read: about as probable
as all others together."""

_SELDOM: Final = dict.fromkeys(
    "ace an ary arz bcl br crh ext fo fuv fy gcf gcr gom grc gug guw hbo kab kik la lij ltg oc pcm sdh se uzs vec"
    " vo wa wuu zxx".split(),
    0.03,
) | {"af": 0.3, "gl": 0.2, "lb": 0.2}
"""How much less probable languages are that few people write, or no one."""

_NO_PROSE: Final = re.compile(
    r"```(?s:.)*?(?:```|\Z)|`[^`\n]*`|^[ \t]*\|.*\|[ \t]*$|<[^<>]{1,200}>|\b(?:https?://|www\.)\S+|\b[\w.+-]{1,64}@\S+",
    re.M,
)

_lock: Final = threading.Lock()


class Language(NamedTuple):
    """A language that was found.

    Attributes:
        code: ISO 639-1 code.
        probability: From 0 to 1.
    """

    code: str
    probability: float


def prose(text: str) -> str:
    """Return a text without code, tables, tags and addresses, which are in no language."""
    return _NO_PROSE.sub(" ", text)


def probabilities(text: str, least: int = LEAST_BYTES) -> dict[str, float]:
    """Return how probable each language is for a text, the most probable first; nothing for one that is too short.

    Bayes' rule on the classifier's, with languages that few people write less probable before.

    Args:
        text: The text; see :func:`prose`.
        least: Bytes of letters below which it is too short.
    """
    letters = "".join(letter for letter in text[:MOST_CHARACTERS] if letter.isalpha() or letter.isspace())
    if sum(len(letter.encode("utf-8", "surrogatepass")) for letter in letters if not letter.isspace()) < least:
        return {}
    with _lock:
        ranked = _identifier().rank(" ".join(letters.split()))
    weighed = {code: float(found) * _SELDOM.get(code, 1.0) for code, found in ranked}
    total = sum(weighed.values())
    return {code: weighed[code] / total for code in sorted(weighed, key=lambda code: (-weighed[code], code))}


def chance_of(expected: Collection[str], found: Mapping[str, float]) -> float:
    """Return how probable it is that a text is in one of the languages expected.

    Args:
        expected: Codes of languages; before the text is read they are :data:`FAVOUR` times as probable as others.
        found: What :func:`probabilities` says of the text.
    """
    right = FAVOUR * sum(found.get(code, 0.0) for code in expected)
    wrong = sum(chance for code, chance in found.items() if code not in expected)
    return right / (right + wrong) if right else 0.0


def detect(text: str, certain: float = CERTAIN) -> Language | None:
    """Return the language of a text, ``None`` where that is not sure."""
    found = probabilities(text)
    code = next(iter(found), None)
    return Language(code, found[code]) if code is not None and found[code] >= certain else None


def languages() -> tuple[str, ...]:
    """Return the codes of the languages that are known."""
    return tuple(sorted(_identifier().labels))


@cache
def _identifier() -> Any:
    from py3langid import langid

    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)


def _codes(codes: tuple[str, ...]) -> tuple[str, ...]:
    for code in codes:
        if code not in LANGUAGES:
            raise ValueError(f"{code!r} is no language code of ISO 639-1, such as en")
    return codes


class LanguageParams(Params):
    """Parameters of the language check."""

    expected: Annotated[
        tuple[str, ...],
        Field(description="Codes (ISO 639-1) of the languages that answers may be in; empty: the question's."),
        AfterValidator(_codes),
    ] = ()
    certainty: float = Field(CERTAIN, gt=0.5, lt=1, description="Probability from which a language counts as found.")


@register
class LanguageCheck(RowEvaluator):
    """Is an answer in the language of its question, or in one of the languages that were asked for?

    **Method.** py3langid, a classifier of byte n-grams for some hundred languages that comes with its model, says how
    probable each language is for a text, whose code, tables, tags and addresses are left out; languages that few people
    write count less. Before it is read, an answer is held to be as probable in the expected language as in all others
    together. It passes (1) where the expected language then has a probability of ``certainty`` or more, and fails (0)
    where it has at most ``1 - certainty``. Expected is the question's language, each one as far as it is probable, or
    one of those that ``expected`` names.

    **Edge cases.**

    * An answer of fewer than 16 bytes of letters ("Yes, 30 days", eight Cyrillic letters, five Chinese characters) or a
      question of fewer than 12 is in no language that could be told: the row is unscored as unsure, never 0. So is one
      between the two limits, as in close relatives such as Danish and Norwegian, or a text in two languages.
    * A blank answer or question, or one of code alone, is not applicable.

    **Source.** Lui and Baldwin 2012, "langid.py: An Off-the-shelf Language Identification Tool",
    https://aclanthology.org/P12-3005; py3langid, https://github.com/adbar/py3langid.
    """

    spec = Spec(
        id="language",
        name="Language",
        inputs=(RowField.QUESTION, RowField.ACTUAL_ANSWER),
        metrics=one_metric(
            "language_as_expected",
            "Share of answers in the language of the question, or in one that was asked for.",
            threshold=0.95,
            share=True,
        ),
        packages=("py3langid",),
        version="2",
        insight_type="style",
        problem_type="style",
        keywords=("language identification", "wrong language", "translation", "locale"),
        source="Lui and Baldwin 2012, https://aclanthology.org/P12-3005",
    )
    parameters = LanguageParams
    params: LanguageParams

    @property
    def required(self) -> tuple[RowField, ...]:
        """The answer, and the question where its language is the expected one."""
        return (RowField.ACTUAL_ANSWER,) if self.params.expected else super().required

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The fields that are required."""
        return self.required

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Compare the answer's language with the one that is expected."""
        answer = prose(row.actual_answer or "")
        if not answer.strip():
            return RowScore.not_applicable(self.row_metrics, "The answer has no text, and so is in no language.")
        found = probabilities(answer)
        asked = dict.fromkeys(self.params.expected, 1.0)
        if not asked:
            question = prose(row.question or "")
            if not question.strip():
                return RowScore.not_applicable(self.row_metrics, "The question has no text, and so is in no language.")
            asked = probabilities(question, LEAST_OF_QUESTIONS)
            if not asked:
                return self._unsure("question", asked, LEAST_OF_QUESTIONS)
        chance = (
            chance_of(self.params.expected, found)
            if self.params.expected
            else sum(share * chance_of((code,), found) for code, share in asked.items())
        )
        if not found or 1 - self.params.certainty < chance < self.params.certainty:
            return self._unsure("answer", found)
        best, wanted = next(iter(found)), self.params.expected or (next(iter(asked)),)
        message = f"The answer is in {best!r}; expected was {' or '.join(map(repr, wanted))}."
        return RowScore(
            {"language_as_expected": float(chance >= self.params.certainty)},
            evidence=Evidence("" if chance >= self.params.certainty else message, data={"language": best}),
        )

    def _unsure(self, what: str, found: dict[str, float], least: int = LEAST_BYTES) -> RowScore:
        if not found:
            message = f"The {what} is too short to tell its language: fewer than {least} bytes of letters."
        else:
            likely = " or ".join(map(repr, list(found)[:2]))
            message = f"The language of the {what} is unsure: {likely}."
        return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, message)
