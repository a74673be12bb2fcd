"""Columns of a file and the fields that they fill: by the user's mapping, by their format, or by the names of fields.

The user maps by ``--map FIELD=COLUMN``, and ``[dataset.map]`` of ``leadline.toml``. A field is named by any of its
names, and ``COLUMN=FIELD`` is understood where only that makes sense. A name is decided on when it first occurs, so
that matching costs nothing per row.

Names are what the usual tools call a question, an answer, a reference, a context, and so on. They are compared without
case, blanks, hyphens and underscores: ``Ground Truth`` is ``ground_truth``.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from leadline.evaluators.ground import FILE, DatasetError, ErrorCode, Fault, UsageError, settings_document
from leadline.tasks.load.limits import MAX_KEY
from leadline.tasks.load.values import Reading, shown

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
    from rapidfuzz import distance, process

    choices = list(names)
    for column in compared:
        slips = 2 if len(normalized(column)) >= _LONG else 1
        found = process.extractOne(normalized(column), choices, scorer=distance.OSA.distance, score_cutoff=slips)
        if found:
            yield names[found[0]], column


def container_of(name: str) -> str | None:
    """Return the field of an object around a text, such as ``inputs``; ``None`` where the name is of none."""
    found = _KNOWN.get(normalized(name))
    return found.field if found is not None and found.field in _CONTAINERS else None


ColumnMap: TypeAlias = Mapping[str, str | Sequence[str]]
"""Field to the column that fills it, as a user writes it; ``metadata`` may have several."""

_SHOWN: Final = 20
"""Columns of a file that an error about a mapping names."""

_LONGEST: Final = 60


def project_map() -> ColumnMap:
    """Return the table ``[dataset.map]`` of ``leadline.toml`` in the working directory, empty without one.

    Raises:
        UsageError: The file cannot be read, or the table is no mapping of names.
    """
    dataset = settings_document().get("dataset", {})
    found = dataset.get("map", {}) if isinstance(dataset, dict) else None
    if not isinstance(found, dict) or not all(map(_is_column, found.values())):
        raise UsageError(
            f"{FILE}: [dataset.map] has a field and its column on each line.",
            hint='Write: expected_answer = "gold"',
            code=ErrorCode.CONFIG_CONTENT,
        )
    return found


def _is_column(value: object) -> bool:
    return all(isinstance(each, str) for each in (value if isinstance(value, list) else [value]))


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Names of the columns of a file, as far as they are known before it is read.

    Attributes:
        names: The names, in the order of the file.
        complete: Whether these are all, as in a table; records of JSON may have others later.
        asked: Columns that the user mapped, each with its field or ``metadata``.
        warnings: What the user should know of the mapping.
        late: Columns whose meaning is told by their values, in the first records as far as there are some.
    """

    names: tuple[str, ...] = ()
    complete: bool = False
    asked: Mapping[str, str] = dataclasses.field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    late: frozenset[str] = frozenset()


def map_columns(
    names: ColumnNames, asked: ColumnMap, defaults: ColumnMap | None = None, *, file: str = ""
) -> ColumnNames:
    """Return the names of a file with the user's mapping of them.

    Args:
        asked: The mapping for this file.
        defaults: The mapping for all files of the project; columns that this one does not have are a warning.
        file: The file as the user named it.

    Raises:
        DatasetError: A field or column does not exist, or two columns are to fill one field.
    """
    faults: list[Fault] = []
    found: dict[str, str] = {}

    def note(pair: str, message: str) -> None:
        faults.append(Fault(file, None, "", f"--map {pair}: {message}"))

    for left, right in _pairs(asked):
        pair = f"{shown(left)[1:-1]}={shown(right)[1:-1]}"
        column, target, message = _understood(left, right, names)
        if message:
            note(pair, message)
        elif found.get(column, target) != target:
            note(pair, f"the column is mapped to {found[column]} too")
        elif target != METADATA and target in found.values() and column not in found:
            other = next(name for name, its in found.items() if its == target)
            note(pair, f"column {shown(other)} is mapped to {target} too; a field has one column")
        else:
            found[column] = target
    if faults:
        raise DatasetError(faults, code=ErrorCode.DATA_COLUMNS)
    return _with_defaults(names, found, defaults or {})


def _with_defaults(names: ColumnNames, asked: dict[str, str], defaults: ColumnMap) -> ColumnNames:
    warnings = []
    found = dict(asked)
    for left, right in _pairs(defaults):
        column, target, message = _understood(left, right, names)
        if column not in names.names and any(field_of(name) == (target or _field(left), True) for name in names.names):
            continue  # the file has the field in a name of its own
        if message or column not in names.names:
            reason = message or f"the file has no column {shown(column)}"
            warnings.append(f"[dataset.map] of leadline.toml, {shown(left)}: {reason}")
        elif column not in found and (target == METADATA or target not in found.values()):
            found[column] = target
    return replace(names, asked=found, warnings=tuple(warnings))


