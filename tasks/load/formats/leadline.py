"""Leadline's own format: flat records, cases with their answers inside, or a document with both in lists."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from leadline.tasks.load.faults import Place
from leadline.tasks.load.formats.base import ANSWER_COLUMNS, CASE_COLUMNS, Columns, Converter
from leadline.tasks.load.kinds import DatasetFormat
from leadline.tasks.load.readers import Item
from leadline.tasks.load.values import expected, filled, key, mapping

_CASE: Final[Columns] = {**CASE_COLUMNS, "metadata": ("case_metadata", mapping)}
_MODEL: Final[Columns] = {"key": ("key", key), "name": ("name", filled), "version": ("version", filled)}


class Leadline(Converter):
    """Converts Leadline's records.

    A record with a list ``answers`` is a case, whatever holds it. In a document the elements of ``cases`` are
    cases, those of ``answers`` are flat records, and those of ``models`` describe models.
    """

    format = DatasetFormat.LEADLINE
    columns: ClassVar[Columns] = {**CASE_COLUMNS, **ANSWER_COLUMNS}
    answer_column = "actual_answer"

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Stage a record of any of the three layouts."""
        if item.section == "models":
            self.list_model(item.place, record)
        elif item.section == "cases" or type(record.get("answers")) is list:
            self._convert_case(item.place, record)
        else:
            super().convert_record(item, record)

    def list_model(self, place: Place, record: dict[str, Any]) -> None:
        """Note a model that the document lists."""
        values, _ = self.read(place, record, _MODEL)
        if values.get("key") is None:
            self.faults.add(place, "key", "a model needs a key")
        else:
            self.models.describe(place, values["key"], values.get("name"), values.get("version"), listed=True)

    def convert(self, item: Item) -> None:
        """Stage one record; a model may be listed by its key alone."""
        if item.section == "models" and type(item.value) is str:
            item = item._replace(value={"key": item.value})
        super().convert(item)

    def _convert_case(self, place: Place, record: dict[str, Any]) -> None:
        self.declares_cases = True
        answers = record.get("answers") or []
        values, others = self.read(place, {k: v for k, v in record.items() if k != "answers"}, _CASE)
        case = self.stage_case(place, values, others)
        if type(answers) is not list:
            self.faults.add(place, "answers", str(expected("a list of answers", answers)))
            return
        for index, answer in enumerate(answers):
            inner = Place(place.row, f"{place.part}answers[{index + 1}].")
            if type(answer) is dict:
                self.stage_answer(inner, case, *self.read(inner, answer, ANSWER_COLUMNS))
            else:
                self.faults.add(inner, "", str(expected("an object", answer)))
