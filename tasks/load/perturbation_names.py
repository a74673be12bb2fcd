"""Short names of what was done to a perturbed case.

H2O links a perturbed case to its original and says in a category how it was made:
``perturbed_by:h2o_sonar.utils.perturbations.CommaPerturbator:PerturbationIntensity.HIGH``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from leadline.tasks.load.values import ValueFault, expected, filled, key

SOURCE: Final = "perturbation_source"
"""Type of the relationship from a perturbed case to its original."""

_PREFIX: Final = "perturbed_by:"
_KNOWN: Final = {
    "QwertyPerturbator": "qwerty",
    "RandomCharacterReplacementPerturbator": "character_replacement",
    "RandomCharacterInsertPerturbator": "character_insertion",
    "RandomCharacterDeletePerturbator": "character_deletion",
    "KeywordTyposCharacterPerturbator": "typo",
    "RandomOCRCharacterPerturbator": "ocr",
    "EncodingPerturbatorBase16": "base16",
    "ContextualMisinformationPerturbator": "misinformation",
}
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def label(perturbator: str) -> str:
    """Return the short name of a perturbator's id: ``CommaPerturbator`` is ``comma``."""
    name = perturbator.rsplit(".", 1)[-1].strip()
    return _KNOWN.get(name) or _CAPITAL.sub("_", name.removesuffix("Perturbator") or name).lower()


def from_categories(categories: Iterable[str]) -> str:
    """Return what the categories of a case say was done to it, several joined by ``+``; ``""`` if nothing."""
    names = [label(c.removeprefix(_PREFIX).split(":", 1)[0]) for c in categories if c.startswith(_PREFIX)]
    return "+".join(dict.fromkeys(name for name in names if name))


def read_link(relationship: Any) -> tuple[str, str | None] | None:
    """Return the key of the original and what was done to it; ``None`` for a relationship of another type.

    Raises:
        ValueFault: It is none.
    """
    if type(relationship) is not dict:
        raise expected("a list of objects", relationship)
    for name in ("type", "target_type"):
        if type(relationship.get(name, "")) not in (str, type(None)):
            raise expected(f"a text as {name}", relationship[name])
    if relationship.get("type") != SOURCE or relationship.get("target_type") not in (None, "", "test_case", "case"):
        return None
    target = relationship.get("target")
    original = None if target is None or target == [] else key(target)
    if original is None:
        raise ValueFault("the relationship has no target")
    return original, filled(relationship.get("perturbation") or "")
