"""The documents of an RGB test case and their order: the benchmark's choice for a seed, reproduced exactly.

The rules are those of the benchmark's published procedure (Chen et al., AAAI 2024, arXiv:2309.01431, and its program):

* The random generator starts anew for each instance.
* ``ceil(passages * noise)`` documents are noise, the others are relevant.
* A plain testbed takes the first ones of either kind; what one kind lacks the other fills up. At noise 1 all are noise.
* An integration testbed (``_int``) has one list of relevant documents per part of the answer. Each list is shuffled;
  the first of each is taken, however many parts there are, then the second of each, and so on.
* A counterfactual testbed (``_fact``) draws relevant documents in their falsified version. Noise comes on top only
  where it is asked for, so there may be fewer documents than passages.
* At the end the documents are shuffled.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from leadline.tasks.load.faults import Faults, Place

Kind: TypeAlias = Literal["plain", "int", "fact"]

SEED: Final = 2333
"""The benchmark's."""

_NAME: Final = re.compile(r"(?:.*[_.-])?(?P<language>en|zh)(?:_(?P<kind>refine|int|fact))?")


@dataclass(frozen=True, slots=True)
class Testbed:
    """One of RGB's files.

    Attributes:
        name: ``en``, ``zh_refine``, ``en_int``, ``zh_fact`` and so on.
        language: ``en`` or ``zh``.
        kind: How its documents are kept.
    """

    name: str
    language: str
    kind: Kind


def find_testbed(name: str) -> Testbed | None:
    """Return what a file's or a data set's name says: ``data_zh_refine``, ``en_int``; ``None`` when it says nothing."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    language, suffix = found["language"], found["kind"]
    kinds: dict[str | None, Kind] = {"int": "int", "fact": "fact"}
    return Testbed(f"{language}_{suffix}" if suffix else language, language, kinds.get(suffix, "plain"))


def documents(
    instance: Mapping[str, Any], kind: Kind, *, noise: float, passages: int, seed: int = SEED
) -> tuple[str, ...]:
    """Return the documents that a test case shows, in order.

    Args:
        instance: A line of RGB's file, checked by :func:`check`; it is not changed.
        kind: How it keeps its documents.
        noise: Share of documents that do not help, from 0 to 1.
        passages: How many documents there are to be; an integration case may have more, a counterfactual one fewer.
        seed: Of the random generator.
    """
    generator = random.Random(seed)  # noqa: S311 - the benchmark's own order, not a secret
    chosen = {"plain": _plain, "int": _integrated, "fact": _falsified}[kind](instance, noise, passages, generator)
    generator.shuffle(chosen)
    return tuple(chosen)


def _plain(instance: Mapping[str, Any], noise: float, passages: int, generator: random.Random) -> list[str]:
    positive, negative = instance["positive"], instance["negative"]
    noisy = math.ceil(passages * noise)
    helpful = passages - noisy
    if noise < 1 and noisy > len(negative):
        noisy, helpful = len(negative), passages - len(negative)
    elif helpful > len(positive):
        noisy, helpful = passages - len(positive), len(positive)
    return [*positive[:helpful], *negative[:noisy]]


def _integrated(instance: Mapping[str, Any], noise: float, passages: int, generator: random.Random) -> list[str]:
    parts = [list(part) for part in instance["positive"]]
    for part in parts:
        generator.shuffle(part)
    chosen = [part[0] for part in parts]
    wanted = passages - math.ceil(passages * noise)
    further = (part[rank] for rank in range(1, max(map(len, parts))) for part in parts if rank < len(part))
    for document in further:
        if len(chosen) >= wanted:
            break
        chosen.append(document)
    return [*chosen, *instance["negative"][: max(0, passages - len(chosen))]]


def _falsified(instance: Mapping[str, Any], noise: float, passages: int, generator: random.Random) -> list[str]:
    noisy = math.ceil(passages * noise)
    places = list(range(len(instance["positive"])))
    drawn = generator.sample(places, min(len(places), passages - noisy))
    return [*(instance["positive_wrong"][place] for place in drawn), *instance["negative"][:noisy]]


def check(instance: Any, kind: Kind, faults: Faults, place: Place) -> bool:
    """Note what is wrong with a line of RGB's file; returns whether it can be used.

    Args:
        instance: The line, decoded.
        kind: The testbed, which says what a line needs.
        faults: Takes what is wrong.
        place: Where the line is.
    """
    if not isinstance(instance, Mapping):
        faults.add(place, "", "is no JSON object")
        return False
    wrong = list(_wrong(instance, kind))
    for column, message in wrong:
        faults.add(place, column, message)
    return not wrong


def _wrong(instance: Mapping[str, Any], kind: Kind) -> Iterator[tuple[str, str]]:
    if not isinstance(instance.get("query"), str):
        yield "query", "must be a text"
    if not _is_answer(instance.get("answer")):
        yield "answer", "must be a text, or a list of texts and lists of texts"
    if not _are_texts(instance.get("negative")):
        yield "negative", "must be a list of texts"
    positive = instance.get("positive")
    if not (_are_lists(positive) if kind == "int" else _are_texts(positive)):
        yield "positive", "must be a list of lists of texts" if kind == "int" else "must be a list of texts"
    elif kind == "fact":
        falsified = instance.get("positive_wrong")
        if not _are_texts(falsified) or len(falsified or ()) != len(positive or ()):
            yield "positive_wrong", "must be a list of texts, as many as in 'positive'"


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _are_lists(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_are_texts(each) and each for each in value)


def _is_answer(value: Any) -> bool:
    parts: Sequence[Any] = value if isinstance(value, list) else [value]
    return bool(parts) and all(isinstance(part, str) or (_are_texts(part) and part) for part in parts)
