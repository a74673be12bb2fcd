"""Formats of flat records: Leadline's own, those of ragas, deepeval and Databricks, and any other with known names."""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import lru_cache
from typing import Any, ClassVar, Final

from leadline.evaluators.data import Messages
from leadline.tasks.load.chat import reply
from leadline.tasks.load.columns import Columns, container_of, field_of, normalized
from leadline.tasks.load.faults import Place
from leadline.tasks.load.formats.base import (
    ANSWER_COLUMNS,
    CASE_COLUMNS,
    DEFAULTS,
    IDENTITY_COLUMNS,
    MODEL_COLUMNS,
    SQUAD,
    DatasetFormat,
    Values,
)
from leadline.tasks.load.formats.conversations import (
    CONVERSATION_COLUMNS,
    ConversationFormat,
    read_messages,
    replied,
)
from leadline.tasks.load.formats.registry import register
from leadline.tasks.load.readers import Item
from leadline.tasks.load.readers.json_records import MODELS
from leadline.tasks.load.values import (
    Reading,
    ValueFault,
    anything,
    as_json,
    chunks,
    documents,
    expected,
    filled,
    key,
    listed,
    mapping,
    message,
    money,
    number,
    text,
    texts,
    unpacked,
)

_CASE: Final[Columns] = {**CASE_COLUMNS, "metadata": ("case_metadata", mapping)}
_MODEL: Final[Columns] = {"key": ("key", key), "name": ("name", filled), "version": ("version", filled)}
_LEADLINES: Final = frozenset({"actual_answer", "expected_answer", "expected_annotations", "predicted_annotations"})


