"""Texts and patterns in the answer: does it hold those that it should, or none that it should not?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from pydantic import Field, field_validator

from leadline.evaluators.core import EvalContext, Params, RowEvaluator, Spec, one_metric, register
from leadline.evaluators.data import Evidence, Reason, Row, RowField, RowScore, Source, Span
from leadline.evaluators.ground import listing, quoted
from leadline.evaluators.text.content_words import UNSPACED, with_iso_dates
from leadline.evaluators.text.patterns import PatternError, compiled

_LETTER: Final = rf"(?:[^\W_{UNSPACED}\uac00-\ud7af]|[\u0300-\u036f\u0900-\u0903\u093a-\u094d])"
_GOES_ON: Final = re.compile(_LETTER * 2)
_NUMBER_BEFORE: Final = re.compile(r"\d[.,'\u2019]$|(?:^|[^\w\s)])[-\u2212]$|^[-\u2212]$|\s[-\u2212]$")
_NUMBER_BEHIND: Final = re.compile(r".*\d\|[.,'\u2019]\d|(?:.*\D)?\d{1,3}\|\s\d{3}(?!\d)", re.DOTALL)
_SIGN_BEHIND: Final = re.compile(r"#|\+(?!\w)|['\u2019]t\b")
_LONG: Final = 4
_INFLECTED: Final = re.compile(
    rf"(?i)(?:[^\W\d_]{{{_LONG}}}\|(?:e?s|\d\d?)|.{{0,{_LONG - 1}}}\d\|(?:st|nd|rd|th))(?:[^\w].*)?", re.DOTALL
)
"""Texts of four letters in the plural or with the mark of a footnote, and numbers as ordinals, are the same words."""

PLACES: Final = 100
"""Texts that the evidence points at, at most."""


class ContainsParams(Params):
    """Parameters of contains."""

    texts: tuple[str, ...] = Field(
        (), description="Texts to look for in every answer; without them the expected answers."
    )
    which: Literal["any", "all", "none"] = Field("any", description="How many of them must stand in the answer.")
    ignore_case: bool = Field(True, description="Upper and lower case are the same.")
    whole_words: bool = Field(
        True, description="What is found may not go on as a word or number: cat is not in catalogue, 5 not in 3.5."
    )


@register
class Contains(RowEvaluator):
    """Looks for texts in the answer: one of the expected answers, or texts that are given once for all answers.

    **Method.** A text is contained if its characters stand in the answer in a row and do not go on as a word or number
    to either side: "5" is not in "15" nor "3.5", "C" not in "C++"; a plural's *s* and the *th* of "5th" may follow. By
    default case does not count, any white space in either equals one space, and days with a month's name are the same
    in any order. ``which`` says how many of the texts must be there: ``any`` (the default, as expected answers are
    alternatives), ``all``, or ``none``. The metric is the share of answers that hold what they should; the evidence
    points at the places, and names what is missing or unwanted.

    **Edge cases.**

    * Blank texts are left out, since every answer holds them; a row without others is not applicable.
    * A negation is not understood: "It is not Paris" contains "Paris". A condition (``text_matching``) can say more.
    * Scripts without spaces between words have no whole words: any place counts there.
    * An empty answer contains nothing, which satisfies ``none``.

    **Source.** Substring match, as in promptfoo's ``icontains`` and ``contains-any``; for expected answers the lenient
    accuracy of open-domain question answering (Mallen et al. 2023).
    """

    spec = Spec(
        id="contains",
        name="Contains",
        inputs=(RowField.EXPECTED_ANSWER, RowField.ACTUAL_ANSWER),
        metrics=one_metric("contains", "Share of answers that hold the texts that they should hold.", share=True),
        version="2",
        keywords=("rule-based", "substring", "icontains", "accuracy"),
        source="Mallen et al. 2023, https://arxiv.org/abs/2212.10511",
    )
    parameters = ContainsParams
    params: ContainsParams

    @property
    def required(self) -> tuple[RowField, ...]:
        """The answer, and an expected one unless the texts are given."""
        return (RowField.ACTUAL_ANSWER,) if self.params.texts else self.spec.required

    @property
    def reads(self) -> tuple[RowField, ...]:
        """The required fields."""
        return self.required

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Look into one answer."""
        texts = list(dict.fromkeys(text for text in self.params.texts or row.expected_answers if text.strip()))
        if not texts:
            return RowScore.not_applicable(self.row_metrics, "There is no text to look for.")
        answer = row.actual_answer or ""
        folded = self._folded(answer)
        found = [text for text in texts if any(map(self._is_in, self._folded(text), folded))]
        lacking = [text for text in texts if text not in set(found)]
        good = {"any": bool(found), "all": not lacking, "none": not found}[self.params.which]
        wrong = found if self.params.which == "none" else lacking
        verb = "contains" if self.params.which == "none" else "does not contain"
        message = "" if good else f"The answer {verb} {listing(map(quoted, wrong))}."
        return RowScore({"contains": float(good)}, Evidence(message, tuple(self._places(found[:PLACES], answer))))

    def _folded(self, text: str) -> tuple[str, str]:
        """Return a text as it is and with its dates in one order: parts of a date are found too."""
        line = " ".join(unicodedata.normalize("NFC", text).split())
        dated = with_iso_dates(line)
        return (line.casefold(), dated.casefold()) if self.params.ignore_case else (line, dated)

    def _is_in(self, text: str, answer: str) -> bool:
        at = answer.find(text)
        while at >= 0 and self.params.whole_words and not _ends_there(text, answer, at):
            at = answer.find(text, at + 1)
        return at >= 0

    def _places(self, texts: Iterable[str], answer: str) -> Iterator[Span]:
        """Yield the first place of each text that stands in the answer with the same white space."""
        low = answer.lower()
        ignoring = self.params.ignore_case and len(low) == len(answer)  # a few letters become two in lower case
        for text in texts:
            at = low.find(text.lower()) if ignoring else answer.find(text)
            if at >= 0:
                yield Span(Source.ACTUAL_ANSWER, at, at + len(text), note=quoted(text, most=60))


