"""Test cases of RGB: its files become a suite for ``leadline collect``, with the benchmark's documents for a seed.

The choice of documents and their order are reproduced exactly, by the rules of the benchmark's published procedure
(Chen et al., AAAI 2024, arXiv:2309.01431, and its program):

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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import orjson

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.collect.templates import render_text
from leadline.tasks.ground.files import handed_out
from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.sniff import layout_of, read_items
from leadline.tasks.load.source import SourceFile
from leadline.tasks.load.values import ValueFault

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


NOISE: Final = (0.0, 0.2, 0.4, 0.6, 0.8)
"""The paper's levels."""

TASKS: Final = {"plain": "noise_robustness", "int": "information_integration", "fact": "counterfactual_robustness"}
REJECTION: Final = "negative_rejection"
CLOSED_BOOK: Final = "closed_book"


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a suite.

    Attributes:
        noise: Shares of noise, each in [0, 1); every question is asked once for each.
        passages: Documents per question.
        seed: Of the choice of documents; the benchmark's by default.
        prompt: A Jinja template over ``documents`` and ``query`` instead of Leadline's own.
        closed_book: Ask the questions of the counterfactual files also without any document.
    """

    noise: tuple[float, ...] = NOISE
    passages: int = 5
    seed: int = SEED
    prompt: str | None = None
    closed_book: bool = False

    def __post_init__(self) -> None:
        wrong = [level for level in self.noise if not 0 <= level < 1]
        if wrong or not self.noise:
            raise UsageError(
                f"The noise {wrong[0] if wrong else 'list'} is no share from 0 to below 1.",
                hint="Write, for example: --noise 0,0.2,0.4,0.6,0.8 (cases of noise alone are made in any case).",
                code=ErrorCode.RGB_OPTION,
            )
        if self.passages < 1:
            raise UsageError(
                f"{self.passages} passages are too few.", hint="Give at least 1.", code=ErrorCode.RGB_OPTION
            )


@dataclass(frozen=True, slots=True)
class Built:
    """A suite.

    Attributes:
        cases: Number of cases by testbed and task.
    """

    path: Path
    cases: Mapping[tuple[str, str], int]


def build(paths: Sequence[str], target: Path, plan: Plan) -> Built:
    """Write the test cases of RGB's files as a dataset without answers.

    Args:
        paths: RGB's files, or folders with some; which testbed each is says its name (``en_refine.json``,
            ``data_zh_int.jsonl``).
        target: The suite, JSON Lines in Leadline's names; it appears complete or not at all.
        plan: How it is made.

    Raises:
        DatasetError: A file cannot be used; lists every fault.
        UsageError: There is no file of RGB's, a name says no testbed, two files are the same testbed, or the
            prompt cannot be filled in.
    """
    counted: Counter[tuple[str, str]] = Counter()
    with ExitStack() as stack:
        file = stack.enter_context(stack.enter_context(handed_out(target)).open("wb"))
        for path, testbed in _testbeds(paths):
            for case in _cases(path, testbed, plan):
                counted[testbed.name, case["metadata"]["rgb"]["task"]] += 1
                file.write(orjson.dumps(case, option=orjson.OPT_APPEND_NEWLINE))
    return Built(target, dict(counted))


def _testbeds(paths: Sequence[str]) -> Iterator[tuple[Path, Testbed]]:
    seen: dict[str, Path] = {}
    for path in map(Path, paths):
        found = sorted(path.glob("*.json*")) if path.is_dir() else [path]
        known = [(file, testbed) for file in found if (testbed := find_testbed(file.stem)) is not None]
        if not known:
            raise UsageError(
                f"{path} is no file of RGB's by its name.",
                hint="They are called en.json, zh_refine.json, en_int.json, zh_fact.json and so on.",
                code=ErrorCode.RGB_FILE,
            )
        for file, testbed in known:
            if testbed.name in seen:
                raise UsageError(
                    f"{seen[testbed.name]} and {file} are both {testbed.name}.",
                    hint="Name one of them.",
                    code=ErrorCode.RGB_FILE,
                )
            seen[testbed.name] = file
            yield file, testbed


def _cases(path: Path, testbed: Testbed, plan: Plan) -> Iterator[dict[str, Any]]:
    source = SourceFile.at(path)
    faults = Faults(source.name)
    for item in read_items(source, layout_of(source), faults):
        if check(item.value, testbed.kind, faults, item.place) and not faults:
            yield from _instance_cases(item.value, item.row, testbed, plan)
    if faults:
        faults.refuse()


def _instance_cases(instance: Mapping[str, Any], row: int, testbed: Testbed, plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield a question's cases; the one with the least noise is the original of the others."""
    levels = [0.0] if testbed.kind == "fact" else sorted(set(plan.noise))
    key = f"{testbed.name}-{instance.get('id', row - 1)}"
    task = TASKS[testbed.kind]
    for level in levels:
        case = _case(f"{key}-noise{level:g}", task, instance, testbed, plan, level)
        if level != levels[0]:
            original = f"{key}-noise{levels[0]:g}"
            case["relationships"] = [
                {"type": "perturbation_source", "target": original, "perturbation": f"noise {level:g}"}
            ]
        yield case
    if testbed.kind == "plain":
        yield _case(f"{key}-noise1", REJECTION, instance, testbed, plan, 1.0)
    if testbed.kind == "fact" and plan.closed_book:
        yield _case(f"{key}-closed-book", CLOSED_BOOK, instance, testbed, plan, None)


def _case(
    key: str, task: str, instance: Mapping[str, Any], testbed: Testbed, plan: Plan, noise: float | None
) -> dict[str, Any]:
    shown = () if noise is None else documents(
        instance, testbed.kind, noise=noise, passages=plan.passages, seed=plan.seed
    )  # fmt: skip
    tags = {
        "testbed": testbed.name,
        "task": task,
        "language": testbed.language,
        "noise": noise,
        "passages": plan.passages,
        "seed": plan.seed,
        "query": instance["query"],
        "documents": shown,
        "answer": instance["answer"],
    }
    if testbed.kind == "fact" and instance.get("fakeanswer") is not None:
        tags["counterfactual_answer"] = instance["fakeanswer"]
    return {
        "case": key,
        "question": _asked(instance["query"], shown, testbed.language, plan.prompt),
        "expected_answer": spelled(instance["answer"]),
        "categories": ["rgb", task, testbed.name],
        "metadata": {"rgb": tags},
    }


def _asked(query: str, shown: Sequence[str], language: str, prompt: str | None) -> str:
    if prompt is None:
        prompt = (files("leadline.plugins.rgb") / f"prompt.{language}.jinja").read_text(encoding="utf-8").rstrip("\n")
    try:
        return render_text(prompt, {"documents": list(shown), "query": query})
    except ValueFault as error:
        raise UsageError(
            f"The prompt cannot be used: {error}.", hint="It may name: documents, query.", code=ErrorCode.RGB_OPTION
        ) from None


def spelled(answer: Any) -> list[str]:
    """Return an answer in RGB's notation as expected answers: the spellings of one part, or the parts in one text."""
    parts = [part if isinstance(part, list) else [part] for part in (answer if isinstance(answer, list) else [answer])]
    if len(parts) == 1:
        return list(parts[0])
    return ["; ".join(part[0] for part in parts)]
