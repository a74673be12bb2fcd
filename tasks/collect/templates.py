"""The small templates and expressions of a targets file, which fill in requests and read what replies hold.

They are sandboxed, and have texts of cases as values only.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import cache
from typing import Any, Final

import orjson
from jinja2 import ChainableUndefined, StrictUndefined, TemplateError, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict, Field, field_validator

from leadline.evaluators.data import Message
from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.evaluators.text.sentences import without_surrogates
from leadline.tasks.load.formats.conversations import replied
from leadline.tasks.load.messages import given_chunks, messages_with_ids
from leadline.tasks.load.values import ValueFault, count, expected, listed, mapping, message, money, text, texts

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_VERSION: Final = re.compile(r"\{\{\s*version\s*\}\}")


class _Environment(ImmutableSandboxedEnvironment):
    """A sandbox in which ``reply.items`` is the field of that name, never a method of a dictionary."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return a field of a JSON object, ``undefined`` where it has none."""
        if isinstance(obj, Mapping):
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)


def _as_json(value: Any) -> Any:
    """Write a value as JSON, so that a text cannot break out of its place; what ``tojson`` wrote stays."""
    if isinstance(value, Markup | Undefined):
        return value
    return json.dumps(value, ensure_ascii=False)


_TEXT: Final = _Environment(undefined=StrictUndefined, keep_trailing_newline=True)
_JSON: Final = _Environment(undefined=StrictUndefined, finalize=_as_json)
_EXPRESSION: Final = _Environment(undefined=ChainableUndefined)


def render_text(template: str, values: Mapping[str, Any]) -> str:
    """Fill in a text.

    Raises:
        ValueFault: It cannot be filled in.
    """
    try:
        return str(_text(template).render(values))
    except Exception as error:  # a template can fail in any way
        raise ValueFault(f"the template cannot be filled in: {_summary(error)}") from None


def render_json(template: Any, values: Mapping[str, Any]) -> Any:
    """Fill in a request's body and return it as a JSON value.

    Args:
        template: JSON with ``{{ expressions }}`` in the place of values, as a text; or a table whose texts are
            templates of texts.
        values: What the expressions can name.

    Raises:
        ValueFault: It cannot be filled in, or what comes out is no JSON.
    """
    if isinstance(template, Mapping):
        return {key: render_json_leaf(value, values) for key, value in template.items()}
    try:
        text = _json(template).render(values)
    except Exception as error:
        raise ValueFault(f"the body cannot be filled in: {_summary(error)}") from None
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueFault(
            f"the body is no JSON ({error}); an expression stands for a whole value: write {{{{ question }}}} without "
            "quotes around it"
        ) from None


