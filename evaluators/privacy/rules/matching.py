"""The engine of the rules: where a table of rules finds something in a text, look-alike characters included."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from leadline.evaluators.privacy.rules.tables import Rule

MAX_FINDINGS: Final = 100
"""Findings per rule after which a scan of a text, or of another form of it, stops: it fails anyway."""


class RuleMatch(NamedTuple):
    """A place where a rule found something: ``text[start:end]``."""

    rule: Rule
    start: int
    end: int


def scan(rules: Iterable[Rule], text: str, *, skip_documentation: bool) -> list[RuleMatch]:
    """Return what rules find in a text, by position.

    A stretch of text is reported once, by the first rule of the list that finds it. A long dash between digits parts
    two numbers (``536-90-4399\u20142 copies``) or joins the groups of one: both are tried, and what stands by itself is
    preferred to what needs a dash as part of it.

    Args:
        rules: The rules, more specific ones first.
        text: Where to look.
        skip_documentation: Whether to leave out well-known examples.
    """
    rules = tuple(rules)
    plain = fold(text)
    joined = join(plain)
    found = _found(rules, plain, [], skip_documentation)
    if joined != plain:
        found = _found(rules, joined, found, skip_documentation)
    return sorted(found, key=lambda finding: finding.start)


def _found(rules: Sequence[Rule], plain: str, known: Sequence[RuleMatch], skip_documentation: bool) -> list[RuleMatch]:
    """Return what is known, and what rules find elsewhere in a text that is folded."""
    digits: bool | None = None
    found = [*known]
    for rule in rules:
        if rule.keywords:
            worth_it = any(keyword in plain for keyword in rule.keywords)
        elif rule.prefixes:
            worth_it = True
        else:
            worth_it = digits = _DIGITS.search(plain) is not None if digits is None else digits
        if worth_it:
            found += [new for new in _findings(rule, plain, skip_documentation) if not _overlaps(new, found)]
    return found


_DIGITS: Final = re.compile(r"[0-9]{3}[0-9]*[ .()-]{0,2}[0-9]{2}")
"""Five digits with little between them."""


def _findings(rule: Rule, text: str, skip_documentation: bool) -> list[RuleMatch]:
    found: list[RuleMatch] = []
    for match in _matches(rule, text):
        if skip_documentation and rule.is_documentation(match[rule.group]):
            continue
        found.append(RuleMatch(rule, match.start(rule.group), match.end(rule.group)))
        if len(found) == MAX_FINDINGS:
            break
    return found


def _matches(rule: Rule, text: str) -> Iterator[re.Match[str]]:
    at = 0
    if rule.prefixes:
        for place in _places(rule.prefixes, text):
            match = rule.regex.match(text, place) if place >= at else None
            if match is not None and rule.is_valid(match[rule.group]):
                at = match.end()
                yield match
        return
    while (match := rule.regex.search(text, at)) is not None:
        if rule.is_valid(match[rule.group]):
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


def _overlaps(new: RuleMatch, found: Sequence[RuleMatch]) -> bool:
    return any(new.start < old.end and old.start < new.end for old in found)


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
