"""Names of fields: what the usual tools call a question, an answer, a reference, a context, and so on.

Names are compared without case, blanks, hyphens and underscores: ``Ground Truth`` is ``ground_truth``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import Final, NamedTuple

from leadline.tasks.load.limits import MAX_KEY

METADATA: Final = "metadata"
"""Stands for no field: the column is kept as metadata."""

LABELS: Final = "labels"
"""The field of people's labels, and its column's name; a column ``labels`` of other values is an expected answer."""


class _Names(NamedTuple):
    """Names of a field.

    Attributes:
        clear: Names that mean nothing else in a file of questions and answers.
        weak: Names that may mean something else; one is used only where no clear one is there, with a warning.
    """

    clear: str
    weak: str = ""


_NAMES: Final[Mapping[str, _Names]] = {
    "question": _Names(
        "question query prompt input inputs request user_input user_query user_question user_prompt user_message "
        "question_text query_text prompt_text input_text",
        "instruction messages utterance task problem",
    ),
    "actual_answer": _Names(
        "actual_answer answer actual_output output response actual_response completion prediction generated_answer "
        "generated_text generated_response generated_output generation model_answer model_output model_response "
        "llm_answer llm_output llm_response assistant_response bot_response bot_answer system_answer predicted_answer "
        "answer_text response_text output_text final_answer",
        "outputs result reply predicted predictions generated candidate hypothesis",
    ),
    "expected_answer": _Names(
        "expected_answer expected_answers expected expected_output expected_outputs expected_response expectations "
        "reference references reference_answer reference_answers reference_output reference_outputs "
        "reference_response ground_truth ground_truths ground_truth_answer groundtruth_answer gold gold_answer "
        "gold_answers golden golden_answer golden_output correct_answer correct_answers right_answer ideal "
        "ideal_answer ideal_response target_answer target_output",
        "label labels target targets solution truth gold_label best_answer",
    ),
    "retrieved_context": _Names(
        "retrieved_context retrieved_contexts retrieval_context retrieval_contexts context contexts documents "
        "retrieved_documents retrieved_docs retrieved_chunks retrieved_passages source_documents context_text "
        "context_documents search_results chunks passages",
        "source sources docs document passage evidence knowledge snippets article",
    ),
    "expected_documents": _Names(
        "expected_documents expected_document_ids expected_retrieved_context expected_sources "
        "reference_context_ids gold_documents relevant_documents relevant_document_ids"
    ),
    "case": _Names(
        "case case_key case_id question_id query_id prompt_id qid example_id sample_id test_case_id test_id request_id",
        "id",
    ),
    "model": _Names("model model_key model_id", "llm llm_name engine provider"),
    "model_name": _Names("model_name"),
    "model_version": _Names("model_version"),
    "categories": _Names("categories category tags tag"),
    "error": _Names("error error_message"),
    "duration_s": _Names(
        "duration_s latency_s response_time_s elapsed_s time_s duration_seconds latency_seconds response_time_seconds "
        "elapsed_seconds duration_sec latency_sec completion_time actual_duration execution_time",
        "latency duration response_time elapsed elapsed_time",
    ),
    "duration_ms": _Names(
        "duration_ms latency_ms response_time_ms elapsed_ms time_ms duration_milliseconds latency_milliseconds"
    ),
    "cost_usd": _Names("cost_usd cost_in_usd cost total_cost total_cost_usd token_cost"),
    "input_tokens": _Names(
        "input_tokens prompt_tokens tokens_in input_token_count prompt_token_count num_input_tokens"
    ),
    "output_tokens": _Names(
        "output_tokens completion_tokens tokens_out output_token_count completion_token_count num_output_tokens"
    ),
    "condition": _Names("condition"),
    "relationships": _Names("relationships"),
    "expected_annotations": _Names("expected_annotations"),
    "predicted_annotations": _Names("predicted_annotations"),
}

_COMPARED: Final = 1000
"""Columns of no known name that are compared with known ones."""
_SHORTEST: Final = 5
"""Letters of a name that is compared with similar ones; shorter ones are all alike."""
_LONG: Final = 8
"""Letters from which on a name may differ from a similar one by two slips instead of one."""
_IGNORED: Final = re.compile(r"[\s_\-]+")
_LEVELS: Final = re.compile(r"[./]")


class FieldMatch(NamedTuple):
    """The field that a name stands for.

    Attributes:
        field: The field, in Leadline's name.
        clear: Whether the name means nothing else.
    """

    field: str
    clear: bool


def normalized(name: str) -> str:
    """Return a name as it is compared."""
    return _IGNORED.sub("", name[:MAX_KEY]).casefold()


def _index() -> Iterator[tuple[str, FieldMatch]]:
    for field, names in _NAMES.items():
        for words, clear in ((names.clear, True), (names.weak, False)):
            for name in words.split():
                yield normalized(name), FieldMatch(field, clear)


_KNOWN: Final = dict(_index())

_CONTAINERS: Final = ("question", "actual_answer", "expected_answer")
"""Fields whose value may be an object around the text, as ``inputs``, ``outputs`` and ``expectations`` are."""


def field_names() -> tuple[str, ...]:
    """Return the fields that a column can fill, in Leadline's names."""
    return (*_NAMES, LABELS, METADATA)


def names_of(field: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a field: those that mean nothing else, and those that may."""
    names = _NAMES[field]
    return tuple(names.clear.split()), tuple(names.weak.split())


def known_names() -> Mapping[str, FieldMatch]:
    """Return every name, as it is compared, with the field that it stands for."""
    return _KNOWN


def field_of(name: str) -> FieldMatch | None:
    """Return the field that a column's name stands for, ``None`` if it is not known.

    A name with a point or slash is a member of an object: ``inputs.question`` is the question, ``outputs.contexts`` the
    context, and ``reference_outputs.answer`` the expected answer.
    """
    found = _KNOWN.get(normalized(name))
    if found is not None:
        return found
    head, *members = _LEVELS.split(name[:MAX_KEY], maxsplit=1)
    outer = container_of(head)
    inner = _KNOWN.get(normalized(members[0])) if outer and members else None
    if outer is None or inner is None:
        return None
    if outer == "expected_answer":
        return FieldMatch(outer, inner.clear) if inner.field in ("actual_answer", "expected_answer") else None
    if inner.field == "question" and outer == "actual_answer":
        return None  # an application that repeats what it was asked
    if inner.field == "actual_answer" and outer == "question":
        return None
    return inner


def resembling(columns: Iterable[str], fields: Set[str]) -> Iterator[tuple[str, str]]:
    """Yield columns whose names are nearly those of some fields, each after the field.

    Args:
        columns: Columns of no known name; the first thousand are compared.
    """
    names = {name: match.field for name, match in _KNOWN.items() if len(name) >= _SHORTEST and match.field in fields}
    compared = [column for column in islice(columns, _COMPARED) if len(normalized(column)) >= _SHORTEST]
    if not names or not compared:
        return
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    choices = list(names)
    for column in compared:
        slips = 2 if len(normalized(column)) >= _LONG else 1
        found = process.extractOne(normalized(column), choices, scorer=OSA.distance, score_cutoff=slips)
        if found:
            yield names[found[0]], column


def container_of(name: str) -> str | None:
    """Return the field of an object around a text, such as ``inputs``; ``None`` where the name is of none."""
    found = _KNOWN.get(normalized(name))
    return found.field if found is not None and found.field in _CONTAINERS else None
