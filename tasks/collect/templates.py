"""The small templates and expressions of a targets file: sandboxed, and with texts of cases as values only."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from jinja2 import ChainableUndefined, StrictUndefined, TemplateError, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.load.values import ValueFault

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

    Args:
        template: Text with ``{{ expressions }}``.
        values: Values that the expressions can name.

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
        values: Values that the expressions can name.
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

    Args:
        expression: A Jinja expression.
        values: Values that it can name.

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
        text: The header's value, perhaps with ``${VARIABLES}``.
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
