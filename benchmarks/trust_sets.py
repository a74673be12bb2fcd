"""Public sets with people's labels, as rows that evaluators can be run on; what is not in the folders is left out.

Sets are found by the names of their files, in the folders that are given and in the folders inside of these:

* ``presidio_pii.jsonl``: texts with spans of personal data (microsoft/presidio-research, MIT)
* ``xstest_completions.jsonl``: answers that comply or refuse (XSTest, CC BY 4.0)
* ``hatecheck.jsonl``: short texts, hateful or not, by what they test (HateCheck, CC BY 4.0)
* ``surge_toxicity.jsonl``: comments, toxic or not (surge-ai/toxicity, MIT)
* ``mtrag_tasks.jsonl``, ``mtrag_evaluations.jsonl``, ``mtrag_documents.jsonl``: answers of RAG systems rated by
  three people (IBM/mt-rag-benchmark, Apache-2.0)
* ``llmbar.jsonl``: two outputs for an instruction, one of them better (princeton-nlp/LLMBar, MIT)
* ``rag_systems/dataset.json`` and ``human_preferences.json``: answers of eight RAG systems, compared by two people
  (RAGChecker's meta-evaluation, Apache-2.0)
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

Answer: TypeAlias = tuple[str, str]
"""Case and model of an answer."""

PRESIDIO: Final = ("Presidio research, half", "MIT, microsoft/presidio-research")
XSTEST: Final = ("XSTest, half, 5 models", "CC BY 4.0, paul-rottger/exaggerated-safety")
HATECHECK: Final = ("HateCheck, half", "CC BY 4.0, paul-rottger/hatecheck-data")
SURGE: Final = ("Surge toxicity, half", "MIT, surge-ai/toxicity")
MTRAG: Final = ("MTRAG, half, 2 models", "Apache-2.0, IBM/mt-rag-benchmark")
LLMBAR: Final = ("LLMBar, half", "MIT, princeton-nlp/LLMBar")
RAGCHECKER: Final = ("RAGChecker, half", "Apache-2.0, amazon-science/RAGChecker")
SCALES: Final = ("completeness", "faithfulness", "appropriateness", "naturalness")


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """Answers that people judged one by one.

    Attributes:
        name: Name of the set.
        licence: Its licence and origin.
        claim: What people said of an answer.
        rows: The answers, as a dataset of Leadline.
        people: What they said: a number, or 1 where the claim is true and 0 where not.
        groups: Which answers hang together: made from one template, in one conversation.
        binary: Whether people said yes or no.
        kinds: What an answer tests, where the set says so.
        ceiling: One person's agreement with the others, by the set's own measure; ``None`` where it does not tell.
        printable: Answers that are fit to be shown as examples.
    """

    name: str
    licence: str
    claim: str
    rows: Sequence[Mapping[str, Any]]
    people: Mapping[Answer, float]
    groups: Mapping[Answer, str]
    binary: bool = False
    kinds: Mapping[Answer, str] = field(default_factory=dict)
    ceiling: float | None = None
    printable: frozenset[Answer] = frozenset()


@dataclass(frozen=True, slots=True)
class Preference:
    """Two answers to one question, and which of them people prefer.

    Attributes:
        case: The question.
        one: Model of the one answer.
        other: Model of the other.
        strength: Above 0 where people prefer the one, below where they prefer the other, 0 where they are torn.
        raters: What each person said.
        kind: What the pair tests, where the set says so.
    """

    case: str
    one: str
    other: str
    strength: float
    raters: tuple[float, ...] = ()
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ComparedSet:
    """Answers that people compared two by two.

    Attributes:
        name: Name of the set.
        licence: Its licence and origin.
        claim: What people said of two answers.
        rows: The answers, as a dataset of Leadline.
        pairs: What people prefer.
    """

    name: str
    licence: str
    claim: str
    rows: Sequence[Mapping[str, Any]]
    pairs: Sequence[Preference]


def read_lines(folders: Sequence[Path], name: str) -> list[dict[str, Any]]:
    """Return the records of a file of JSON Lines; none if it is in no folder.

    Args:
        folders: Where to look.
        name: The file's name without its ending.
    """
    path = _find(folders, f"{name}.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path else []


def _find(folders: Sequence[Path], name: str) -> Path | None:
    """Return the first file of a name in the folders or right below them."""
    places = (place for folder in folders for place in (folder / name, *sorted(folder.glob(f"*/{name}"))))
    return next((place for place in places if place.is_file()), None)


def hateful_texts(folders: Sequence[Path]) -> LabelledSet | None:
    """Return HateCheck's texts; copies of a template with another group of people in it hang together."""
    records = read_lines(folders, "hatecheck")
    found = _texts(HATECHECK, "hateful or not", records, "test_case", ("label_gold", "hateful"))
    if found is None:
        return None
    groups = [f"{record['functionality']}/{record['templ_id']}" for record in records]
    return replace(
        found,
        groups=dict(zip(found.people, groups, strict=True)),
        kinds=dict(zip(found.people, (record["functionality"] for record in records), strict=True)),
    )


