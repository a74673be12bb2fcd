"""The facts about a dataset that decide which evaluators it is for, and for each of the others why it is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final

from leadline.evaluators.core import DataKind, Evaluator
from leadline.evaluators.data import RowField
from leadline.evaluators.privacy.rules.encodings import perturbation
from leadline.tasks.db import attach_dataset, connect, sql

LABELS_AT_MOST: Final = 100
LABEL_WORDS: Final = 5
LABEL_REPEATS: Final = 2.0
LABEL_ANSWERS: Final = 0.1
"""Expected answers are labels where there are at most so many different ones, of at most so many words, each in so many
cases on average, and where at least this share of the answers is one of them."""

SENTENCE_WORDS: Final = 4
"""Expected answers are sentences where half of them have at least so many words."""

LENGTH_RATIO: Final = 2.0
"""Answers are as long as the expected ones where in half of the rows neither is longer than so many times the other."""

DOCUMENT_WORDS: Final = 100
SUMMARY_WORDS: Final = 10
"""Questions are documents where half of them have at least so many words, and half of the answers, the summaries, at
least so many, but no more than half of the document's."""

SHORT_WORDS: Final = 6
"""Answers are short where half of them have at most so many words."""

MOSTLY: Final = 0.5
"""A dataset is of a form, such as JSON, where at least this share of its texts is."""

SOME: Final = 0.1
"""Answers quote where at least this share of them does. They cite where most do: those that do not count as bad."""

_OF_ITEMS: Final = frozenset({RowField.EXPECTED_ANNOTATIONS, RowField.PREDICTED_ANNOTATIONS})

_ABSENT: Final[Mapping[RowField, str]] = {
    RowField.QUESTION: "no case has a question",
    RowField.EXPECTED_ANSWER: "no case has an expected answer",
    RowField.RETRIEVED_CONTEXT: "no row has a retrieved context",
    RowField.ACTUAL_ANSWER: "no row has an answer",
    RowField.CONDITION: "no case has a condition",
    RowField.CATEGORIES: "no case has a category",
    RowField.EXPECTED_DOCUMENTS: "no case has expected documents",
    RowField.RETRIEVED_DOCUMENTS: "no row has retrieved documents",
    RowField.METADATA: "no row has metadata",
    RowField.EXPECTED_ANNOTATIONS: "no case has expected annotations",
    RowField.PREDICTED_ANNOTATIONS: "no row has predicted annotations",
    RowField.DURATION_S: "no row says how long its answer took",
    RowField.COST_USD: "no row says what its answer cost",
    RowField.INPUT_TOKENS: "no row has a number of input tokens",
    RowField.OUTPUT_TOKENS: "no row has a number of output tokens",
    RowField.ORIGINAL_ANSWER: "no case is a copy of another",
    RowField.RIVAL_ANSWERS: "no case was answered by several models",
    RowField.MESSAGES: "no row has messages",
    RowField.HISTORY: "no turn has one before it",
    RowField.TOOL_CALLS: "no row says which tools were called",
    RowField.TOOLS: "no row says which tools there are",
    RowField.STEPS: "no row has the steps of a trace",
    RowField.EXPECTED_TOOL_CALLS: "no case has expected tool calls",
    RowField.EXPECTED_OUTCOME: "no case has an expected outcome",
    RowField.SCENARIO: "no case has a scenario",
}


