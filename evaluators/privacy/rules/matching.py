"""Tables of named rules that find formatted secrets and personal data, and where they find something in a text.

The tables are TOML files in the form of gitleaks' rules. A rule is a regular expression with a check of what it matched
(a checksum, a valid range). Every regular expression takes time linear in the text: what repeats is bounded, and where
a long run of characters could match, only its first character can begin a match. Look-alikes of characters count.
"""

from __future__ import annotations

import functools
import re
import tomllib
import unicodedata
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from leadline.evaluators.ground import first_refusal
from leadline.evaluators.privacy.rules.checks import CHECKS

HERE: Final = Path(__file__).parent
_BEFORE: Final = 80
"""Characters before a match in which its label may stand."""
_BEHIND: Final = 30
"""Characters behind a match in which its label may stand."""
SETS: Final = frozenset({"default", "all"})
"""Names of several rules that every table has."""
_PIECE: Final = re.compile(r"\{([a-z0-9_]+)(?::([0-9]+))?\}")


class PatternRule(BaseModel):
    r"""One kind of private data that must not leak.

    Attributes:
        id: Identifier, as users type it.
        description: What it finds, as a noun.
        regex: What it looks like. The group ``hit``, if there is one, is the finding without its surroundings.
        keywords: Strings one of which every match contains; a quick way past most texts.
        prefixes: Strings one of which every match begins with; the regular expression is tried there only.
        digits: How many digits every match contains: none, one, or seven with little between them, which is the
            default without ``keywords`` and ``prefixes``.
        check: Name of the check that what was matched must pass.
        label_before: Words that say what the number is; they must stand in the 80 characters before it, or
            ``label_after`` in the 30 after it. ``\\Z`` is the place where the number begins.
        label_after: The same behind it.
        other_label: Words before it that say that it is something else. ``\\Z`` as in ``label_before``.
        documentation_check: Name of the check that well-known examples pass, which are no real data.
        default: Whether it is on when the user does not choose.
        source: Where the format is described.
        examples: Texts in which it must find something.
        near_misses: Texts in which it must not.
        documentation_examples: Texts in which it finds well-known examples only.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    description: str = Field(min_length=1)
    regex: re.Pattern[str]
    keywords: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    digits: Literal[0, 1, 7] = Field(default_factory=lambda given: 0 if given["keywords"] or given["prefixes"] else 7)
    check: str | None = None
    label_before: re.Pattern[str] | None = None
    label_after: re.Pattern[str] | None = None
    other_label: re.Pattern[str] | None = None
    documentation_check: str | None = None
    default: bool = True
    source: str = Field(min_length=1)
    examples: tuple[str, ...] = Field(min_length=1)
    near_misses: tuple[str, ...] = Field(min_length=1)
    documentation_examples: tuple[str, ...] = ()

    @field_validator("check", "documentation_check")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value is not None and value not in CHECKS:
            raise ValueError(f"there is no check called {value!r}; checks: {', '.join(sorted(CHECKS))}")
        return value

    @functools.cached_property
    def group(self) -> str | int:
        """The group of a match that is the finding."""
        return "hit" if "hit" in self.regex.groupindex else 0

    def is_valid(self, text: str, start: int, end: int) -> bool:
        """Return whether ``text[start:end]``, which was matched, is what the rule looks for.

        Args:
            start: The first character of the match.
            end: The place after its last character.
        """
        return (self.check is None or CHECKS[self.check](text[start:end])) and self._is_called_so(text, start, end)

    def _is_called_so(self, text: str, start: int, end: int) -> bool:
        """Return whether the words around ``text[start:end]`` name it as the rule wants, and as nothing else."""
        first = max(0, start - _BEFORE)
        if self.other_label is not None and self.other_label.search(text, first, start):
            return False
        if self.label_before is None and self.label_after is None:
            return True
        before = self.label_before is not None and self.label_before.search(text, first, start) is not None
        return before or (
            self.label_after is not None and self.label_after.search(text, end, end + _BEHIND) is not None
        )

    def is_documentation(self, text: str) -> bool:
        """Return whether a text that was matched is a well-known example and no real data."""
        return self.documentation_check is not None and CHECKS[self.documentation_check](text)


class _RuleFile(BaseModel):
    """A table of rules as it is written down."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pieces: dict[str, str] = {}
    rules: tuple[dict[str, Any], ...]


@functools.cache
def rules_of(table: str) -> tuple[PatternRule, ...]:
    """Return the rules of a table of this package, ``pii`` or ``secrets``, more specific ones first."""
    return load(HERE / f"{table}.toml")


