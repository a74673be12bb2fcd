"""The base class of dataset formats: it reads the columns of a record and stages its case and answers."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import orjson

from leadline.evaluators.ground import DatasetError, ErrorCode, Fault
from leadline.tasks.load.annotations import expected_annotations, predicted_annotations
from leadline.tasks.load.chat import answer_within, last_user_message
from leadline.tasks.load.columns import LABELS, METADATA, ColumnNames, Columns, ColumnTable, field_names, listed, mapped
from leadline.tasks.load.conversation import Conversation, Part, parts_of
from leadline.tasks.load.dataset_models import DatasetModels
from leadline.tasks.load.faults import Faults, Place
from leadline.tasks.load.label import GivenLabel, LabelColumn
from leadline.tasks.load.limits import MAX_KEY
from leadline.tasks.load.messages import given_chunks
from leadline.tasks.load.readers import Item
from leadline.tasks.load.readers.json_records import TITLE
from leadline.tasks.load.source import SourceFile
from leadline.tasks.load.values import (
    Chunks,
    Reading,
    ValueFault,
    anything,
    as_json,
    canonical,
    chunks,
    count,
    derived_key,
    documents,
    expected,
    filled,
    in_cells,
    key,
    mapping,
    message,
    milliseconds,
    money,
    number,
    shown,
    text,
    texts,
)

if TYPE_CHECKING:
    from leadline.tasks.load.corpus import DocumentTexts
    from leadline.tasks.load.staging import Batches

Values: TypeAlias = dict[str, Any]
"""Fields of a record, in Leadline's names and types; absent ones are left out."""

MODEL_COLUMNS: Final[Columns] = {
    "model": ("model", key),
    "model_key": ("model", key),
    "model_name": ("model_name", filled),
    "model_version": ("model_version", filled),
}

ANSWER_COLUMNS: Final[Columns] = {
    **MODEL_COLUMNS,
    "actual_answer": ("answer", text),
    "retrieved_context": ("context", chunks),
    "error": ("error", message),
    "duration_s": ("duration_s", number),
    "cost_usd": ("cost_usd", money),
    "input_tokens": ("input_tokens", count),
    "output_tokens": ("output_tokens", count),
    "metadata": ("row_metadata", mapping),
    "predicted_annotations": ("predicted", predicted_annotations),
}

IDENTITY_COLUMNS: Final[Columns] = {
    **MODEL_COLUMNS,
    "case": ("case", key),
    "case_key": ("case", key),
    "id": ("case", key),
    "error": ("error", message),
}
"""Columns that users add to the records of libraries that name neither cases nor models."""

CASE_COLUMNS: Final[Columns] = {
    "case": ("case", key),
    "case_key": ("case", key),
    "key": ("case", key),
    "id": ("case", key),
    "question": ("question", filled),
    "expected_answer": ("expected", texts),
    "expected_documents": ("documents", documents),
    "condition": ("condition", filled),
    "categories": ("categories", texts),
    "relationships": ("relationships", anything),
    "expected_annotations": ("annotations", expected_annotations),
}

DEFAULTS: Final[Columns] = {
    name: target
    for name, target in {**CASE_COLUMNS, **ANSWER_COLUMNS, "duration_ms": ("duration_s", milliseconds)}.items()
    if name in field_names() and name != METADATA
}
"""Fields that a record may have in a column of any known name, whatever its format."""

PEOPLE: Final = "people's labels"
"""The place of people's labels among the values of a record, which no format's field has."""

_MOST_LABELLED: Final = 1000
"""Metrics with labels that are counted."""

_PERTURBED: Final = "perturbation_source"
"""Type of the relationship from a perturbed case to its original."""

_PERTURBED_BY: Final = "perturbed_by:"
_PERTURBATORS: Final = {
    "QwertyPerturbator": "qwerty",
    "RandomCharacterReplacementPerturbator": "character_replacement",
    "RandomCharacterInsertPerturbator": "character_insertion",
    "RandomCharacterDeletePerturbator": "character_deletion",
    "KeywordTyposCharacterPerturbator": "typo",
    "RandomOCRCharacterPerturbator": "ocr",
    "EncodingPerturbatorBase16": "base16",
    "ContextualMisinformationPerturbator": "misinformation",
}
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


