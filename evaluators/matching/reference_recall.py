"""Reference recall: does the answer hold what the expected answer says?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import Field

from leadline.evaluators.core import DataKind, EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, NotApplicable, Row, RowField, RowScore, Source, Span
from leadline.evaluators.ground import listing, quoted
from leadline.evaluators.text.content_words import DENIALS, EMPTY, NO, YES, Content, ContentItem, read_content

MOST_REFERENCES: Final = 200
"""Expected answers of a row that are compared."""

_SHORT: Final = 3
"""Words of an expected answer that an answer which is right can hardly do without."""
_MOST_SIGNS: Final = 2_000
"""Characters of an expected answer beyond which its words are not counted."""

_NUMBER: Final = 2.0
_IN_QUESTION: Final = 0.35
_INITIAL: Final = 0.3
_LAST_NAME: Final = 2.0
_YEAR_OF_DATE: Final = 3.0
"""Weights, against 1 for a word: a wrong number makes an answer wrong, a word of the question says little, a person is
known by the last name, and a year is most of a date. Chosen on half of EVOUNA's questions."""

_DOUBTED: Final = 0.45
"""Most that an answer gets which lacks a number of the expected answer, apart from the parts of a date, or which lists
many things."""

_MANY: Final = 3
_PARTLY_OF_MANY: Final = 0.8
"""With more other names than :data:`_MANY` some share a word with anything: what is held in part counts less."""

_REACH: Final = 4
"""Words before an item in which a denial is about it."""
_BRIEF: Final = 8
_LESS: Final = 0.01
"""Words of an answer from which each doubling makes so much less of a full share: right answers are the briefer."""

_LISTED: Final = 10
"""An answer that lists so many things names the right one by chance."""


class ReferenceRecallParams(Params):
    """Parameters of reference_recall."""

    max_words: int = Field(
        12, ge=1, le=100, description="Expected answers of more words are passed over: they say too much."
    )


