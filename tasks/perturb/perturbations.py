"""The perturbations by name, their strengths, and how a user asks for them.

``typo:high`` names an intensity, ``base64:answer_decoded`` a variant, ``comma+typo:low`` two steps for one copy, and
``sonar:typo:high`` the same at the rates of H2O Sonar.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from random import Random
from typing import Final, TypeAlias

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.perturb import text_edits as words
from leadline.tasks.perturb import thesaurus
from leadline.tasks.perturb.text_edits import ENCODERS, VARIANTS, Amount, encoded


class Intensity(StrEnum):
    """The steps, weakest first."""

    VERY_LOW = "very_low"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    VERY_HIGH = "very_high"
    EXTREME = "extreme"


Scale: TypeAlias = Callable[[str, Intensity, Random], Amount]
"""Returns how much of a text to change at an intensity."""

Shares: TypeAlias = Mapping[Intensity, tuple[float, float]]
"""The range from which the share of characters or words to change is drawn, for each step."""

_LONG: Final = 15
"""Characters of what counts as one word; longer texts without blanks count as several."""


def _shares(*ranges: tuple[float, float]) -> Shares:
    return dict(zip(Intensity, ranges, strict=True))


OF_CHARACTERS: Final = _shares((0.025, 0.055), (0.1, 0.1), (0.25, 0.3), (0.45, 0.6), (0.7, 0.8), (0.9, 1.0))
OF_WORDS: Final = _shares((0.05, 0.05), (0.1, 0.1), (0.3, 0.3), (0.5, 0.5), (0.7, 0.7), (1.0, 1.0))
OF_LETTERS: Final = _shares((0.1, 0.1), (0.3, 0.3), (0.5, 0.5), (0.8, 0.8), (0.9, 0.9), (1.0, 1.0))
OF_SYNONYMS: Final = _shares((0.1, 0.1), (0.3, 0.3), (0.5, 0.5), (0.7, 0.7), (0.9, 0.9), (1.0, 1.0))
OF_ANTONYMS: Final = _shares((0.1, 0.1), (0.5, 0.5), (0.7, 0.7), (0.9, 0.9), (0.95, 0.95), (1.0, 1.0))

_SLIPS: Final = dict(zip(Intensity, (0.5, 1.0, 2.0, 4.0, 6.0, 10.0), strict=True))


def drawn(shares: Shares) -> Scale:
    """Return a scale on which a share of the places is changed, drawn from the range of the step."""

    def amount(text: str, intensity: Intensity, random: Random) -> Amount:
        low, high = shares[intensity]
        return partial(how_many, share=random.uniform(low, high))

    return amount


def slips(words: int = 1) -> Scale:
    """Return a scale on which 1, 2 or 4 words in ten go wrong at low, medium or high intensity.

    Args:
        words: Words that one change puts wrong; two, for example, where words change places.
    """

    def amount(text: str, intensity: Intensity, random: Random) -> Amount:
        count = sum(1 + len(word) // _LONG for word in text.split())
        return partial(min, max(1, round(count * _SLIPS[intensity] / 10 / words)))

    return amount


def how_many(places: int, share: float) -> int:
    """Return how many of some places to change: at least one where there is one.

    Args:
        share: Share of them to change, 0 to 1.
    """
    return min(places, max(1, round(places * share)))


Change: TypeAlias = Callable[[str, Random, Amount], str]

COPY: Final = "copy"
MISINFORMATION: Final = "misinformation"
SONAR: Final = "sonar:"
"""Before the name of a perturbation at the rates of H2O Sonar."""


@dataclass(frozen=True, slots=True)
class PerturbationKind:
    """A perturbation that has intensities.

    Attributes:
        change: What it does; returns the text itself where there is nothing to change.
        keeps_meaning: Whether the expected answer is still the right one.
    """

    change: Change
    scale: Scale
    about: str
    keeps_meaning: bool = True


_HUMAN: Final[dict[str, PerturbationKind]] = {
    "comma": PerturbationKind(words.comma, slips(), "commas behind words"),
    "word_swap": PerturbationKind(words.word_swap, slips(words=2), "neighbouring words swapped"),
    "qwerty": PerturbationKind(words.qwerty, drawn(OF_LETTERS), "y and z exchanged"),
    "synonym": PerturbationKind(thesaurus.synonym, drawn(OF_SYNONYMS), "words replaced by synonyms (WordNet)"),
    "antonym": PerturbationKind(
        thesaurus.antonym, drawn(OF_ANTONYMS), "words replaced by their opposite (WordNet)", keeps_meaning=False
    ),
    "character_replacement": PerturbationKind(words.replacement, slips(), "characters replaced by random ones"),
    "character_insertion": PerturbationKind(words.insertion, slips(), "random characters put in"),
    "character_deletion": PerturbationKind(words.deletion, slips(), "characters left out"),
    "typo": PerturbationKind(
        words.typo, slips(), "slips in typing: a neighbouring key, a letter doubled, dropped or swapped"
    ),
    "ocr": PerturbationKind(words.ocr, slips(), "characters confused as by a scanner"),
}
_OF_SONAR: Final[Mapping[str, tuple[Change, Scale]]] = {
    "comma": (words.comma, drawn(OF_WORDS)),
    "word_swap": (words.word_swap, drawn(OF_WORDS)),
    "character_replacement": (partial(words.replacement, numbers=True), drawn(OF_CHARACTERS)),
    "character_insertion": (partial(words.insertion, numbers=True), drawn(OF_CHARACTERS)),
    "character_deletion": (partial(words.deletion, numbers=True), drawn(OF_CHARACTERS)),
    "typo": (words.neighbouring_keys, drawn(OF_CHARACTERS)),
    "ocr": (partial(words.ocr, numbers=True), drawn(OF_CHARACTERS)),
}
"""Perturbations that H2O Sonar makes otherwise: of characters so many that hardly a word can be read."""


def _of_sonar(name: str, kind: PerturbationKind) -> PerturbationKind:
    change, scale = _OF_SONAR.get(name, (kind.change, kind.scale))
    return replace(kind, change=change, scale=scale, about=f"{name} at the rates of H2O Sonar")


KINDS: Final[Mapping[str, PerturbationKind]] = _HUMAN | {
    f"{SONAR}{name}": _of_sonar(name, kind) for name, kind in _HUMAN.items()
}


def described() -> dict[str, str]:
    """Return every perturbation by name with what it does."""
    return {
        COPY: "nothing changed: how much do answers differ by themselves?",
        **{name: kind.about for name, kind in KINDS.items()},
        **{name: f"the question in {label}, and the answer asked for in it" for name, (label, _) in ENCODERS.items()},
        MISINFORMATION: "false facts and a misleading context put before the question, by a judge",
    }


@dataclass(frozen=True, slots=True)
class PerturbationStep:
    """One perturbation as it was asked for.

    Attributes:
        intensity: How much; of no meaning for some.
        variant: What of question and answer is encoded.
    """

    name: str
    intensity: Intensity = Intensity.MEDIUM
    variant: str = ""

    def __str__(self) -> str:
        if self.name in KINDS:
            return f"{self.name}:{self.intensity}"
        return f"{self.name}:{self.variant}" if self.variant else self.name

    @property
    def keeps_meaning(self) -> bool:
        """True where the expected answer is still the right one."""
        return self.name not in KINDS or KINDS[self.name].keeps_meaning

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories that say of a case that this was done to it."""
        encoding = VARIANTS[self.variant].categories(self.name) if self.name in ENCODERS else ()
        return (f"perturbed_by:{self}", *encoding)

    def apply(self, text: str, random: Random) -> str:
        """Return the perturbed text; the text itself where there is nothing to change.

        Args:
            random: Source of chance; the same state gives the same result.
        """
        if self.name == COPY:
            return text
        if self.name in ENCODERS:
            return encoded(text, self.name, VARIANTS[self.variant])
        kind = KINDS[self.name]
        return kind.change(text, random, kind.scale(text, self.intensity, random))


