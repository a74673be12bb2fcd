"""Tables of named rules that find formatted secrets and personal data: TOML files in the form of gitleaks' rules.

A rule is a regular expression with a check of what it matched (a checksum, a valid range). Every regular expression
takes time linear in the text: what repeats is bounded, and where a long run of characters could match, only its first
character can begin a match.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from leadline.evaluators.ground import first_refusal
from leadline.evaluators.privacy.rules.checks import CHECKS

HERE: Final = Path(__file__).parent
_BEFORE: Final = 80
"""Characters before a match in which its label may stand."""
_BEHIND: Final = 30
"""Characters behind a match in which its label may stand."""
_PIECE: Final = re.compile(r"\{([a-z0-9_]+)(?::([0-9]+))?\}")


class PatternRule(BaseModel):
    r"""One kind of private data that must not leak.

    Attributes:
        id: Identifier, as users type it.
        description: What it finds, as a noun.
        regex: What it looks like. The group ``hit``, if there is one, is the finding without its surroundings.
        keywords: Strings one of which every match contains; a quick way past most texts.
        prefixes: Strings one of which every match begins with; the regular expression is tried there only. Without
            ``keywords`` and ``prefixes``, every match contains seven digits.
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
    beyond: tuple[str, ...] = ()
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
    unknown = [name for name in ids if name not in known and name not in ("default", "all")]
    if unknown:
        raise ValueError(f"there is no rule called {unknown[0]!r}; rules: default, all, {', '.join(sorted(known))}")
    return tuple(rule for rule in rules if rule.id in ids or "all" in ids or (rule.default and "default" in ids))
