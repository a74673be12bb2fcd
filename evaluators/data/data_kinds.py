"""Kinds of dataset that an evaluator can say it is for, in its spec's ``suits``."""

from __future__ import annotations

from enum import StrEnum


class DataKind(StrEnum):
    """A kind of dataset. How one is recognised stands in ``tasks/plan/dataset_profile.py``.

    Attributes:
        LABELS: The expected answers are labels: few, short, repeated; and the answers are labels too.
        SENTENCES: The expected answers are sentences, no single words.
        LIKE_LENGTHS: Answers and expected answers are sentences of about the same length, so that counting the words
            they share says something.
        DOCUMENTS: The questions are documents and the answers shorter texts: summaries.
        QUESTIONS: The questions are questions: no documents to summarise, no items to label.
        ENCODED: Categories of some cases name an encoding in which something was asked, such as Base64.
        RGB: The cases are those of the benchmark RGB.
        SHORT_ANSWERS: Expected answers and answers are a few words, as in reading comprehension, and no labels.
        NUMBERS: The expected answers are numbers, with a unit or a sign of a currency or of percent at most.
        JSON: Half of the answers, or half of the expected ones, are JSON objects or arrays.
        JSON_REFERENCES: Half of the expected answers are.
        SQL_REFERENCES: Half of the expected answers are queries in SQL.
        CITED: One in ten answers has a marker of a citation, such as ``[1]``.
        QUOTING: One in ten answers has a quotation of several words.
    """

    LABELS = "labels"
    SENTENCES = "sentences"
    LIKE_LENGTHS = "like_lengths"
    DOCUMENTS = "documents"
    QUESTIONS = "questions"
    ENCODED = "encoded"
    RGB = "rgb"
    SHORT_ANSWERS = "short_answers"
    NUMBERS = "numbers"
    JSON = "json"
    JSON_REFERENCES = "json_references"
    SQL_REFERENCES = "sql_references"
    CITED = "cited"
    QUOTING = "quoting"