@dataclass(frozen=True, slots=True)
class Recipe:
    """Perturbations applied one after the other to one copy."""

    steps: tuple[PerturbationStep, ...]

    def __str__(self) -> str:
        return "+".join(map(str, self.steps))

    @property
    def asks_judge(self) -> bool:
        """True where it needs a judge."""
        return any(step.name == MISINFORMATION for step in self.steps)


def recipe(text: str) -> Recipe:
    """Read a recipe.

    Raises:
        UsageError: A name, an intensity or a variant is not known.
    """
    return Recipe(tuple(_step(part.strip()) for part in text.split("+")))


def _step(text: str) -> PerturbationStep:
    prefix = SONAR if text.startswith(SONAR) else ""
    name, _, choice = text.removeprefix(prefix).partition(":")
    name = prefix + name
    known = described()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=2)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(known)}."
        hint = f"Write just: {name.removeprefix(SONAR)}" if name.removeprefix(SONAR) in known else hint
        raise UsageError(f"There is no perturbation called {name!r}.", hint=hint, code=ErrorCode.PERTURB_UNKNOWN)
    if name in KINDS:
        try:
            return PerturbationStep(name, Intensity(choice) if choice else Intensity.MEDIUM)
        except ValueError:
            raise UsageError(
                f"{name} has no intensity {choice!r}.",
                hint=f"Choose one of: {', '.join(Intensity)}.",
                code=ErrorCode.PERTURB_UNKNOWN,
            ) from None
    if choice and not (name in ENCODERS and choice in VARIANTS):
        variants = ", ".join(variant for variant in VARIANTS if variant)
        hint = f"Choose one of: {variants}." if name in ENCODERS else f"Write just: {name}"
        raise UsageError(f"{name} has no variant {choice!r}.", hint=hint, code=ErrorCode.PERTURB_UNKNOWN)
    return PerturbationStep(name, variant=choice)