@dataclass(frozen=True, slots=True)
class DatasetProfile:
    """The facts about a dataset; lengths are medians in words, and 0 where there is nothing to measure.

    Attributes:
        texts: Whether it has questions and answers, no data items alone.
        annotations: The annotations of its data items: some of ``whole``, ``box``, ``polygon``, ``raster``; ``region``
            alone where none is a single object.
        fields: The sets of fields that some row has together. An answer that a host's error took the place of counts.
        references: Questions with an expected answer; perturbed copies do not count.
        distinct_references: Different ones among those expected answers.
        reference_words: Length of the expected answers.
        longest_references: The length that one in twenty of the expected answers exceeds.
        answers_among_references: Share of the answers that are one of the dataset's expected answers.
        question_words: Length of the questions.
        answer_words: Length of the answers.
        length_ratio: Of an answer and its expected answer, how many times as long the longer one is.
        rgb: Whether its cases are those of the benchmark RGB.
        encoded: Whether categories of some cases name an encoding.
        metadata_keys: Keys of the metadata of cases and rows.
        json_references: Share of the expected answers that are JSON objects or arrays.
        sql_references: Share of the expected answers that are queries in SQL.
        number_references: Share of the expected answers that are numbers.
        json_answers: Share of the answers that are JSON objects or arrays, as such or in a fence of Markdown.
        cited_answers: Share of the answers with a marker of a citation.
        quoting_answers: Share of the answers with a quotation of several words.
    """

    texts: bool = True
    annotations: frozenset[str] = frozenset()
    fields: frozenset[frozenset[RowField]] = frozenset()
    references: int = 0
    distinct_references: int = 0
    reference_words: float = 0.0
    longest_references: float = 0.0
    answers_among_references: float = 0.0
    question_words: float = 0.0
    answer_words: float = 0.0
    length_ratio: float = 0.0
    rgb: bool = False
    encoded: bool = False
    metadata_keys: frozenset[str] = frozenset()
    json_references: float = 0.0
    sql_references: float = 0.0
    number_references: float = 0.0
    json_answers: float = 0.0
    cited_answers: float = 0.0
    quoting_answers: float = 0.0


def profile(dataset: Path) -> DatasetProfile:
    """Return the facts about a loaded dataset."""
    with connect() as connection:
        attach_dataset(connection, dataset)
        connection.execute(sql("plan/words"))
        found = connection.execute(sql("plan/dataset_profile"))
        names = [column[0] for column in found.description or ()]
        facts = dict(zip(names, found.fetchall()[0], strict=True))
    instances = facts.pop("instances")
    facts["encoded"] = perturbation(facts.pop("encodings") or ()) is not None
    facts["metadata_keys"] = frozenset(facts.pop("metadata_keys") or ())
    drawn = frozenset(name for name in ("whole", "box", "polygon", "raster") if facts.pop(name))
    fields = frozenset(frozenset(map(RowField, names)) for names in facts.pop("fields") or ())
    annotations = drawn if instances or not drawn else frozenset({"region"})
    return DatasetProfile(annotations=annotations, fields=fields, **facts)


def why_not(evaluator: Evaluator, facts: DatasetProfile, *, by_kind: bool) -> str:
    """Return why a dataset is not for an evaluator, ``""`` if it is.

    Args:
        by_kind: Whether the fields that the evaluator needs and the kinds of dataset that it suits count too, besides
            the distinction between texts and annotated data items.
    """
    of_items = not _OF_ITEMS.isdisjoint(evaluator.required)
    if of_items and not facts.annotations.intersection(evaluator.spec.annotations or facts.annotations):
        return "the dataset has no annotations of its kind" if facts.annotations else "the dataset has no annotations"
    if not of_items and not facts.texts:
        return "the dataset has annotated items, no questions and answers"
    if not by_kind:
        return ""
    reasons = (_KINDS[kind](facts) for kind in evaluator.spec.suits)
    return _lacking(evaluator, facts) or _without_metadata(evaluator, facts) or next(filter(None, reasons), "")


def _lacking(evaluator: Evaluator, facts: DatasetProfile) -> str:
    required = frozenset(evaluator.required)
    if any(required <= together for together in facts.fields):
        return ""
    there = frozenset[RowField]().union(*facts.fields)
    absent = [_ABSENT[field] for field in evaluator.required if field not in there]
    return absent[0] if absent else f"no row has all of {', '.join(field.value for field in evaluator.required)}"


def _without_metadata(evaluator: Evaluator, facts: DatasetProfile) -> str:
    wanted = evaluator.spec.metadata
    return f"no row's metadata has {' or '.join(wanted)}" if wanted and facts.metadata_keys.isdisjoint(wanted) else ""


def _not_labels(facts: DatasetProfile) -> str:
    different = f"{facts.distinct_references:,} different ones in {facts.references:,} questions"
    if facts.distinct_references > LABELS_AT_MOST or facts.references < LABEL_REPEATS * facts.distinct_references:
        return f"the expected answers are no labels: {different}"
    if facts.longest_references > LABEL_WORDS:
        return f"the expected answers are no labels: some have {facts.longest_references:.0f} words"
    if facts.answers_among_references < LABEL_ANSWERS:
        return "the expected answers may be labels, but the answers are not"
    return ""


