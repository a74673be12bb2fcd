"""Names and addresses in texts, as a token classifier tells them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import ModelUnavailable
from leadline.evaluators.models.token_classifiers import Entity

if TYPE_CHECKING:
    from leadline.evaluators.ground.refs import ModelRef
    from leadline.evaluators.privacy._leakage import LeakFinding


class NameKind(NamedTuple):
    """A kind of name: its id and what it is called in words."""

    id: str
    description: str


class NameMatch(NamedTuple):
    """A place where a model found a name: ``text[start:end]``."""

    rule: NameKind
    start: int
    end: int


KINDS: Final = {
    "person": "name of a person",
    "address": "postal address",
    "location": "name of a place",
    "organization": "name of an organization",
}
_CALLED: Final = {
    "person": "PER PERSON PATIENT DOCTOR STAFF HCW NAME FULLNAME GIVENNAME FIRSTNAME MIDDLENAME LASTNAME SURNAME",
    "address": "ADDRESS STREET STREETADDRESS STREETNAME BUILDINGNUM BUILDINGNUMBER SECONDARYADDRESS ZIPCODE POSTCODE",
    "location": "LOC LOCATION GPE CITY STATE COUNTY COUNTRY",
    "organization": "ORG ORGANIZATION ORGANISATION COMPANY COMPANYNAME HOSPITAL FACILITY",
}
_KIND_OF: Final = {name: kind for kind, names in _CALLED.items() for name in names.split()}
_LETTERS: Final = re.compile(r"[^A-Z]")


def kind_of(type_: str) -> str:
    """Return the kind of a model's type of entities: one of :data:`KINDS`, or its own name in lower case."""
    plain = _LETTERS.sub("", type_.upper())
    return _KIND_OF.get(plain, type_.lower())


def require_kinds(ref: ModelRef, types: Iterable[str], wanted: Collection[str]) -> None:
    """Refuse a model that tells nothing of what is wanted.

    Args:
        ref: The model, for the error.
        types: Types of entities that it knows.
        wanted: Kinds to look for.

    Raises:
        ModelUnavailable: None of them is wanted.
    """
    known = sorted({kind_of(type_) for type_ in types})
    if not set(known) & set(wanted):
        raise ModelUnavailable(
            f"{ref} tells none of {', '.join(wanted)}; it tells {', '.join(known[:10]) or 'nothing'}.",
            hint="Choose other kinds (parameter ner_types) or another model.",
            code=ErrorCode.MODEL_WRONG_KIND,
        )


def names_in(
    entities: Iterable[Entity], wanted: Collection[str], least: float, known: Sequence[LeakFinding]
) -> list[NameMatch]:
    """Return the entities that are wanted, without those that overlap what rules found.

    Args:
        entities: What the model found in a text.
        wanted: Kinds to look for.
        least: Least probability.
        known: What rules found in it.
    """
    found = []
    for entity in entities:
        kind = kind_of(entity.type)
        clear = all(entity.end <= each.start or each.end <= entity.start for each in known)
        if kind in wanted and entity.probability >= least and clear:
            found.append(NameMatch(NameKind(kind, KINDS.get(kind, kind)), entity.start, entity.end))
    return found