@register
class Leadline(ConversationFormat):
    """Reads Leadline's records.

    A record with a list ``answers`` is a case, wherever it stands. In a document the elements of ``cases`` are
    cases, those of ``answers`` are flat records, and those of ``models`` describe models. A record that has
    ``messages`` instead of a question, or says which calls or which outcome it expects, is a conversation.
    """

    name = "leadline"
    title = "Leadline"
    recognised_by = "`actual_answer`, `expected_answer`, or `question` alone; lists `cases` or `answers`"
    question_column = "question"
    answer_column = "actual_answer"
    sections = ("cases", "answers")
    columns: ClassVar[Columns] = {**CASE_COLUMNS, **ANSWER_COLUMNS}
    conversation_columns: ClassVar[Columns] = {**CONVERSATION_COLUMNS, "question": ("question", filled)}
    marks = frozenset({"expected_tool_calls", "expected_outcome"})
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
        if names & _LEADLINES:
            return 0.5
        return 0.1 if "question" in names else 0

    def opens(self, name: str) -> tuple[type, ...]:
        """Return the type of the lists that make a record a case with its answers."""
        return (list, dict) if name == SQUAD else super().opens(name)

    def has_conversation(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record is a conversation; messages beside a question are metadata, as they always were."""
        said = unpacked(record.get("messages")) if self._cells else record.get("messages")
        return (isinstance(said, list) and not record.get("question")) or super().has_conversation(
            {**record, "messages": None}
        )

    def refine_conversation(self, values: Values, others: dict[str, Any]) -> None:
        """Make messages of a question that stands without them."""
        question = values.pop("question", None)
        if question is not None and "messages" not in values:
            values["messages"] = [{"role": "user", "content": question}]

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Stage a record of any of the three layouts."""
        if item.section == MODELS:
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


_OLD_RAGAS: Final = frozenset({"answer", "contexts", "ground_truth", "ground_truths"})
"""Fields that only ragas before 0.2 wrote beside ``question``."""


@register
class RagasDataset(ConversationFormat):
    """Reads a ragas evaluation dataset, also with the field names of ragas before 0.2.

    The reference of a conversation is its outcome; of one whose last answer stands apart, that answer's reference.
    """

    name = "ragas"
    title = "ragas"
    recognised_by = "`user_input`; `question` beside `answer`, `contexts` or `ground_truth`"
    question_column = "user_input"
    answer_column = "response"
    columns: ClassVar[Columns] = {
        **IDENTITY_COLUMNS,
        "user_input": ("chat", anything),
        "question": ("chat", anything),
        "response": ("answer", text),
        "answer": ("answer", text),
        "retrieved_contexts": ("context", chunks),
        "contexts": ("context", chunks),
        "retrieved_context_ids": ("context_ids", documents),
        "reference": ("expected", texts),
        "ground_truth": ("expected", texts),
        "ground_truths": ("expected", texts),
        "reference_context_ids": ("documents", documents),
    }

    messages_column = "user_input"
    marks = frozenset({"reference_tool_calls", "reference_topics"})
    conversation_columns: ClassVar[Columns] = {
        **IDENTITY_COLUMNS,
        "user_input": ("messages", read_messages),
        "response": ("answer", text),
        "retrieved_contexts": ("context", chunks),
        "reference": ("outcome", filled),
        "reference_tool_calls": CONVERSATION_COLUMNS["expected_tool_calls"],
        "reference_topics": ("topics", texts),
    }
    by_columns: ClassVar[Mapping[str, tuple[str, Reading]] | None] = {"chat": ("question", filled)}

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are ragas' records; the old names are less certain."""
        if "user_input" in names:
            return 0.6
        return 0.2 if "question" in names and names & _OLD_RAGAS else 0

    def refine(self, place: Place, values: Values, others: dict[str, Any]) -> None:
        """Take the question from a conversation, and join the documents' ids with their chunks."""
        self.take_question(place, values, "user_input", values.pop("chat", None))
        uris = values.pop("context_ids", [])
        found = values.get("context", [])
        if uris and found and len(uris) != len(found):
            self.faults.add(
                place, "retrieved_context_ids", f"there are {len(uris)} ids for {len(found)} retrieved contexts"
            )
        elif uris:
            contents = [content for content, _ in found] or [""] * len(uris)
            values["context"] = list(zip(contents, uris, strict=True))

    def refine_conversation(self, values: Values, others: dict[str, Any]) -> None:
        """Take the reference for that of the answer, where there is one apart."""
        if "answer" in values and "outcome" in values:
            values["expected"] = [values.pop("outcome")]

    def needed(self) -> tuple[str, ...]:
        """Return the columns that some record must have, in the names of its version of ragas."""
        if self.conversations.is_read:
            return ()
        return ("question", "answer") if "question" in self.flat.seen else ("user_input", "response")


_DEEPEVALS: Final = frozenset({"actual_output", "retrieval_context", "expected_output"})


@register
class Deepeval(DatasetFormat):
    """Reads deepeval's test cases."""

    name = "deepeval"
    title = "deepeval"
    recognised_by = "`input` beside `actual_output`"
    question_column = "input"
    answer_column = "actual_output"
    needs = ("input", "actual_output")
    keeps = frozenset({"context"})  # the ideal one
    columns: ClassVar[Columns] = {
        **IDENTITY_COLUMNS,
        "name": ("case", key),
        "input": ("question", filled),
        "actual_output": ("answer", text),
        "expected_output": ("expected", texts),
        "retrieval_context": ("context", chunks),
        "completion_time": ("duration_s", number),
        "token_cost": ("cost_usd", money),
        "tags": ("categories", texts),
    }

    by_columns: ClassVar[Mapping[str, tuple[str, Reading]] | None] = {}

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are deepeval's test cases."""
        return 0.3 if "input" in names and names & _DEEPEVALS else 0


def _requested(value: Any) -> Messages:
    """Read the messages of a request, or its query with the history before it."""
    value = unpacked(value)
    if isinstance(value, dict) and isinstance(query := value.get("query"), str):
        value = [*listed(value.get("history") or []), {"role": "user", "content": query}]
    messages = read_messages(value)
    if all(message["role"] != "user" for message in messages):
        raise ValueFault("the conversation has no message of the user")
    return messages


def _calls_tools(response: Any) -> bool:
    try:
        return isinstance(response, list | dict) and any("tool_calls" in message for message in replied(response))
    except ValueFault:
        return False


_OF_CASE: Final = ("expected_facts", "guidelines", "guidelines_context", "custom_expected")


@register
class Databricks(ConversationFormat):
    """Reads an evaluation set. Messages before the last question are given, and the response replies to them.

    ``expected_facts``, ``guidelines`` and ``custom_expected`` become metadata of the case: facts are claims that
    an answer must support, no acceptable answers. A missing ``response`` is taken from the trace.
    """

    name = "databricks"
    title = "Databricks"
    recognised_by = "`request`"
    question_column = "request"
    answer_column = "response"
    needs = ("request",)
    columns: ClassVar[Columns] = {
        **MODEL_COLUMNS,
        "request_id": ("case", key),
        "request": ("request", anything),
        "response": ("response", anything),
        "expected_response": ("expected", texts),
        "retrieved_context": ("context", chunks),
        "expected_retrieved_context": ("documents", documents),
        "error": ("error", message),
        **{name: (name, unpacked) for name in _OF_CASE},  # Parquet has no type for a map of anything
        "trace": ("trace", anything),
    }
    messages_column = "request"
    conversation_columns: ClassVar[Columns] = {**columns, "request": ("messages", _requested)}

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that these are records of an evaluation set."""
        return 0.7 if "request" in names else 0

    def has_conversation(self, record: Mapping[str, Any]) -> bool:
        """Return whether messages are given, or the response calls tools."""
        return super().has_conversation(record) or _calls_tools(record.get("response"))

    def refine(self, place: Place, values: Values, others: dict[str, Any]) -> None:
        """Unpack chat-shaped requests and responses, and gather what belongs to the case."""
        self.take_question(place, values, "request", values.pop("request", None))
        answer = reply(self.faults, place, "response", self._gathered(values, others))
        if answer is not None:
            values["answer"] = answer

    def refine_conversation(self, values: Values, others: dict[str, Any]) -> None:
        """Read the response, and gather what belongs to the case."""
        response = self._gathered(values, others)
        if response is not None:
            values["reply"] = replied(response)

    def _gathered(self, values: Values, others: dict[str, Any]) -> Any:
        """Return the response, and gather what belongs to the case and to the answer."""
        trace = values.pop("trace", None)
        response = values.pop("response", None)
        if response is None and isinstance(trace, dict) and isinstance(trace.get("data"), dict):
            response = trace["data"].get("response")
        metadata = {name: values.pop(name) for name in _OF_CASE if name in values}
        if metadata:
            values["case_metadata"] = metadata
        if trace is not None:
            others["trace"] = trace
        return response


_ENOUGH: Final = frozenset({"question", "actual_answer"})
_OBJECTS: Final = frozenset(
    map(normalized, ("inputs", "outputs", "reference_outputs", "expected_outputs", "expectations"))
)
"""Names that LangSmith and MLflow give to objects only."""
_CONVERSATION: Final = "messages"


@register
class Other(DatasetFormat):
    """Reads records whose names are those of no one tool: ``Question,Answer``, ``prompt,response``, LangSmith's runs.

    A question may be a conversation and an answer a chat completion. Objects around them, such as LangSmith's
    ``inputs`` and ``outputs``, are opened.
    """

    name = "other"
    title = "Other"
    recognised_by = "any [name](#columns) of a question or an answer"
    answer_column = "actual_answer"
    columns: ClassVar[Columns] = {
        **CASE_COLUMNS,
        **ANSWER_COLUMNS,
        "question": ("chat", anything),
        "actual_answer": ("reply", anything),
        "expected_answer": ("reference", anything),
    }

    by_columns: ClassVar[Mapping[str, tuple[str, Reading]] | None] = {
        "chat": ("question", filled),
        "reply": ("answer", text),
        "reference": ("expected", texts),
    }

    @classmethod
    def recognises(cls, names: Set[str], sections: Set[str]) -> float:
        """Return how certain it is that records can be read by the names of their fields alone: hardly."""
        known = {match.field for match in map(field_of, names) if match}
        return 0.05 if known & _ENOUGH and not sections else 0

    def prepared(self, columns: Columns) -> Columns:
        """Return columns read as the container needs it; in CSV a text that is JSON stays the text that it is."""
        as_they_are = {name: target for name, target in columns.items() if target[0] in ("chat", "reply")}
        return {**super().prepared(columns), **as_they_are}

    def opens(self, name: str) -> tuple[type, ...]:
        """Return the types of the values that are objects around a text, or that may contain one as JSON."""
        if _is_packed(name):
            return (object,)
        return (dict,) if container_of(name) is not None else super().opens(name)

    def convert_record(self, item: Item, record: dict[str, Any]) -> None:
        """Stage a record, with the objects around its texts opened."""
        super().convert_record(item, _opened(record, cells=self._cells))

    def refine(self, place: Place, values: Values, others: dict[str, Any]) -> None:
        """Take the question from a conversation, the answer from a completion, and the reference from an object."""
        self.take_question(place, values, "question", values.pop("chat", None))
        answer = reply(self.faults, place, "actual_answer", values.pop("reply", None))
        if answer is not None:
            values["answer"] = answer
        reference = values.pop("reference", None)
        if reference is not None:
            try:
                values["expected"] = [as_json(reference)] if isinstance(reference, dict) else texts(reference)
            except ValueFault as error:
                self.faults.add(place, "expected_answer", str(error))


def _opened(record: dict[str, Any], *, cells: bool) -> dict[str, Any]:
    """Return a record in which objects around a text are replaced by the text, and by their other members.

    The text is the member whose name means the same as the object's; in ``inputs`` and the like it may also be the
    only one. Other members are named after both: ``inputs.context``.

    Args:
        cells: Whether every value is a text, as in CSV; members become texts then, too.
    """
    packed = [name for name, value in record.items() if isinstance(value, dict) or _is_packed(name)]
    if not packed:
        return record
    out: dict[str, Any] = {}
    for name, value in record.items():
        if name in packed and isinstance(value, str):
            value = unpacked(value)
        members = _members(name, value)
        single = len(members) == 1 and normalized(name) in _OBJECTS
        text = next(iter(members)) if single else _text_in(name, members)
        if text is None:
            out[name] = value
            continue
        out[name] = members.pop(text)
        for member, its in members.items():
            out[f"{name}.{member}"] = as_json(its) if cells and not isinstance(its, str) else its
    return out


@lru_cache(maxsize=1024)
def _is_packed(name: str) -> bool:
    """Return whether a cell of this name holds an object or a conversation as JSON."""
    return normalized(name) in (*_OBJECTS, _CONVERSATION)


def _members(name: str, value: Any) -> dict[str, Any]:
    """Return the members of an object around a text; none of anything else, nor of a conversation or completion."""
    if not isinstance(value, dict) or _CONVERSATION in value or "choices" in value or container_of(name) is None:
        return {}
    return {member: its for member, its in value.items() if its is not None}


def _text_in(name: str, members: dict[str, Any]) -> str | None:
    """Return the member whose name means the same as the object's."""
    for member in members:
        match = field_of(f"{name}.{member}")
        if match is not None and match.field == container_of(name):
            return member
    return None
