"""Format: is the answer as long, and made of such Markdown, as it was asked to be?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from leadline.evaluators.core import EvalContext, Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Json, Reason, Row, RowField, RowScore
from leadline.evaluators.ground import listing, quoted
from leadline.evaluators.text.markdown import MarkdownParts, markdown_parts

KEY: Final = "format"
"""Key of a row's metadata that holds its conditions."""

_LIMITS: Final = re.compile(r"\s*(\d{1,9})?\s*(?:(-)\s*(\d{1,9})?)?\s*")


def _limits(given: Any) -> Any:
    """Return limits as text: 3 is "3"."""
    text = str(given) if isinstance(given, int) and not isinstance(given, bool) else given
    if isinstance(text, str):
        found = _LIMITS.fullmatch(text)
        if not found or found[1] is found[3] is None:
            raise ValueError('write "3" (exactly), "3-" (at least), "-5" (at most) or "3-5"')
        if found[1] and found[3] and int(found[1]) > int(found[3]):
            raise ValueError("the lower limit is above the upper one")
    return text


Limits: TypeAlias = Annotated[str, BeforeValidator(_limits)]
"""How many there may be: ``3`` exactly, ``3-`` at least, ``-5`` at most, ``3-5`` both."""


class _Conditions(Params):
    characters: Annotated[Limits | None, Field(description='Characters: "-500" is at most 500.')] = None
    words: Annotated[Limits | None, Field(description="Words set apart by white space.")] = None
    sentences: Annotated[Limits | None, Field(description="Sentences.")] = None
    lines: Annotated[Limits | None, Field(description="Lines that are not blank.")] = None
    paragraphs: Annotated[Limits | None, Field(description="Paragraphs: no headings, lists, tables or code.")] = None
    bullets: Annotated[Limits | None, Field(description="Items of lists with -, * or +.")] = None
    numbered_items: Annotated[Limits | None, Field(description="Items of numbered lists.")] = None
    headings: Annotated[Limits | None, Field(description="Headings with #.")] = None
    code_blocks: Annotated[Limits | None, Field(description="Fenced blocks of code.")] = None
    tables: Annotated[Limits | None, Field(description="Tables.")] = None
    links: Annotated[Limits | None, Field(description="Links of Markdown: `[text](address)`.")] = None
    markdown: Annotated[
        Literal["any", "none", "some"], Field(description="none: no Markdown at all; some: not only plain paragraphs.")
    ] = "any"
    closed_fences: Annotated[bool, Field(description="No block of code may be left open.")] = False
    code_languages: Annotated[tuple[str, ...], Field(description="Languages that blocks of code may name.")] = ()
    required_headings: Annotated[
        tuple[str, ...], Field(description="Headings that must be there in this order, in any case and level.")
    ] = ()
    starts_with: Annotated[str, Field(description="How the answer must begin.")] = ""
    ends_with: Annotated[str, Field(description="How the answer must end, white space apart.")] = ""


class FormatParams(_Conditions):
    """Parameters of format: its conditions."""


_COUNTED: Final = (
    "characters",
    "words",
    "sentences",
    "lines",
    "paragraphs",
    "bullets",
    "numbered_items",
    "headings",
    "code_blocks",
    "tables",
    "links",
)
_ASKABLE: Final = frozenset(_Conditions.model_fields) - frozenset(Params.model_fields)


class _Checked(NamedTuple):
    condition: str
    holds: bool
    found: str


