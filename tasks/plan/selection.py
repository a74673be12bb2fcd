"""Which evaluators a dataset is for: those of questions and answers, or those of data items with annotations.

What somebody named by id always runs. What only came along, by default or with a suite, is dropped where the dataset
has nothing that it is about, so that neither kind of dataset gets the other kind's columns.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.core.registry import get
from leadline.evaluators.core.row import RowField
from leadline.tasks.db.connection import attach_dataset, connect, sql
from leadline.tasks.plan.jobs import Choice

_OF_ITEMS: Final = frozenset({RowField.EXPECTED_ANNOTATIONS, RowField.PREDICTED_ANNOTATIONS})


def applicable_to(choice: Choice, dataset: Path) -> Choice:
    """Return a choice without the unnamed evaluators that the dataset is not for; all of them if none would be left.

    Args:
        choice: What was asked for.
        dataset: Folder of the loaded dataset.
    """
    with connect() as connection:
        attach_dataset(connection, dataset)
        texts, *geometries, instances = connection.execute(sql("fitting")).fetchall()[0]
    present = {name for name, there in zip(("whole", "box", "polygon", "raster"), geometries, strict=True) if there}
    if present and not instances:
        present = {"region"}
    kept = tuple(
        evaluator
        for evaluator in choice.evaluators
        if evaluator.spec.id not in choice.unnamed or _fits(evaluator, present, texts=texts)
    )
    left_out = {name: why for name, why in choice.left_out.items() if _fits(get(name)(), present, texts=texts)}
    return replace(choice, evaluators=kept, left_out=left_out) if kept else choice


def _fits(evaluator: Evaluator, present: set[str], *, texts: bool) -> bool:
    if _OF_ITEMS.isdisjoint(evaluator.required):
        return texts
    return bool(present.intersection(evaluator.spec.annotations or present))
