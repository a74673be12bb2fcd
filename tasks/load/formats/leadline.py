"""Leadline's own format: flat records, cases with their answers inside, or a document with both in lists."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, ClassVar, Final

from leadline.tasks.load.columns import Columns
from leadline.tasks.load.faults import Place
from leadline.tasks.load.formats.base import ANSWER_COLUMNS, CASE_COLUMNS, DEFAULTS, SQUAD, DatasetFormat
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.readers.item import Item
from leadline.tasks.load.readers.json_document import MODELS
from leadline.tasks.load.values import Reading, expected, filled, key, mapping

_CASE: Final[Columns] = {**CASE_COLUMNS, "metadata": ("case_metadata", mapping)}
_MODEL: Final[Columns] = {"key": ("key", key), "name": ("name", filled), "version": ("version", filled)}
_OWN_NAMES: Final = frozenset({"actual_answer", "expected_answer", "expected_annotations", "predicted_annotations"})


@register
class Leadline(DatasetFormat):
    """Reads Leadline's records.

    A record with a list ``answers`` is a case, wherever it stands. In a document the elements of ``cases`` are
    cases, those of ``answers`` are flat records, and those of ``models`` describe models.
    """

    name = "leadline"
    title = "Leadline"
    recognised_by = "`actual_answer`, `expected_answer`, or `question` alone; lists `cases` or `answers`"
    question_column = "question"
    answer_column = "actual_answer"
    sections = ("cases", "answers")
    columns: ClassVar[Columns] = {**CASE_COLUMNS, **ANSWER_COLUMNS}
    by_columns: ClassVar[Mapping[str, tuple[str, Reading]] | None] = {}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        of_answer = {*ANSWER_COLUMNS, "duration_ms"}
        self._cases = self.table(_CASE, {name: DEFAULTS[name] for name in DEFAULTS.keys() - of_answer})
        self._answers = self.table(ANSWER_COLUMNS, {name: DEFAULTS[name] for name in DEFAULTS.keys() & of_answer})

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are Leadline's records; a question alone is the least certain."""
        if sections & {"cases", "answers"}:
            return 0.9
        if names & _OWN_NAMES:
            return 0.5
        return 0.1 if "question" in names else 0

    def opens(self, name: str) -> tuple[type, ...]:
        """Return the type of the lists that make a record a case with its answers."""
        return (list, dict) if name == SQUAD else ()

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Stage a record of any of the three layouts."""
        if item.section == MODELS:
            self.list_model(item.place, record)
        elif item.section == "cases" or type(record.get("answers")) is list:
            self._convert_case(item.place, record)
        else:
            super().convert_record(item, record)

    def list_model(self, place: Place, record: dict[str, Any]) -> None:
        """Note a model that the document lists.

        Args:
            place: Where the entry is.
            record: The entry: key, and perhaps name and version.
        """
        values, _ = self.read(place, record, _MODEL)
        if values.get("key") is None:
            self.faults.add(place, "key", "a model needs a key")
        else:
            self.models.describe(place, values["key"], values.get("name"), values.get("version"), listed=True)

    def convert(self, item: Item) -> None:
        """Stage one record; a model may be listed by its key alone."""
        if item.section == MODELS and type(item.value) is str:
            item = item._replace(value={"key": item.value})
        super().convert(item)

    def _convert_case(self, place: Place, record: dict[str, Any]) -> None:
        self.declares_cases = True
        answers = record.get("answers") or []
        own = {name: value for name, value in record.items() if name != "answers"}
        if self.labels.name and type(own.get(self.labels.name)) is dict:
            message = f"labels belong to an answer, beside its actual_answer, not to a case{self.labels.hint}"
            self.faults.add(place, self.labels.name, message)
            del own[self.labels.name]
        values, others = self.read(place, own, self._cases)
        case = self.stage_case(place, values, others)
        if type(answers) is not list:
            self.faults.add(place, "answers", str(expected("a list of answers", answers)))
            return
        for index, answer in enumerate(answers):
            inner = Place(place.row, f"{place.part}answers[{index + 1}].")
            if type(answer) is dict:
                self.stage_answer(inner, case, *self.read_answer(inner, answer, self._answers))
            else:
                self.faults.add(inner, "", str(expected("an object", answer)))
