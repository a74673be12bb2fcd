"""People's answers to a question about answers, such as "is this answer right?", apart from what any metric says.

Labels of a question decide it in the runs of the dataset whose rows were drawn for them, or of which every answer of a
model has one. Labels that somebody gave to rows of their own choice say nothing of the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from leadline.tasks.db.connection import open_run
from leadline.tasks.db.statements import sql
from leadline.tasks.db.tables import replace_lines
from leadline.tasks.judges.labels.judged_rows import JudgedMetric, JudgedRows, rows_of
from leadline.tasks.judges.labels.known_labels import KnownLabels
from leadline.tasks.load.label import Label, consensus
from leadline.tasks.policy.asked_questions import Question
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CRITERIA: Final[Mapping[str, tuple[str, str]]] = {
    Question.RIGHT: (
        "Is this answer right?",
        "Right: it answers the question as the expected answer does, whatever its words, and says nothing that is "
        "false. Wrong: it says something else, leaves out what matters, or does not answer.",
    ),
    Question.GROUNDED: (
        "Does this answer rest on what was retrieved?",
        "Yes: everything that it states stands in the retrieved texts or follows from them. No: something does not, "
        "even if it is true.",
    ),
}
"""What people are asked, and how they are to decide, by the question."""


def question_rows(store: Store, run: Run, question: str) -> JudgedRows:
    """Return the answered rows of a run, as people are asked a question about them.

    Args:
        question: One of :data:`CRITERIA`.
    """
    with open_run(store, run, read_only=True) as connection:
        return _answered(connection, question)


def _answered(connection: DuckDBPyConnection, question: str) -> JudgedRows:
    name, criterion = CRITERIA[question]
    metric = JudgedMetric(-1, question, "", name, criterion, "", None, True, 0.0, 1.0, is_share=True)
    return rows_of(connection, metric, sql("labels/answered").format(row_key=sql("labels/row_key")))


def show_question_labels(
    connection: DuckDBPyConnection, store: Store, run: Run, known: Mapping[str, KnownLabels]
) -> None:
    """Fill the table ``question_labels``.

    Args:
        known: What people said, by question.
    """
    lines = []
    for question in CRITERIA.keys() & known.keys():
        said = known[question]
        rows = _answered(connection, question)
        drawn = _drawn(store, run, said)
        by_key: defaultdict[str, list[Label]] = defaultdict(list)
        for label in said.labels:
            by_key[label.key].append(label)
        agreed = {key: consensus(labels, binary=True) for key, labels in by_key.items()}
        whole = set(rows.models) - {
            model for model, key in zip(rows.models, rows.keys, strict=True) if agreed.get(key) is None
        }
        lines += [
            {"question": question, "row_id": int(row), "good": good}
            for row, key, model in zip(rows.rows, rows.keys, rows.models, strict=True)
            if (good := agreed.get(key)) is not None and (model in whole or key in drawn)
        ]
    replace_lines(connection, "question_labels", lines)


def _drawn(store: Store, run: Run, said: KnownLabels) -> set[str]:
    """Return the keys of rows that were drawn at random from the rows of this run's dataset."""
    dataset = run.read().get("dataset")
    given = {label.sample for label in said.labels}
    of_dataset = [
        sample
        for sample in said.samples
        if sample.id in given and (sample.run == run.id or _dataset_of(store, sample.run) == dataset)
    ]
    return {row.key for sample in of_dataset for row in sample.rows}


def _dataset_of(store: Store, run: str) -> str:
    return next((str(each.read().get("dataset")) for each in store.runs() if each.id == run), "")