def mapped(field: str, column: str) -> str:
    """Return the option that maps a column to a field, as a shell takes it.

    Args:
        column: The column; one whose name cannot be typed is left open.
    """
    name = column if column.isprintable() and len(column) <= _LONGEST else "COLUMN"
    return f"--map {shlex.quote(f'{field}={name}')}"


def _pairs(asked: ColumnMap) -> Iterator[tuple[str, str]]:
    for left, right in asked.items():
        for each in [right] if isinstance(right, str) else right:
            yield left.strip(), each.strip()


def _understood(left: str, right: str, names: ColumnNames) -> tuple[str, str, str]:
    """Return the column and the field that a pair names, or the message why there are none."""
    field, column = _field(left), _column(right, names)
    if field and column:
        return column, field, ""
    other_field, other_column = _field(right), _column(left, names)
    if other_field and other_column:
        return other_column, other_field, ""
    if not field and not other_field:
        near = get_close_matches(normalized(left), known_names(), n=1)
        hint = f"did you mean {known_names()[near[0]].field}? " if near else ""
        return "", "", f"there is no field {shown(left)}; {hint}write FIELD=COLUMN, the fields are {_fields()}"
    missing, wanted = (right, field) if field else (left, other_field)
    if not names.complete:
        return missing, wanted, ""
    near = get_close_matches(missing, names.names[:1000], n=1)
    hint = f"did you mean {shown(near[0])}? " if near else ""
    more = ", …" if len(names.names) > _SHOWN else ""
    there = ", ".join(shown(name) for name in names.names[:_SHOWN])
    return "", "", f"there is no column {shown(missing)}; {hint}the columns are {there}{more}"


def _field(name: str) -> str:
    if normalized(name) in (METADATA, LABELS):
        return normalized(name)
    match = known_names().get(normalized(name))
    return match.field if match else ""


def _fields() -> str:
    return ", ".join(field_names())


def _column(name: str, names: ColumnNames) -> str:
    """Return the column of a name, also without regard to case, blanks and underscores where that is clear."""
    if name in names.names:
        return name
    alike = [column for column in names.names if normalized(column) == normalized(name)]
    return alike[0] if len(alike) == 1 else ""


Columns: TypeAlias = Mapping[str, tuple[str, Reading]]
"""Column of a record to the field that it fills and how its value is read."""

_SCORED: Final = ("question", "actual_answer", "expected_answer", "retrieved_context")
"""Fields that scores are made of: where two columns could be one of them, the user has to say which."""
_DISPUTED: Final = ("expected_answer",)
"""Fields whose weak names mean the same also beside a clear one: ``label`` beside ``reference``, not ``source`` beside
``contexts``."""
_PHOENIX: Final = frozenset({"input", "output", "reference"})
_NAMED: Final = 10
"""Columns that messages name; the others are counted."""
_MOST_NAMES: Final = 20_000
"""Names that are learned; records that all have keys of their own do not fill the memory."""