SQUAD: Final = "answers"
"""Column of the references in SQuAD and the sets that Hugging Face has in its form: an object with a list ``text``."""


def with_squad_answers(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record in which SQuAD's references are those of the case, if it names no others."""
    answers = record.get(SQUAD)
    if type(answers) is not dict or type(answers.get("text")) is not list or "expected_answer" in record:
        return record
    return {name: value for name, value in record.items() if name != SQUAD} | {"expected_answer": answers["text"]}


class DatasetFormat(ABC):
    """Reads the records of one format and stages them as cases and answers.

    A format subclasses this in a module of its own, declares the class attributes, and is decorated with
    :func:`leadline.tasks.load.formats.registry.register`. An instance reads one file.

    Class attributes:
        name: Its name for ``--format``.
        title: Its name in messages and documentation.
        recognised_by: What it is recognised by, in Markdown, for the documentation.
        columns: The columns of a flat record; other columns become metadata.
        sections: Lists of a document that contain its records, as paths of at most two names (``"dataset.inputs"``).
        question_column: The column of the question, for messages.
        answer_column: The column without which there is nothing to evaluate, for messages.
        condition_column: The column of the condition, for messages.
        needs: Columns that some record must have, that of the question first.
        keeps: Columns that are metadata although other tools call a field so.
        is_flat: Whether the names in the file are those of columns, not of objects that are taken apart.
        by_columns: Fields that :meth:`refine` derives from others, each with the field that a plain text or list in it
            becomes and its reading; ``None`` if the records are to be read one at a time. Not inherited.

    Attributes:
        source: The file that is read.
        dataset_name: The name that the file gives to the dataset, ``""`` if none.
        warnings: Messages for the user with how often each applies.
        declares_cases: Whether the file lists its cases, so that answers must name listed ones.
        flat: The columns of flat records.
        labels: The column of people's labels.
        label_names: Names of the metrics that have labels, with the number of labels.
        corpus: Has the texts of documents that were recorded by their ids.

    Args:
        source: The file that is read.
        batches: Where to stage.
        models: The models of the dataset.
        faults: Where to note what is wrong.
        cells: Whether every value is a text, as in CSV.
        cases_only: Whether to leave out the answers, see :func:`leadline.tasks.load.dataset.load_dataset`.
        named: Names of the columns as far as they are known, and the user's mapping of them.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    recognised_by: ClassVar[str] = ""
    columns: ClassVar[Columns]
    sections: ClassVar[tuple[str, ...]] = ()
    question_column: ClassVar[str] = ""
    answer_column: ClassVar[str]
    condition_column: ClassVar[str] = "condition"
    needs: ClassVar[tuple[str, ...]] = ()
    keeps: ClassVar[frozenset[str]] = frozenset()
    is_flat: ClassVar[bool] = True
    by_columns: ClassVar[Mapping[str, tuple[str, Reading]] | None] = None

    def __init__(
        self,
        source: SourceFile,
        batches: Batches,
        models: DatasetModels,
        faults: Faults,
        *,
        cells: bool,
        cases_only: bool = False,
        named: ColumnNames | None = None,
    ) -> None:
        self.source = source
        self.batches = batches
        self.models = models
        self.faults = faults
        self.dataset_name = ""
        self.warnings: dict[str, int] = {}
        self.declares_cases = False
        self.cases_only = cases_only
        self._cells = cells
        self._named = named or ColumnNames()
        self._tables: list[ColumnTable] = []
        taken = not self.is_flat or LABELS in self.columns or LABELS in self.keeps
        self.labels = LabelColumn.of(self._named, cells=cells, taken=taken)
        self.label_names: dict[str, int] = {}
        self.corpus: DocumentTexts | None = None
        self.flat = self.table(self.columns, DEFAULTS)
        if self.is_flat:
            self.flat.learn(self._early())

    @classmethod
    @abstractmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that records are of this format, from 0 (they are not) to 1; the highest wins.

        Args:
            names: Names of the fields of the first records.
            sections: Lists of a document that contain the records, as paths; empty for a plain list or a table.
        """

    @classmethod
    def may_hold_conversations(cls, names: Set[str]) -> bool:
        """Return whether records with these fields may be conversations, which earlier versions read as single answers.

        Such a file is loaded anew; the dataset of any other keeps its digest.
        """
        return False

    @classmethod
    def advice(cls, names: Set[str]) -> str:
        """Return how to load a file that no format recognises and that is a part of this one; ``""`` if it is none."""
        return ""

    def _early(self) -> Iterator[str]:
        """Yield the columns whose meaning their names tell."""
        late = self._named.late if self.labels.name else frozenset()
        return (name for name in self._named.names if name not in late)

    def prepared(self, columns: Columns) -> Columns:
        """Return columns read as the container needs it."""
        if not self._cells:
            return columns
        return {name: (field, in_cells(reading)) for name, (field, reading) in columns.items()}

    @classmethod
    def is_changed_by(cls, named: ColumnNames) -> bool:
        """Return whether the user's mapping gives some column another meaning than it has by its name."""
        if not named.asked:
            return False
        mapped_so = ColumnTable(cls.columns, DEFAULTS, asked=named.asked, kept=cls.keeps)
        by_name = ColumnTable(cls.columns, DEFAULTS, kept=cls.keeps)
        if LABELS in named.asked or LABELS in named.asked.values():
            return True
        for table in (mapped_so, by_name):
            table.learn(name for name in named.names if name not in named.late)
        return mapped_so.fields != by_name.fields or not named.asked.keys() <= set(named.names) or bool(by_name.faults)

    def table(self, columns: Columns, defaults: Columns) -> ColumnTable:
        """Return the columns of one kind of record, with the user's mapping."""
        own, others = self.prepared(columns), self.prepared(defaults)
        table = ColumnTable(own, others, asked=self._named.asked, kept=self.keeps)
        self._tables.append(table)
        return table

    def convert(self, item: Item) -> None:
        """Stage one record, or note the name of the dataset."""
        if item.section == TITLE:
            self.dataset_name = item.value.strip()[:MAX_KEY]
            return
        if type(item.value) is not dict:
            self.faults.lose(orjson.dumps(item.value, default=str))
            self.faults.add(item.place, "", str(expected("an object", item.value)))
            return
        self.convert_record(item, item.value)
        self.batches.end_of_record(item.size)

    def end_of_records(self) -> None:  # noqa: B027 - most formats stage each record as it comes
        """Stage what only all records together make."""

    def opens(self, name: str) -> tuple[type, ...]:
        """Return the types of values in a column that make :meth:`convert_record` read their record in another way."""
        return (dict,) if name == SQUAD else ()

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Stage a record that is an object: by default one case with one answer."""
        place = item.place
        values, others = self.read_answer(place, with_squad_answers(record), self.flat)
        self.refine(place, values, others)
        self.stage_flat(place, values, others)

    def refine(self, place: Place, values: Values, others: dict[str, Any]) -> None:  # noqa: B027 - most formats have nothing to refine
        """Derive fields from others, where a format needs it; changes both in place."""

    def take_question(self, place: Place, values: Values, column: str, value: Any) -> None:
        """Put the question of a conversation, or of a text, into a record's values; ``None`` is no question."""
        question, before = last_user_message(self.faults, place, column, value)
        values |= {name: told for name, told in (("question", question), ("conversation", before)) if told is not None}
        if not self.flat.fills(self._answer_field()) and (said := answer_within(value)) is not None:
            values["answer"] = said

    def needed(self) -> tuple[str, ...]:
        """Return the columns that some record must have, that of the question first."""
        return self.needs

    def finish(self) -> None:
        """Note faults that only all records together show."""
        read = [table for table in self._tables if table.is_read]
        unclear = [fault for table in read for field, fault in table.faults if field not in self._ignored()]
        if unclear and not self.faults:
            raise DatasetError(
                [Fault(self.faults.file, None, "", each) for each in unclear], code=ErrorCode.DATA_COLUMNS
            )
        if self.faults.unreadable or not read:
            return
        # Conversations that end with their answer need no column of answers.
        for column in self.needed()[: 1 if self.cases_only or self.batches.answered else None]:
            if not self.flat.fills(self.columns[column][0]):
                hint = self._hint(column)
                self.faults.add(None, column, f"the column is missing, and no other is known to be it{hint}")
        for column, field in self._named.asked.items():
            if not any(column in table.seen for table in read) and not (field == LABELS and self.labels.met):
                self.faults.add(None, "", f"--map {field}={shown(column)[1:-1]}: no record has this column")

    def missing_answer(self) -> str:
        """Return how to name the column of the answers where none is known to be it, ``""`` where one is."""
        return "" if self.flat.fills(self._answer_field()) else self._hint(self.answer_column)

    def _answer_field(self) -> str:
        return self.columns.get(self.answer_column, ("answer", anything))[0]

    def _hint(self, column: str) -> str:
        field = self.flat.field_name(column)
        others = self.flat.others()
        there = f"; not used: {listed(others)}" if others else ""
        return f"; if it has another name: {mapped(field, 'COLUMN')}{there}"

    def _ignored(self) -> frozenset[str]:
        return frozenset({*ANSWER_COLUMNS, "duration_ms"}) if self.cases_only else frozenset()

    def column_uses(self) -> tuple[dict[str, str], list[str]]:
        """Return the columns that fill a field, each with the field's name, and those that are kept as metadata."""
        read = [table for table in self._tables if table.is_read]
        fields = {column: field for table in read for column, field in table.fields.items()}
        fields |= {self.labels.name: LABELS} if self.labels.used and self.labels.name else {}
        return fields, list(dict.fromkeys(name for table in read for name in table.others() if name not in fields))

    def column_notes(self) -> list[str]:
        """Return what the user should know of the columns."""
        read = [table for table in self._tables if table.is_read]
        return [*self._named.warnings, *(note for table in read for note in table.notes(without=self._ignored()))]

    def warn(self, message: str) -> None:
        """Note something that the user should know, counted if it happens again."""
        self.warnings[message] = self.warnings.get(message, 0) + 1

    def read(
        self, place: Place, record: dict[str, Any], columns: ColumnTable | Columns
    ) -> tuple[Values, dict[str, Any]]:
        """Read the known columns of a record; return their values, and the other columns as they are."""
        table = None
        if isinstance(columns, ColumnTable):
            table = columns
            columns = table.of(record)
        values: Values = {}
        others: dict[str, Any] = {}
        for column, value in record.items():
            if value is None:
                continue
            known = columns.get(column)
            if known is None:
                others[column] = value
                continue
            if known[0] in values:
                first = next(
                    name for name in record if record[name] is not None and columns.get(name, ("",))[0] == known[0]
                )
                self.warn(f"columns {shown(first)} and {shown(column)} are the same field; the second is metadata")
                others[column] = value
                continue
            try:
                values[known[0]] = known[1](value)
            except ValueFault as error:
                hint = table.hint(column) if table else ""
                self.faults.add(place, column, f"{error}{hint}")
                if known[0] == "model":
                    values["model"] = "?"  # or the answer would count as one that names no model
        return values, others

    def read_answer(self, place: Place, record: dict[str, Any], columns: ColumnTable) -> tuple[Values, dict[str, Any]]:
        """Read the known columns of a record that is an answer, and what people say of it."""
        column = self.labels.name
        if column is None or column not in record:
            return self.read(place, record, columns)
        if not self.labels.holds(record[column]):
            if self.labels.used:
                self._mixed_labels(place, column, record[column])
            return self.read(place, record, columns)
        labels, wrong = self.labels.read(record[column])
        for each in wrong:
            self.faults.add(place, column, each)
        if labels and column in columns.fields:
            self._mixed_labels(place, column, record[column])
        values, others = self.read(place, {name: each for name, each in record.items() if name != column}, columns)
        return values | {PEOPLE: labels} if labels else values, others

    def _mixed_labels(self, place: Place, column: str, value: Any) -> None:
        message = f"some rows have people's labels here, an object, and others something else; this one: {shown(value)}"
        self.faults.add(place, column, message)

    def stage_flat(self, place: Place, values: Values, others: dict[str, Any]) -> None:
        """Stage a record that is a case and its answer; unknown columns belong to the answer, if there is one."""
        of_case = others | values.get("row_metadata", {}) if self.cases_only and "answer" not in values else {}
        case = self.stage_case(place, values, of_case, from_answer=True)
        self.stage_answer(place, case, values, others)

    def stage_case(
        self, place: Place, values: Values, metadata: dict[str, Any], *, from_answer: bool = False
    ) -> tuple[str, bool, int]:
        """Stage a mention of a case; return its key, whether the key was derived, and the mention's number.

        Args:
            metadata: Further metadata of the case.
            from_answer: Whether the record is an answer, which may name its case by the key alone.
        """
        get = values.get
        fields = (
            get("question"),
            get("expected") or None,
            get("documents") or None,
            get("condition"),
            get("categories") or None,
        )
        merged = None
        if metadata or "case_metadata" in values:
            merged = self._metadata(place, metadata | get("case_metadata", {}))
        given: str | None = get("case")
        derived = given is None
        annotations = get("annotations")
        if derived and get("question") is None and (annotations is not None or "predicted" in values):
            self.faults.add(place, "case", "a data item needs a key, for its ground truth does not tell it from others")
        before = get("conversation")
        case = given or derived_key(fields if before is None else (*fields, before))
        bare = from_answer and not derived and merged is None and annotations is None and not any(fields)
        seq = self.batches.case(place, case, derived=derived, bare=bare, fields=(*fields, annotations, merged))
        if "relationships" in values:
            self._stage_links(place, case, values)
        return case, derived, seq

    def stage_conversation(self, place: Place, given: Conversation) -> None:
        """Stage a conversation: a case with one answer, and its turns where it has several."""
        whole, turns = parts_of(given)
        turn = whole.turn
        values: Values = {
            "question": turn.question,
            "expected": list(turn.expected_answers),
            "documents": list(given.expected_documents),
            "condition": given.condition,
            "categories": list(given.categories),
            "case_metadata": dict(given.case_metadata),
        }
        if given.key:
            values["case"] = given.key
        if turns or given.given:  # those that begin alike are told apart by all that the model did not say
            values["conversation"] = as_json([told for told in given.messages if told["role"] != "assistant"])
        answer: Values = {
            "answer": turn.answer,
            "context": whole.chunks,
            "error": given.error,
            **{name: number for name, number in whole.numbers._asdict().items() if number is not None},
            "row_metadata": dict(given.metadata),
        }
        if given.model:
            answer["model"] = given.model
        if given.labels:
            answer[PEOPLE] = given.labels
        case = self.stage_case(place, values, {})
        self.stage_answer(place, case, answer, {})
        if turn.answer is None and given.error is None:  # of a model that only calls tools the calls are the answer
            self.batches.answered += any(message.get("tool_calls") for message in given.messages[given.given :])
        if self.cases_only:
            self.batches.recording(case[0], given.recording())
        else:
            self._stage_turns(whole, turns, given.error)

    def _stage_turns(self, whole: Part, turns: Sequence[Part], error: str | None) -> None:
        row = self.batches.rows - 1
        unit, number = ("conversation", None) if turns else ("row", 1)
        count = max(1, len(turns))
        nothing = (None,) * 9
        self.batches.turn((row, unit, row, number, count, *nothing, *whole.content))
        for place, part in enumerate(turns, start=1):
            turn, failed = part.turn, error if place == count else None
            asked = (turn.question, list(turn.expected_answers), turn.answer, part.chunks, failed)
            line = (self.batches.next_turn(), "turn", row, place, count, *asked, *part.numbers, *part.content)
            self.batches.turn(line)

    def stage_answer(self, place: Place, case: tuple[str, bool, int], values: Values, others: dict[str, Any]) -> None:
        """Stage an answer to a case."""
        if self.cases_only:
            return
        get = values.get
        model = get("model")
        if "model_name" in values or "model_version" in values:
            self._describe_model(place, values)
        self.note_blank()
        self.batches.answer(
            place,
            case,
            self.models.of_answer(model, place),
            get("answer"),
            self._with_texts(get("context", [])),
            get("error"),
            (get("duration_s"), get("cost_usd"), get("input_tokens"), get("output_tokens")),
            self._metadata(place, get("row_metadata", {}) | others) if others or "row_metadata" in values else "{}",
            get("predicted"),
        )
        if PEOPLE in values:
            self._stage_labels(values[PEOPLE])

    def _with_texts(self, found: Chunks) -> Chunks:
        """Return retrieved chunks with the texts of those that are ids."""
        if self.corpus is None:
            return found
        given = [self.corpus.with_text(chunk) for chunk in given_chunks(found)]
        return [(chunk["content"], chunk.get("doc_uri")) for chunk in given if chunk is not None]

    def note_blank(self) -> None:
        """Have empty cells of a column of answers taken for empty answers."""
        if self._cells and self.batches.blank is None and self.flat.fills(self._answer_field()):
            self.batches.blank = ""

    def _stage_labels(self, labels: Sequence[GivenLabel]) -> None:
        self.batches.labels(labels)
        for name in (label.question for label in labels):
            if name in self.label_names or len(self.label_names) < _MOST_LABELLED:
                self.label_names[name] = self.label_names.get(name, 0) + 1

    def _describe_model(self, place: Place, values: Values) -> None:
        if values.get("model") is None:
            # A dataset that knows names only: the name is the key.
            values["model"] = values.get("model_name")
        if values.get("model") is not None:
            self.models.describe(place, values["model"], values.get("model_name"), values.get("model_version"))

    def _metadata(self, place: Place, metadata: dict[str, Any]) -> str:
        try:
            return canonical(metadata)
        except ValueFault as error:
            self.faults.add(place, "metadata", str(error))
            return "{}"

    def _stage_links(self, place: Place, case: str, values: Values) -> None:
        relationships = values["relationships"]
        for relationship in relationships if type(relationships) is list else [relationships]:
            try:
                link = _read_link(relationship)
            except ValueFault as error:
                self.faults.add(place, "relationships", str(error))
                continue
            if link is None:
                self.warn("relationships of another type than perturbation_source were left out")
            else:
                target, perturbator = link
                made_by = _perturbation_of(values.get("categories", ()))
                self.batches.link(place, case, target, _perturbation_name(perturbator) if perturbator else made_by)


class FileFormat(DatasetFormat):
    """A format that reads a file or folder as a whole, not record by record."""

    @classmethod
    @abstractmethod
    def reads(cls, source: SourceFile) -> bool:
        """Return whether a file or folder is of this format; told from its first bytes."""

    @abstractmethod
    def read_source(self) -> None:
        """Stage all that is in the file or folder."""


def _perturbation_name(perturbator: str) -> str:
    """Return the short name of a perturbator's id: ``CommaPerturbator`` is ``comma``."""
    name = perturbator.rsplit(".", 1)[-1].strip()
    return _PERTURBATORS.get(name) or _CAPITAL.sub("_", name.removesuffix("Perturbator") or name).lower()


def _perturbation_of(categories: Iterable[str]) -> str:
    """Return the perturbations that the categories of a case name, several joined by ``+``; ``""`` if none.

    H2O names them so: ``perturbed_by:h2o_sonar.utils.perturbations.CommaPerturbator:PerturbationIntensity.HIGH``.
    """
    names = [
        _perturbation_name(c.removeprefix(_PERTURBED_BY).split(":", 1)[0])
        for c in categories
        if c.startswith(_PERTURBED_BY)
    ]
    return "+".join(dict.fromkeys(name for name in names if name))


def _read_link(relationship: Any) -> tuple[str, str | None] | None:
    """Return the key of the original and the name of the perturbation; ``None`` for a relationship of another type.

    Raises:
        ValueFault: It is not a relationship, or has no target.
    """
    if type(relationship) is not dict:
        raise expected("a list of objects", relationship)
    for name in ("type", "target_type"):
        if type(relationship.get(name, "")) not in (str, type(None)):
            raise expected(f"a text as {name}", relationship[name])
    if relationship.get("type") != _PERTURBED or relationship.get("target_type") not in (None, "", "test_case", "case"):
        return None
    target = relationship.get("target")
    original = None if target is None or target == [] else key(target)
    if original is None:
        raise ValueFault("the relationship has no target")
    return original, filled(relationship.get("perturbation") or "")