def toxic_comments(folders: Sequence[Path]) -> LabelledSet | None:
    """Return Surge's comments."""
    return _texts(SURGE, "toxic or not", read_lines(folders, "surge_toxicity"), "text", ("is_toxic", "Toxic"))


def _texts(
    about: tuple[str, str], claim: str, records: Sequence[dict[str, Any]], text: str, yes: tuple[str, str]
) -> LabelledSet | None:
    """Return texts that people said yes or no to, each for itself, ``None`` where there are none.

    Args:
        about: The set and its licence.
        claim: What people judged.
        records: The texts.
        text: The field that has the text.
        yes: The field that has what people said, and how it says yes.
    """
    if not records:
        return None
    answers = [(f"{number}", "text") for number in range(len(records))]
    rows = [
        {"case": answer[0], "model": answer[1], "actual_answer": record[text]}
        for answer, record in zip(answers, records, strict=True)
    ]
    said = {answer: float(record[yes[0]] == yes[1]) for answer, record in zip(answers, records, strict=True)}
    return LabelledSet(*about, claim, rows, said, {answer: answer[0] for answer in answers}, binary=True)


def rated_answers(folders: Sequence[Path], scale: str) -> LabelledSet | None:
    """Return the answers of MTRAG's models with the mean of what three people gave on a scale from 1 to 4.

    Args:
        folders: Where to look.
        scale: One of :data:`SCALES`.
    """
    tasks = {task["task_id"]: task for task in read_lines(folders, "mtrag_tasks")}
    documents = {document["document_id"]: document["text"] for document in read_lines(folders, "mtrag_documents")}
    rows, people, given = [], {}, []
    for record in read_lines(folders, "mtrag_evaluations"):
        said = [float(one["value"]) for one in record["annotations"].get(scale, {}).values()]
        if record["model_id"] == "reference" or not said:
            continue
        task = tasks[record["task_id"]]
        people[record["task_id"], record["model_id"]] = statistics.mean(said)
        given.append(said)
        rows.append(
            {
                "case": record["task_id"],
                "model": record["model_id"],
                "question": task["input"][-1]["text"],
                "expected_answer": task["targets"][0]["text"],
                "actual_answer": record["model_response"],
                "retrieved_context": [documents[part["document_id"]] for part in task["contexts"]],
            }
        )
    if not rows:
        return None
    conversations = {answer: answer[0].partition("<")[0] for answer in people}
    return LabelledSet(
        *MTRAG, f"{scale}, as three people rate it", rows, people, conversations,
        ceiling=_one_against_others(given), printable=frozenset(people),
    )  # fmt: skip


def _one_against_others(given: Sequence[Sequence[float]]) -> float | None:
    """Return the rank correlation of each person's rating with the mean of the others' of the same answer."""
    import numpy as np

    from leadline.tasks.statistics.agreement import spearman

    pairs = [
        (one, statistics.mean([*said[:at], *said[at + 1 :]]))
        for said in given
        if len(said) > 1
        for at, one in enumerate(said)
    ]
    if not pairs:
        return None
    ones, others = (np.array(values) for values in zip(*pairs, strict=True))
    value = spearman(ones, others)
    return None if np.isnan(value) else value


def better_outputs(folders: Sequence[Path]) -> ComparedSet | None:
    """Return LLMBar's pairs, of which one output follows the instruction and the other does not."""
    records = read_lines(folders, "llmbar")
    rows = [
        {"case": f"{number}", "model": which, "question": record["input"], "actual_answer": record[f"output_{which}"]}
        for number, record in enumerate(records)
        for which in ("1", "2")
    ]
    pairs = [
        Preference(f"{number}", "1", "2", 1.0 if record["label"] == 1 else -1.0, kind=record["subset"])
        for number, record in enumerate(records)
    ]
    return ComparedSet(*LLMBAR, "better of two outputs", rows, pairs) if rows else None


def compared_systems(folders: Sequence[Path]) -> ComparedSet | None:
    """Return the answers of RAG systems that two people compared for RAGChecker."""
    answers = _find(folders, "dataset.json") if _find(folders, "human_preferences.json") else None
    if answers is None:
        return None
    records = json.loads(answers.read_text(encoding="utf-8"))["inputs"]
    rows = [
        {
            "case": record["key"],
            "model": record["model_key"],
            "question": record["input"],
            "expected_answer": record["expected_output"],
            "actual_answer": record["actual_output"],
        }
        for record in records
    ]
    said = json.loads(answers.with_name("human_preferences.json").read_text(encoding="utf-8"))
    pairs = [
        # People's numbers are above 0 where the second answer is the better one.
        Preference(
            one["key"], one["model_a"], one["model_b"], -statistics.mean(one["overall"]),
            tuple(-float(value) for value in one["overall"]),
        )
        for one in said
    ]  # fmt: skip
    return ComparedSet(*RAGCHECKER, "better of two answers", rows, pairs)