@register
class ReferenceRecall(RowEvaluator):
    """Looks for what a short expected answer says in the answer: words, names, numbers, dates, yes or no.

    **Method.** Both texts are read as items: words in any inflection and without accents, numbers by value ("four" is
    4), months by name or number, initials as one word; Chinese, Japanese and Thai as pairs of signs.
    ``reference_recall`` is the weighted share of the expected answer's items that stand in the answer, the best of
    several expected answers. Numbers weigh twice, a last name twice, words of the question a third; articles and the
    like weigh nothing. An item that is denied ("not Paris") is not there. For *yes* and *no* the answer's first word
    counts, or else whether it denies.

    **Edge cases.**

    * Where the shortest expected answer has more than three words, the value is ``sentence_recall``: so much can be
      said in other words that a right answer reaches its threshold half of the time, a wrong one hardly ever.
    * An expected answer of more than ``max_words`` words, or of JSON, is passed over; a row without another one is not
      applicable. An empty answer holds nothing: 0. An answer that lacks a number of the expected one gets 0.45 at most.
    * An answer that lists ten things or more of which one is expected gets less than half. Of one that holds all in
      more than eight words each doubling takes a hundredth: it says more that may be wrong.
    * A right answer in other words ("Nova Scotia" for "Oak Island") is not recognised, and "It opened in 1998 and
      closed in 2001" holds either year: about one in ten of its verdicts is wrong, which a run's verdict allows for.

    **Source.** Leadline's own, after the lexical matching of open-domain question answering (Mallen et al. 2023).
    Chosen on half of the questions of EVOUNA (Wang et al. 2023, people's verdicts on five systems' answers), measured
    on the other half; ``docs/verdicts.md`` has the figures.
    """

    spec = Spec(
        id="reference_recall",
        name="Reference Recall",
        inputs=(RowField.QUESTION, RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        optional=frozenset({RowField.QUESTION}),
        metrics=(
            Metric.higher(
                "reference_recall",
                "Share of what an expected answer of up to three words says that the answer holds.",
                threshold=0.5,
                primary=True,
            ),
            Metric.higher(
                "sentence_recall",
                "Share of what an expected answer of more words says that the answer holds.",
                threshold=0.65,
            ),
        ),
        suits=(DataKind.QUESTIONS,),
        keywords=("rule-based", "recall", "accuracy", "open-domain", "short answers"),
        source="Wang et al. 2023, https://arxiv.org/abs/2305.12421",
    )
    parameters = ReferenceRecallParams
    params: ReferenceRecallParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Compare the answer of one row with its expected answers."""
        texts = [text for text in dict.fromkeys(row.expected_answers) if self._is_short(text)][:MOST_REFERENCES]
        if not texts:
            return RowScore.not_applicable(
                self.row_metrics, f"No expected answer has 1 to {self.params.max_words} words."
            )
        answer, question = read_content(row.actual_answer or ""), read_content(row.question or "")
        asked = frozenset(item.value for item in question.items if isinstance(item.value, str))
        found = {text: _recall(read_content(text), answer, asked) for text in texts}
        partly = _PARTLY_OF_MANY if len(texts) > _MANY else 1.0
        nearest, best = max(found.items(), key=lambda one: one[1].share)
        share = best.share if best.share == 1 else best.share * partly
        message = f"The answer lacks {listing(map(quoted, best.missing), most=5)}." if best.missing else ""
        if share and _lists(answer):
            share *= _DOUBTED
            message = "The answer lists many things, of which one is expected."
        elif share == 1:
            share -= _LESS * math.log2(max(1, len((row.actual_answer or "").split()) / _BRIEF))
        metric, other = self.row_metrics if min(map(_words, texts)) <= _SHORT else reversed(self.row_metrics)
        aside = NotApplicable(f"The expected answer has {'more' if metric == 'sentence_recall' else 'fewer'} words.")
        spans = [
            Span(Source.EXPECTED_ANSWER, start, start + len(part), row.expected_answers.index(nearest))
            for part in best.missing
            if (start := nearest.find(part)) >= 0  # with accents it stands there otherwise
        ]
        return RowScore({metric: share, other: aside}, Evidence(message, spans=tuple(spans)))

    def _is_short(self, text: str) -> bool:
        return text.lstrip()[:1] not in ("{", "[") and 0 < _words(text) <= self.params.max_words


def _words(text: str) -> int:
    """Return the number of words of a text, of scripts without spaces half that of the signs; 0 if it says nothing."""
    signs = len(text)
    if signs > _MOST_SIGNS:
        return signs
    items = read_content(text).items
    unspaced = sum(isinstance(item.value, str) and len(item.value) == 2 and item.value > "\u0e00" for item in items)
    return max(len(text.split()), unspaced // 2) if items else 0


@dataclass(frozen=True, slots=True)
class _Held:
    """The share of an expected answer that an answer holds, and what of it is missing."""

    share: float
    missing: tuple[str, ...] = ()


def _recall(expected: Content, answer: Content, asked: frozenset[str]) -> _Held:
    items = [item for item in expected.items if item.value not in EMPTY] or list(expected.items)
    if not items:
        return _Held(0.0)
    if len(expected.items) == 1 and (said := _polarity(expected)) is not None:
        same = _polarity(answer) is said if answer.items else False
        return _Held(1.0) if same else _Held(0.0, (expected.text.strip(),))
    denied = any(item.value in DENIALS for item in expected.items)
    total = held = 0.0
    missing = []
    for place, item in enumerate(items):
        weight = _weight(items, place, asked)
        total += weight
        if _stands(item, items, answer, denied=denied):
            held += weight
        else:
            missing.append(item)
    unseen = missing and not any(_places(item, items, answer) for item in missing)
    if unseen and len(expected.squeezed) >= 4 and expected.squeezed in answer.squeezed:
        return _Held(1.0)  # written in one word here, in several there
    dated = any(item.kind == "month" for item in items)
    most = 1.0 if dated or all(item.kind == "word" for item in missing) else _DOUBTED
    return _Held(min(most, held / total), tuple(dict.fromkeys(_shown(item, expected) for item in missing)))


def _weight(items: Sequence[ContentItem], place: int, asked: frozenset[str]) -> float:
    item = items[place]
    if item.kind == "month":
        return 1.0
    if isinstance(item.value, float):
        if not any(other.kind == "month" for other in items):
            return _NUMBER
        return _YEAR_OF_DATE if item.value >= 1000 else 1.0
    if item.value in asked:
        return _IN_QUESTION
    if len(item.value) == 1:
        return _INITIAL
    name = len(items) > 1 and all(other.kind == "word" and other.capital for other in items)
    return _LAST_NAME if name and place == len(items) - 1 else 1.0


def _stands(item: ContentItem, items: Sequence[ContentItem], answer: Content, *, denied: bool) -> bool:
    """Return whether an item stands in an answer, not denied there unless the expected answer denies something too."""
    return any(denied or not _is_denied(answer, place) for place in _places(item, items, answer))


def _places(item: ContentItem, items: Sequence[ContentItem], answer: Content) -> Sequence[int]:
    """Return where an item stands in an answer, of a name where it has a capital."""
    proper = item.capital and answer.cased and all(other.capital for other in items if other.kind == "word")
    places = answer.places(item)
    if proper:
        places = [place for place in places if answer.items[place].capital]
    return places


def _is_denied(answer: Content, place: int) -> bool:
    """Return whether a denial stands shortly before an item, in the same clause: "not France or Switzerland"."""
    for before in range(place - 1, max(-1, place - 1 - _REACH), -1):
        between = answer.text[answer.items[before].start : answer.items[place].start]
        if any(mark in between for mark in ".;:!?,(") or " but " in between:
            return False
        if answer.items[before].value in DENIALS:
            return True
        if place - before > 1 and answer.items[before + 1].value not in EMPTY:
            return False
    return False


def _polarity(content: Content) -> bool | None:
    """Return whether a text says yes or no by its first word, or that it denies something; ``None`` for neither."""
    first = content.items[0].value
    if first in YES or first in NO:
        return first in YES
    if len(content.items) == 1:
        return None
    return not any(item.value in DENIALS for item in content.items)


def _lists(answer: Content) -> bool:
    """Return whether an answer is a list: most of it stands in short pieces between commas or in lines."""
    pieces = answer.text.replace("\n", ",").replace(";", ",").split(",")
    short = [piece for piece in pieces if 0 < len(piece.split()) <= 4]
    return len(short) >= _LISTED and sum(map(len, short)) > len(answer.text) / 2


def _shown(item: ContentItem, expected: Content) -> str:
    end = next((other.start for other in expected.items if other.start > item.start), len(expected.text))
    return expected.text[item.start : end].strip(" ,.;:!?\"'()-")