class ColumnTable:
    """The columns of one kind of record, and the fields that they fill.

    A field is filled by the column that the user mapped to it, else by those that the format names so, else by one
    whose name is known for the field.

    Args:
        own: The columns of the format.
        defaults: Leadline's columns for fields that the format has no column for.
        asked: Columns that the user mapped, each with its field or ``metadata``.
        kept: Columns that the format keeps as metadata, whatever they mean elsewhere.

    Attributes:
        known: The columns that are read.
        seen: All names so far.
        is_read: Whether a record was read.
        fields: The columns that fill a field, each with the field's name.
        faults: Fields for which the user must choose one of several columns, with the message.
        warnings: Fields for which a doubtful column was chosen, with what the user should know.
    """

    def __init__(
        self, own: Columns, defaults: Columns, *, asked: Mapping[str, str] | None = None, kept: Set[str] = frozenset()
    ) -> None:
        self._own = frozenset(own)
        self._targets = dict(defaults)
        for column, target in reversed(list(own.items())):
            if (match := field_of(column)) is not None:
                self._targets[match.field] = target
        self._same = {normalized(column): target for column, target in reversed(list(own.items()))}
        self._kept = kept
        self._asked = dict(asked or {})
        self._filled: dict[str, str] = {}
        self._unknown: list[str] = []
        self._taken: list[tuple[str, str]] = []
        self.known: dict[str, tuple[str, Reading]] = dict(own)
        self.seen: dict[str, None] = {}
        self.is_read = False
        self.fields: dict[str, str] = {}
        self.faults: list[tuple[str, str]] = []
        self.warnings: list[tuple[str, str]] = []
        for column, field in self._asked.items():
            self._map(column, field)

    def _map(self, column: str, field: str) -> None:
        """Have a column fill a field because the user says so; no other column fills the field then."""
        self.known.pop(column, None)
        target = self._targets.get(field)
        if field != METADATA and target is not None:
            self.known = {name: other for name, other in self.known.items() if other[0] != target[0]} | {column: target}
            self._filled[target[0]] = column

    def of(self, record: Mapping[str, object]) -> Columns:
        """Return the columns that are read of a record."""
        if not self.is_read or (len(self.seen) < _MOST_NAMES and not self.seen.keys() >= record.keys()):
            self.is_read = True
            self.learn(record)
        return self.known

    def learn(self, names: Iterable[str]) -> None:
        """Decide what the names of a record fill that no record had before."""
        new = [name for name in names if name not in self.seen]
        self.seen.update(dict.fromkeys(new))
        found: defaultdict[str, list[str]] = defaultdict(list)
        for name in new:
            if name in self.known:
                self._fill(name, self.known[name])
            elif name in self._kept or name in self._asked:
                continue
            elif (match := field_of(name)) is not None and match.field in self._targets:
                found[match.field].append(name)
            elif (target := self._same.get(normalized(name))) is not None and target[0] not in self._filled:
                self._fill(name, target)
            else:
                self._unknown.append(name)
        for field, columns in found.items():
            self._choose(field, columns)

    def fills(self, field: str) -> bool:
        """Return whether some column fills one of the format's own fields."""
        return field in self._filled

    def field_name(self, column: str) -> str:
        """Return the name of the field that a column of the format fills."""
        match = field_of(column)
        return match.field if match else column

    def hint(self, column: str) -> str:
        """Return how to keep a column as metadata that was taken for a field because of its name, ``""`` for others."""
        if column in self._own or column in self._asked:
            return ""
        return f" (it is read as {self.fields[column]}; if it is something else: {mapped(METADATA, column)})"

    def others(self) -> list[str]:
        """Return the columns that are kept as metadata."""
        return [name for name in self.seen if name not in self.known]

    def notes(self, *, without: Set[str] = frozenset()) -> Iterator[str]:
        """Yield what the user should know of the columns.

        Args:
            without: Fields of no interest.
        """
        yield from (warning for field, warning in self.warnings if field not in without)
        for field, column in [each for each in self._taken if each[0] not in without][:_NAMED]:
            used = shown(self._filled.get(self._targets[field][0]) or self._filled.get("model_name", ""))
            yield (
                f"column {shown(column)} looks like {field}, which {used} is, and was kept as metadata; to take it "
                f"instead: {mapped(field, column)}"
            )
        if self.seen.keys() >= _PHOENIX and self.fields.get("reference") == "expected_answer":
            retrieved = mapped("retrieved_context", "reference")
            yield f"column 'reference' is read as expected_answer; Phoenix calls the retrieved text so: {retrieved}"
        free = {field for field, target in self._targets.items() if target[0] not in self._filled} - without
        for field, column in islice(resembling(self._unknown, free), _NAMED):
            yield f"column {shown(column)} was not used; did you mean {field}? {mapped(field, column)}"

    def _choose(self, field: str, columns: list[str]) -> None:
        """Have the best of some columns fill a field, unless something fills it already."""
        target = self._targets[field]
        clear = [column for column in columns if _is_clear(column)]
        weak = [column for column in columns if not _is_clear(column)]
        rivals = [*clear, *(weak if field in _DISPUTED else ())]
        if target[0] in self._filled or (field == "model" and "model_name" in self._filled):
            used = self._filled.get(target[0], "")
            if field == "actual_answer" and clear and normalized(used) == "answer" and used not in self._asked:
                self._dispute(field, [used, *clear], reference=used)
            self._taken += [(field, column) for column in rivals]
            return
        best = [column for column in clear if normalized(column) in self._same] or clear or weak
        if len(best) > 1 and field in _SCORED:
            self._dispute(field, best)
        self._fill(best[0], target, field)
        self._taken += [(field, column) for column in rivals if column != best[0]]
        if not clear:
            message = f"column {shown(best[0])} is read as {field}; if it is something else: "
            self.warnings.append((field, message + mapped(METADATA, best[0])))

    def _dispute(self, field: str, columns: list[str], *, reference: str = "") -> None:
        """Have the user say which of some columns fills a field.

        Args:
            reference: That of them which may be the expected answer, as ``answer`` is beside ``prediction``.
        """
        choices = " or ".join(mapped(field, column) for column in columns[:3])
        if reference and not self.fills(self._targets["expected_answer"][0]):
            choices += f" {mapped('expected_answer', reference)}"
        self.faults.append((field, f"columns {listed(columns)} could each be the {field}; say which is: {choices}"))

    def _fill(self, column: str, target: tuple[str, Reading], field: str = "") -> None:
        self.known[column] = target
        self._filled.setdefault(target[0], column)
        self.fields[column] = field or self._asked.get(column) or self._name_of(column, target[0])

    def _name_of(self, column: str, internal: str) -> str:
        """Return a field's name for people: Leadline's, else the column's own."""
        match = field_of(column)
        if match is not None and self._targets.get(match.field, ("",))[0] == internal:
            return match.field
        return next((field for field, target in self._targets.items() if target[0] == internal), column)


def _is_clear(column: str) -> bool:
    match = field_of(column)
    return match is not None and match.clear


def listed(columns: Iterable[str]) -> str:
    """Return the names of columns for a message: some of them, and how many more there are."""
    names = list(columns)
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(shown(name) for name in names[:_NAMED]) + more