@register
class Format(RowEvaluator):
    """Checks the form of an answer against conditions: how long, which Markdown, which headings, which beginning.

    **Method.** The conditions are parameters (``--param format.words=-200 --param format.bullets=3-5``), or stand in a
    row's metadata under the key ``format`` as an object of the same names (``{"bullets": "3-5", "markdown": "none"}``),
    which goes before the parameters one by one. A number is a limit: ``3`` exactly, ``3-`` at least, ``-5`` at most,
    ``3-5`` both. ``format`` is the share of answers that satisfy all conditions, ``conditions_met`` the mean share
    of conditions that hold. Of those that do not, the message says what was found.

    Markdown is read line by line: headings with ``#``, lists with ``-``, ``*``, ``+`` or ``1.``, fences of three
    backticks or tildes, tables by the line of dashes below their head. What stands in a block of code counts as
    neither, and only towards characters, words, lines and sentences.

    **Edge cases.**

    * A row without any condition is not applicable; one whose own conditions are none is unscored, and says why. What
      is no object says nothing of conditions: a column ``format`` may well hold "pdf".
    * Words are what white space sets apart: a Chinese sentence is one word. Limit characters there.
    * Items of lists inside lists count too. Headings underlined with ``===`` are paragraphs.
    * An empty answer has 0 of everything.

    **Source.** Verifiable instructions (Zhou et al. 2023, IFEval), those of length and format; CommonMark 0.31.
    """

    spec = Spec(
        id="format",
        name="Format",
        inputs=(RowField.ACTUAL_ANSWER,),
        also_reads=(RowField.METADATA,),
        metadata=(KEY,),
        metrics=(
            Metric.higher(
                "format",
                "Share of answers that satisfy all conditions of form.",
                name="Format as asked for",
                primary=True,
                share=True,
            ),
            Metric.higher("conditions_met", "Share of the conditions of form that an answer satisfies."),
        ),
        sentences=True,
        keywords=("rule-based", "markdown", "length", "bullets", "headings", "instruction following", "ifeval"),
        source="Zhou et al. 2023, https://arxiv.org/abs/2311.07911",
    )
    parameters = FormatParams
    params: FormatParams

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Check one answer."""
        try:
            conditions = self._conditions(row.metadata.get(KEY))
        except (ValidationError, TypeError) as error:
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            message = f"The row's conditions are none: {why}."[:500]
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, message)
        checked = list(_checked(row.actual_answer or "", conditions, ctx))
        if not checked:
            return RowScore.not_applicable(self.row_metrics, "No condition of form was given.")
        failed = [each for each in checked if not each.holds]
        message = "; ".join(f"{each.condition}: {each.found}" for each in failed[:10])
        data: dict[str, Json] = {"failed": [each.condition for each in failed]} if failed else {}
        met = 1 - len(failed) / len(checked)
        return RowScore({"format": float(not failed), "conditions_met": met}, Evidence(message, data=data))

    def _conditions(self, own: Json) -> _Conditions:
        if isinstance(own, str) and own.lstrip().startswith("{"):
            own = TypeAdapter(dict[str, Any]).validate_json(own)
        if not isinstance(own, Mapping):  # another column of that name, such as "pdf"
            return self.params
        unknown = own.keys() - _ASKABLE
        if unknown:
            raise TypeError(f"there is no condition {listing(map(quoted, sorted(unknown)), most=3)}")
        given = self.params.model_dump(include=set(_ASKABLE), exclude_defaults=True)
        return _Conditions.model_validate(given | dict(own))


def _checked(answer: str, asked: _Conditions, ctx: EvalContext) -> Iterator[_Checked]:
    """Yield the conditions that were asked for, each with whether it holds and what was found."""
    parts = markdown_parts(answer)
    for name in _COUNTED:
        limits = getattr(asked, name)
        if limits is not None:
            n = _count(name, answer, parts, ctx)
            yield _Checked(f"{name.replace('_', ' ')} {limits}", _within(n, limits), f"there are {n:,}")
    if asked.markdown != "any":
        good = parts.is_plain == (asked.markdown == "none")
        yield _Checked(f"markdown {asked.markdown}", good, "there is none" if parts.is_plain else "there is some")
    if asked.closed_fences:
        yield _Checked("closed fences", all(fence.closed for fence in parts.fences), "a block of code is left open")
    if asked.code_languages:
        allowed = {language.lower() for language in asked.code_languages}
        others = sorted({fence.language for fence in parts.fences} - allowed)
        yield _Checked("code languages", not others, f"there is {listing(map(quoted, others))}" if others else "")
    if asked.required_headings:
        missing = _missing_heading(asked.required_headings, [title for _, title in parts.headings])
        yield _Checked("required headings", missing is None, f"{quoted(missing)} is not there, or not in its place")
    if asked.starts_with:
        yield _Checked("starts with", answer.startswith(asked.starts_with), f"it begins {quoted(answer[:60])}")
    if asked.ends_with:
        yield _Checked("ends with", answer.rstrip().endswith(asked.ends_with), f"it ends {quoted(answer[-60:])}")


def _count(name: str, answer: str, parts: MarkdownParts, ctx: EvalContext) -> int:
    match name:
        case "characters":
            return len(answer)
        case "words":
            return len(answer.split())
        case "sentences":
            return len(ctx.sentences(answer))
        case "lines":
            return sum(1 for line in answer.splitlines() if line.strip())
        case "headings":
            return len(parts.headings)
        case "code_blocks":
            return len(parts.fences)
    return parts.counts[name]


def _within(n: int, limits: str) -> bool:
    found = _LIMITS.fullmatch(limits)
    if not found:
        return False
    low, dash, high = found.groups()
    if not dash:
        return n == int(low)
    return int(low or 0) <= n and (high is None or n <= int(high))


def _missing_heading(wanted: tuple[str, ...], there: list[str]) -> str | None:
    """Return the first wanted heading that does not follow those before it."""
    rest = iter(title.casefold() for title in there)
    return next((title for title in wanted if title.strip().casefold() not in rest), None)