def load(path: Path) -> tuple[PatternRule, ...]:
    """Read a table of rules.

    Raises:
        ValueError: The file is no TOML, a rule is wrong, or two have one id.
    """
    try:
        file = _RuleFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name}: {error}") from None
    except ValidationError as error:
        raise ValueError(f"{path.name}: {first_refusal(error, _RuleFile)}") from None
    rules: dict[str, PatternRule] = {}
    for number, values in enumerate(file.rules, 1):
        where = f"{path.name}, rule {values.get('id', number)!r}"
        try:
            rule = PatternRule.model_validate(
                {name: _put_together(value, file.pieces, where) for name, value in values.items()}
            )
        except ValidationError as error:
            raise ValueError(f"{where}: {first_refusal(error, PatternRule)}") from None
        if rule.id in rules:
            raise ValueError(f"{where}: another rule has this id")
        rules[rule.id] = rule
    return tuple(rules.values())


def _put_together(value: Any, pieces: Mapping[str, str], where: str) -> Any:
    """Return lists of texts with pieces in the place of their names, and any other value as it is."""

    def piece(match: re.Match[str]) -> str:
        if match[1] not in pieces:
            raise ValueError(f"{where}: there is no piece called {match[1]!r}; pieces: {', '.join(sorted(pieces))}")
        return pieces[match[1]][: int(match[2]) if match[2] else None]

    if not pieces or not isinstance(value, list):
        return value
    return [_PIECE.sub(piece, text) if isinstance(text, str) else text for text in value]


def choose(rules: Sequence[PatternRule], ids: Sequence[str]) -> tuple[PatternRule, ...]:
    """Return the rules that are named, in the order of their table.

    Args:
        rules: All rules of a table.
        ids: Identifiers; ``default`` stands for the rules that are on by default and ``all`` for all.

    Raises:
        ValueError: There is no rule with that identifier.
    """
    known = {rule.id for rule in rules}
    unknown = [name for name in ids if name not in known | SETS]
    if unknown:
        raise ValueError(f"there is no rule called {unknown[0]!r}; rules: default, all, {', '.join(sorted(known))}")
    return tuple(rule for rule in rules if rule.id in ids or "all" in ids or (rule.default and "default" in ids))


MAX_FINDINGS: Final = 100
"""Findings per rule after which a scan of a text, or of another form of it, stops: it fails anyway."""


class RuleMatch(NamedTuple):
    """A place where a rule found something: ``text[start:end]``.

    Attributes:
        start: The first character.
        end: The place after the last character.
        aside: Why it is no leak; ``""`` if it is one.
    """

    rule: PatternRule
    start: int
    end: int
    aside: str = ""


WhyAside: TypeAlias = Callable[[PatternRule, str], str]
"""Tells why what a rule found is no leak; ``""`` if it is one."""

EXAMPLE: Final = "documentation example"
"""The reason to set a well-known example aside."""


def example(rule: PatternRule, text: str) -> str:
    """Set aside well-known examples, and nothing else (see :data:`WhyAside`).

    Args:
        text: What it found.
    """
    return EXAMPLE if rule.is_documentation(text) else ""


def scan(rules: Iterable[PatternRule], text: str, *, skip_documentation: bool) -> list[RuleMatch]:
    """Return the leaks that rules find in a text, by position.

    Args:
        rules: The rules, more specific ones first.
        text: Where to look.
        skip_documentation: Whether to leave out well-known examples.
    """
    return leaks(examine(rules, text, example if skip_documentation else None))


def leaks(found: Iterable[RuleMatch]) -> list[RuleMatch]:
    """Return what is not set aside."""
    return [finding for finding in found if not finding.aside]


def examine(rules: Iterable[PatternRule], text: str, why_aside: WhyAside | None) -> list[RuleMatch]:
    """Return all that rules find in a text, by position, what is set aside included.

    A stretch of text is reported once, by the first rule of the list that finds it. A long dash between digits parts
    two numbers (``536-90-4399\u20142 copies``) or joins the groups of one: both are tried, and what stands by itself is
    preferred to what needs a dash as part of it.

    Args:
        rules: The rules, more specific ones first.
        text: Where to look.
        why_aside: Tells what of it is no leak; without it all is.
    """
    rules = tuple(rules)
    plain = fold(text)
    joined = join(plain)
    found = _found(rules, plain, [], why_aside)
    if joined != plain:
        found = _found(rules, joined, found, why_aside)
    return sorted(found, key=lambda finding: finding.start)


def _found(
    rules: Sequence[PatternRule], plain: str, known: Sequence[RuleMatch], why_aside: WhyAside | None
) -> list[RuleMatch]:
    """Return what is known, and what rules find elsewhere in a text that is folded."""
    digits = 0 if _DIGIT.search(plain) is None else 1 if _SEVEN_DIGITS.search(plain) is None else 7
    found = [*known]
    taken = sorted((finding.start, finding.end) for finding in found)
    for rule in rules:
        if rule.digits > digits or (rule.keywords and not any(map(plain.__contains__, rule.keywords))):
            continue
        for new in _findings(rule, plain, why_aside):
            place = bisect(taken, (new.start, new.end))
            before, behind = taken[place - 1 : place], taken[place : place + 1]
            if all(end <= new.start for _, end in before) and all(start >= new.end for start, _ in behind):
                taken.insert(place, (new.start, new.end))
                found.append(new)
    return found