def _not_sentences(facts: DatasetProfile) -> str:
    if facts.reference_words >= SENTENCE_WORDS:
        return ""
    return f"the expected answers are no sentences: half of them have at most {_words(facts.reference_words)}"


def _unlike_lengths(facts: DatasetProfile) -> str:
    if facts.reference_words and facts.length_ratio > LENGTH_RATIO:
        lengths = f"{_words(facts.answer_words)} against {facts.reference_words:.0f}"
        return f"answers and expected answers differ in length: {lengths} (medians)"
    return _not_sentences(facts)


def _not_documents(facts: DatasetProfile) -> str:
    if facts.question_words < DOCUMENT_WORDS:
        return f"the questions are no documents to summarise: half have at most {_words(facts.question_words)}"
    if facts.rgb or not SUMMARY_WORDS <= facts.answer_words <= facts.question_words / 2:
        return f"the answers are no summaries of the questions: {_words(facts.answer_words)} (median)"
    return ""


def _not_questions(facts: DatasetProfile) -> str:
    if not _not_documents(facts):
        return "the questions are documents to summarise"
    return "" if _not_labels(facts) else "the questions are items to label"


def _not_short(facts: DatasetProfile) -> str:
    if not _not_labels(facts):
        return "the expected answers are labels, which classification compares"
    if max(facts.json_references, facts.sql_references) >= MOSTLY:
        return "the expected answers are JSON or SQL"
    if max(facts.reference_words, facts.answer_words) > SHORT_WORDS:
        lengths = f"{_words(facts.answer_words)} against {facts.reference_words:.0f}"
        return f"answers and expected answers are no few words: {lengths} (medians)"
    return ""


def _no_numbers(facts: DatasetProfile) -> str:
    if not _not_labels(facts):
        return "the expected answers are labels, which classification compares"
    return "" if facts.number_references >= MOSTLY else "the expected answers are no numbers"


def _not_json(facts: DatasetProfile) -> str:
    if max(facts.json_answers, facts.json_references) >= MOSTLY:
        return ""
    return "neither the answers nor the expected answers are JSON objects or arrays"


def _needs(fact: Callable[[DatasetProfile], float], least: float, reason: str) -> Callable[[DatasetProfile], str]:
    """Return what gives a reason for datasets of which a fact is less than it should be."""
    return lambda facts: "" if fact(facts) >= least else reason


_KINDS: Final[Mapping[DataKind, Callable[[DatasetProfile], str]]] = {
    DataKind.LABELS: _not_labels,
    DataKind.SENTENCES: _not_sentences,
    DataKind.LIKE_LENGTHS: _unlike_lengths,
    DataKind.DOCUMENTS: _not_documents,
    DataKind.QUESTIONS: _not_questions,
    DataKind.ENCODED: _needs(attrgetter("encoded"), True, "no category of a case names an encoding, such as base64"),
    DataKind.RGB: _needs(
        attrgetter("rgb"), True, "the cases are not those of the benchmark RGB (leadline data rgb build makes them)"
    ),
    DataKind.SHORT_ANSWERS: _not_short,
    DataKind.NUMBERS: _no_numbers,
    DataKind.JSON: _not_json,
    DataKind.JSON_REFERENCES: _needs(
        attrgetter("json_references"), MOSTLY, "the expected answers are no JSON objects or arrays"
    ),
    DataKind.SQL_REFERENCES: _needs(attrgetter("sql_references"), MOSTLY, "the expected answers are no queries in SQL"),
    DataKind.CITED: _needs(attrgetter("cited_answers"), MOSTLY, "most answers cite nothing by markers such as [1]"),
    DataKind.QUOTING: _needs(attrgetter("quoting_answers"), SOME, "the answers quote nothing"),
}
"""For each kind of dataset a function that says why a dataset is none of it, ``""`` if it is."""


def _words(number: float) -> str:
    return f"{number:.0f} {'word' if round(number) == 1 else 'words'}"