def _ends_there(text: str, answer: str, at: int) -> bool:
    """Return whether a text that stands in an answer goes on as a word or number neither before nor behind."""
    before, behind = answer[max(0, at - 2) : at], answer[at + len(text) : at + len(text) + 6]
    if _GOES_ON.fullmatch(before[-1:] + text[0]) or (text[0].isdigit() and _NUMBER_BEFORE.search(before)):
        return False
    if not _GOES_ON.fullmatch(text[-1] + behind[:1]):
        return not (_NUMBER_BEHIND.match(f"{text[-_LONG:]}|{behind}") or _SIGN_BEHIND.match(behind))
    return bool(_INFLECTED.fullmatch(f"{text[-_LONG:]}|{behind}"))


KEY = "regex"
"""Key of a row's metadata that holds its pattern."""


class RegexParams(Params):
    """Parameters of regex."""

    pattern: str = Field(
        "",
        description="The pattern, in the syntax of Python's re; flags stand in it, as in (?i). A row's own, in its "
        "metadata under the key regex, goes before it.",
    )
    match: Literal["search", "whole", "absent"] = Field(
        "search", description="Where it must match: somewhere (search), the whole answer (whole), or nowhere (absent)."
    )

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        compiled(pattern)
        return pattern


@register
class Regex(RowEvaluator):
    """Matches the answer against a regular expression: one for all answers, or one of each row.

    **Method.** The pattern is given once (``--param 'regex.pattern=…'``) or stands in a row's metadata under the key
    ``regex``, for example in a column of that name. It means what it means to Python's ``re``. It must match somewhere
    in the answer (``re.search``), with ``match=whole`` the whole answer (``re.fullmatch``), with ``match=absent``
    nothing in it. The metric is the share of answers of which that holds; the evidence points at what was matched.

    **Edge cases.**

    * A row without a pattern is not applicable.
    * A parameter that is no pattern is refused before the run; a row with such metadata is unscored, and says why.
    * A pattern may take two seconds on an answer. A row on which it takes longer is unscored (``timeout``), and a
      pattern that ran out of time again and again is not tried further, as in ``text_matching``.
    * White space and line feeds around the answer count: ``whole`` fails on a line feed at its end.

    **Source.** Python's module ``re``; time limits by the package ``regex``.
    """

    spec = Spec(
        id="regex",
        name="Regular Expression",
        inputs=(RowField.ACTUAL_ANSWER,),
        also_reads=(RowField.METADATA,),
        metadata=(KEY,),
        metrics=one_metric(
            "regex", "Share of answers that match the pattern as they should.", name="Matches the pattern", share=True
        ),
        keywords=("rule-based", "pattern", "regexp", "match"),
        source="https://docs.python.org/3/library/re.html",
    )
    parameters = RegexParams
    params: RegexParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Match one answer."""
        own = row.metadata.get(KEY)
        pattern = self.params.pattern if own is None or own == "" else own
        if not isinstance(pattern, str):
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, "The row's pattern is no text.")
        if not pattern:
            return RowScore.not_applicable(
                self.row_metrics, "There is no pattern: give regex.pattern, or a column regex."
            )
        try:
            ready = compiled(pattern)
        except PatternError as error:
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, f"The row's pattern is invalid: {error}.")
        answer = row.actual_answer or ""
        with ctx.regex_budget.waiting(pattern) as seconds:
            find = ready.fullmatch if self.params.match == "whole" else ready.search
            found = find(answer, timeout=seconds)
        if found is None:
            good = self.params.match == "absent"
            return RowScore({"regex": float(good)}, Evidence("" if good else f"Nothing matches {quoted(pattern)}."))
        span = Span(Source.ACTUAL_ANSWER, found.start(), found.end(), note=quoted(pattern, most=60))
        unwanted = self.params.match == "absent"
        return RowScore(
            {"regex": float(not unwanted)},
            Evidence(f"The answer has what {quoted(pattern)} forbids." if unwanted else "", (span,)),
        )