_DIGIT: Final = re.compile("[0-9]")
_SEVEN_DIGITS: Final = re.compile(r"[0-9](?:[ ./()-]{0,2}[0-9]){6}")
"""Seven digits with little between them."""


def _findings(rule: PatternRule, text: str, why_aside: WhyAside | None) -> list[RuleMatch]:
    found, count = [], 0
    for match in _matches(rule, text):
        start, end = match.span(rule.group)
        aside = why_aside(rule, text[start:end]) if why_aside is not None else ""
        found.append(RuleMatch(rule, start, end, aside))
        count += not aside
        if count == MAX_FINDINGS:
            break
    return found


def _matches(rule: PatternRule, text: str) -> Iterator[re.Match[str]]:
    at = 0
    if rule.prefixes:
        for place in _places(rule.prefixes, text):
            match = rule.regex.match(text, place) if place >= at else None
            if match is not None and rule.is_valid(text, *match.span(rule.group)):
                at = match.end()
                yield match
        return
    while (match := rule.regex.search(text, at)) is not None:
        if rule.is_valid(text, *match.span(rule.group)):
            at = match.end()
            yield match
        else:
            at = match.start() + 1  # the real one may begin inside of what was refused


def _places(prefixes: Iterable[str], text: str) -> list[int]:
    places = []
    for prefix in prefixes:
        place = text.find(prefix)
        while place >= 0:
            places.append(place)
            place = text.find(prefix, place + 1)
    return sorted(places)


_EXOTIC: Final = re.compile(
    "[^\x00-\u0589\u058b-\u05bd\u05bf-\u05ff\u1100-\u11ff\u2013-\u201f\u2022\u2026"
    "\u3001-\u301b\u301d-\u302f\u3031-\u309f\u30a1-\u9fff\uac00-\ud7ff]"
)
"""Characters that are rare in Latin, Greek, Cyrillic, Chinese, Japanese or Korean; texts without them are skipped."""

_HYPHENS: Final = (
    "\u058a\u05be\u1400\u1806\u2010\u2011\u2012\u2013\u2212\u2e17\u2e1a\u2e40\u2e5d\ufe32\ufe63\uff0d"
    "\U00010d6e\U00010ead"
)
"""The dash punctuation (Unicode category Pd) that joins, and the minus sign."""

_BARS: Final = "\u2014\u2015\u2e3a\u2e3b\u301c\u3030\u30a0\ufe31\ufe58"
"""The dash punctuation that also parts: "the key is here\u2014sk-...". Only between digits may it be a hyphen."""

_ZEROS: Final = (  # of the decimal digits (Unicode category Nd), which are ten in a row
    "\u0660\u06f0\u07c0\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6\u0c66\u0ce6\u0d66\u0de6\u0e50\u0ed0\u0f20\u1040\u1090"
    "\u17e0\u1810\u1946\u19d0\u1a80\u1a90\u1b50\u1bb0\u1c40\u1c50\ua620\ua8d0\ua900\ua9d0\ua9f0\uaa50\uabf0"
    "\U000104a0\U00010d30\U00010d40\U00011066\U000110f0\U00011136\U000111d0\U000112f0\U00011450\U000114d0"
    "\U00011650\U000116c0\U000116d0\U000116da\U00011730\U000118e0\U00011950\U00011bf0\U00011c50\U00011d50"
    "\U00011da0\U00011f50\U00016130\U00016a60\U00016ac0\U00016b50\U00016d70\U0001ccf0\U0001e140\U0001e2f0"
    "\U0001e4f0\U0001e5f1\U0001e950\U0001fbf0"
)
_LOOKALIKE: Final = re.compile(
    rf"{_EXOTIC.pattern}(?<=[{_HYPHENS}\u2000-\u200a\u202f\u3000\uff01-\uff5e\U0001d400-\U0001d7ff"
    + "".join(f"{zero}-{chr(ord(zero) + 9)}" for zero in _ZEROS)
    + "])"  # looked at only where a character is exotic: so many ranges are slow
)
_BAR: Final = re.compile(f"[{_BARS}](?<=[0-9].)(?=[0-9])")


def fold(text: str) -> str:
    """Return the text with look-alikes of ASCII characters as such, each character in its place.

    Full-width and mathematical letters and digits, the decimal digits of all scripts, Unicode's spaces and hyphens: a
    card number written with them is still a card number.
    """
    if text.isascii():
        return text
    text = text.replace("\u00a0", " ").replace("\u2013", "-")
    return _LOOKALIKE.sub(_ascii, text) if _EXOTIC.search(text) else text


def join(text: str) -> str:
    """Return a folded text with the longer dashes between digits as hyphens, each character in its place."""
    return text if text.isascii() else _BAR.sub("-", text)


def _ascii(match: re.Match[str]) -> str:
    char = match[0]
    if char in _HYPHENS:
        return "-"
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    plain = unicodedata.normalize("NFKC", char)
    return plain if len(plain) == 1 else char