def render_json_leaf(value: Any, values: Mapping[str, Any]) -> Any:
    """Fill in the texts inside a table.

    Args:
        value: A text, which is a template; a table or list of such; anything else stays as it is.
    """
    if isinstance(value, str):
        return render_text(value, values)
    if isinstance(value, Mapping):
        return {key: render_json_leaf(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [render_json_leaf(item, values) for item in value]
    return value


def evaluate(expression: str, values: Mapping[str, Any]) -> Any:
    """Return what an expression such as ``choices[0].message.content`` finds; ``None`` where there is nothing.

    Raises:
        ValueFault: It cannot be evaluated.
    """
    try:
        return _expression(expression)(**values)
    except Exception as error:
        raise ValueFault(f"{expression!r} cannot be evaluated: {_summary(error)}") from None


def check_template(template: Any) -> None:
    """Raise ``ValueError`` where a body, a query or a prompt is no template."""
    if isinstance(template, Mapping):
        for value in template.values():
            check_template(value)
    elif isinstance(template, list | tuple):
        for value in template:
            check_template(value)
    elif isinstance(template, str):
        _checked(_text, template)


def check_expression(expression: str) -> None:
    """Raise ``ValueError`` where a text is no expression."""
    _checked(_expression, expression)


def _checked(compiled: Any, source: str) -> None:
    try:
        compiled(source)
    except TemplateError as error:
        raise ValueError(f"{source!r} is no template: {_summary(error)}") from None


def with_version(text: str, version: str | None) -> str:
    """Put the version into an address or a model's name.

    Args:
        text: The address or name, perhaps with ``{{ version }}``.
        version: The version; ``None`` where none is given.

    Raises:
        UsageError: It needs one, and there is none.
    """
    if version is None and _VERSION.search(text):
        raise UsageError(
            f"{text!r} needs a version.", hint="Give one: --model-version V", code=ErrorCode.COLLECT_TEMPLATE
        )
    return _VERSION.sub(lambda _: version or "", text)


def variables_of(text: str) -> list[str]:
    """Return the environment variables that a header names as ``${NAME}``."""
    return _VARIABLE.findall(text)


def with_variables(text: str, whose: str) -> str:
    """Put the environment's variables into a header.

    Args:
        whose: The header and its model, for the error.

    Raises:
        UsageError: One is not set.
    """

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if not found:
            raise UsageError(
                f"{whose} needs {match[1]}, which is not set.",
                hint=f"Set it: export {match[1]}=…",
                code=ErrorCode.CONFIG_VARIABLE,
            )
        return found

    return _VARIABLE.sub(value, text)


def _summary(error: Exception) -> str:
    return " ".join(f"{error}".split())[:200] or type(error).__name__


@cache
def _text(source: str) -> Any:
    return _TEXT.from_string(source)


@cache
def _json(source: str) -> Any:
    return _JSON.from_string(source)


@cache
def _expression(source: str) -> Any:
    return _EXPRESSION.compile_expression(source)


_NUMBERS: Final = {"cost_usd": money, "input_tokens": count, "output_tokens": count}


@dataclass(frozen=True, slots=True)
class TargetAnswer:
    """The answer of a model to one case, or the reason why there is none.

    Attributes:
        text: The answer; ``None`` where there is none.
        error: What happened instead.
        context: Retrieved chunks in rank order, each with ``content``, ``doc_uri`` or both.
        seconds: Time of the successful attempt.
        cost_usd: Price, ``None`` when unknown.
        metadata: Other values about the answer.
        reused: Whether it had been given in an earlier run.
        truncated: Whether it was cut off at the token limit.
        unavailable: Whether there is none because the model could not be reached, so that it may answer later.
        messages: In a conversation, all that it said and did: calls of tools with the ids that it gave them, and the
            results of those that it called itself.
        failure: Of a tool that was called and says itself what failed, its words; the call was made all the same.
    """

    text: str | None = None
    error: str | None = None
    context: tuple[Mapping[str, str], ...] = ()
    seconds: float | None = None
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    reused: bool = False
    truncated: bool = False
    unavailable: bool = False
    messages: tuple[Message, ...] = ()
    failure: str | None = None


class ReplyFailed(ValueFault):
    """A reply says that something failed.

    Args:
        said: Its words.
    """

    def __init__(self, said: str) -> None:
        super().__init__(f"the reply says: {said}")
        self.said = said


class ReplyMap(BaseModel):
    """The places of the values in a reply: Jinja expressions over its fields, and over ``reply``, which is all of it.

    What an expression does not find is absent. A model that replies in the names of this class needs none of it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: str = Field("answer", description="The answer, a text.")
    error: str = Field("error", description="What failed, where a reply can say so; anything but empty is an error.")
    tool_calls: str = Field("tool_calls", description="In a conversation: the calls whose results it asks for.")
    messages: str = Field(
        "messages", description="In a conversation: all messages since the user's, own calls with them."
    )
    retrieved_context: str = Field("retrieved_context", description="The retrieved chunks, a list in rank order.")
    content: str = Field("content", description="Of a chunk: its text. A chunk that is a text is its own content.")
    doc_uri: str = Field("doc_uri", description="Of a chunk: its document.")
    documents: str = Field("documents", description="Documents: one per chunk, or what was retrieved instead of them.")
    cost_usd: str = Field("cost_usd", description="Price in US dollars.")
    input_tokens: str = Field("input_tokens", description="Tokens sent.")
    output_tokens: str = Field("output_tokens", description="Tokens received.")
    metadata: dict[str, str] = Field({}, description="Anything else, by the name that it gets.")

    @field_validator("*")
    @classmethod
    def _check_expressions(cls, value: Any) -> Any:
        for expression in value.values() if isinstance(value, dict) else (value,):
            check_expression(expression)
        return value

    def read(self, raw: str, *, in_conversation: bool = False, whole: bool = False) -> TargetAnswer:
        """Read a reply.

        Args:
            in_conversation: Whether it may call tools instead of answering.
            whole: Whether all of it is the answer where it names none, as what a tool returns.

        Raises:
            ValueFault: It contains no answer, or something is not what it should be.
        """
        reply = _parsed(raw)
        scope = _scope("reply", reply)
        failed = evaluate(self.error, scope)
        if failed:
            raise ReplyFailed(message(failed) or "an error without words")
        answer = evaluate(self.answer, scope)
        said = self._said(scope, answer) if in_conversation else []
        if answer is None and whole:
            answer = reply if isinstance(reply, str) else raw
        if answer is None and said:
            answer = next((each["content"] for each in reversed(said) if each["role"] == "assistant"), "")
        if answer is None:
            raise ValueFault(f"the reply has no answer ({self.answer!r} finds nothing in {_shown(reply)})")
        numbers = {name: self._number(name, scope) for name in _NUMBERS}
        others = {name: evaluate(expression, scope) for name, expression in self.metadata.items()}
        context = self._context(scope)
        if context and said and said[-1]["role"] == "assistant":
            found = given_chunks([(chunk.get("content", ""), chunk.get("doc_uri")) for chunk in context])
            said[-1] = {**said[-1], "retrieved_context": found}
        return TargetAnswer(
            text=_read_value("answer", text, answer),
            context=context,
            **numbers,
            metadata={name: value for name, value in others.items() if value is not None},
            messages=tuple(said),
        )

    def _said(self, scope: Mapping[str, Any], answer: Any) -> list[Message]:
        """Return what a reply says in a conversation, also where it names messages or calls and no answer."""
        found, calls = evaluate(self.messages, scope), evaluate(self.tool_calls, scope)
        said = _read_value("messages", replied, found) if isinstance(found, list) else []
        told = {"role": "assistant", "content": answer, "tool_calls": calls}
        if calls or (answer is not None and not any(each["role"] == "assistant" and each["content"] for each in said)):
            said += _read_value("tool_calls", messages_with_ids, [told])
        return said

    def numbers(self, raw: str) -> dict[str, Any]:
        """Return price and tokens of a reply, ``None`` where it does not say."""
        scope = _scope("reply", _parsed(raw))
        found: dict[str, Any] = dict.fromkeys(_NUMBERS)
        for name in _NUMBERS:
            try:
                found[name] = self._number(name, scope)
            except ValueFault:
                continue  # read() says so
        return found

    def _number(self, name: str, scope: Mapping[str, Any]) -> Any:
        value = evaluate(getattr(self, name), scope)
        return None if value is None else _read_value(name, _NUMBERS[name], value)

    def _context(self, scope: Mapping[str, Any]) -> tuple[Mapping[str, str], ...]:
        """Return the chunks, with the documents beside them where the reply lists these by themselves."""
        found = evaluate(self.retrieved_context, scope)
        chunks = (
            [] if found is None else [self._chunk(chunk) for chunk in _read_value("retrieved_context", _list, found)]
        )
        found = evaluate(self.documents, scope)
        documents = [] if found is None else _read_value("documents", texts, found)
        if not documents or any("doc_uri" in chunk for chunk in chunks):
            return tuple(chunks)
        if not chunks:
            return tuple({"doc_uri": uri} for uri in documents)
        if len(chunks) != len(documents):
            raise ValueFault(f"there are {len(documents)} documents for {len(chunks)} chunks")
        return tuple({**chunk, "doc_uri": uri} for chunk, uri in zip(chunks, documents, strict=True))

    def _chunk(self, chunk: Any) -> Mapping[str, str]:
        if isinstance(chunk, str):
            return {"content": chunk}
        scope = _scope("chunk", chunk)
        found = {"content": evaluate(self.content, scope), "doc_uri": evaluate(self.doc_uri, scope)}
        if found["content"] is None and found["doc_uri"] is None:
            raise ValueFault(f"a chunk has neither content nor doc_uri: {_shown(chunk)}")
        return {name: _read_value(f"chunk, {name}", text, value) for name, value in found.items() if value is not None}


def _parsed(raw: str) -> Any:
    """Return a reply's JSON value, or its text where it is none."""
    try:
        return orjson.loads(raw)
    except ValueError:
        return raw


def _scope(name: str, value: Any) -> dict[str, Any]:
    fields = {key: item for key, item in value.items() if isinstance(key, str)} if isinstance(value, Mapping) else {}
    return {**fields, name: value}


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise expected("a list", value)
    return listed(value)


def _read_value(name: str, reading: Any, value: Any) -> Any:
    try:
        return reading(value)
    except ValueFault as error:
        raise ValueFault(f"{name} of the reply: {error}") from None


def _shown(value: Any) -> str:
    """Return the beginning of a reply for a message; its names tell what the expression should have been."""
    summary = (
        f"an object with {', '.join(map(str, list(value)[:8]))}" if isinstance(value, Mapping) else repr(value)[:80]
    )
    return without_surrogates(summary)[:200]


def plain(value: Any) -> Any:
    """Return what a Python callable returned as something that JSON has a type for.

    Raises:
        ValueFault: It is nothing of the kind.
    """
    if isinstance(value, str):
        value = {"answer": value}
    elif isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    elif is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    record = mapping(dict(value) if isinstance(value, Mapping) else value)
    try:
        return json.loads(json.dumps(record, allow_nan=False, default=_without_type))
    except (TypeError, ValueError) as error:
        raise ValueFault(f"what the function returned is no JSON: {error}") from None


def _without_type(value: Any) -> Any:
    """Return a value of a library's own type (a NumPy number, a tuple) as a plain one."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in JSON")
