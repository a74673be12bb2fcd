"""Options made from the fields of a flow's form, and the form filled in from options and from ``leadline.toml``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

import click
from click.core import ParameterSource
from pydantic import BaseModel, ValidationError

from leadline.evaluators.ground import FILE, ErrorCode, UsageError, field_of, looks_secret, why
from leadline.flows.command.grouped_help import GroupedOption
from leadline.flows.shared.form import FormModel, Setting, merged, settings_in

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=FormModel)

_PATHS: Final = frozenset({"FILE", "DIR", "DATASET", "SUITE", "DOCS…"})
_LEVEL: Final = "__"
"""Between the levels of a setting's path in the name of its parameter, which must be an identifier."""


def form_options(
    model: type[FormModel],
    *,
    only: Collection[str] | None = None,
    without: Collection[str] = ("store",),
    set_others: bool = True,
) -> Callable[[F], F]:
    """Return a decorator that gives a command an argument or option for each setting of a form.

    Options have no defaults, so that :func:`fill_in` sees what the user gave; the help shows the form's. Settings that
    have no option, because few runs need them or because they are not among ``only``, are given with ``--set``.

    Args:
        only: Paths of the settings to take; all without it.
        without: Paths of settings to leave out; the store is an option of every command.
        set_others: Let ``--set`` give those settings that have no option.
    """
    known = [setting for setting in settings_in(model) if setting.path not in without]
    chosen = [setting for setting in known if not setting.option.rare and (only is None or setting.path in only)]

    def decorate(command: F) -> F:
        if set_others and len(chosen) < len(known):
            command = _others(command)
        for setting in reversed(chosen):
            command = _parameter(setting)(command)
        return command

    return decorate


def _others(command: F) -> F:
    """Give a command the option for settings that have none of their own."""
    text = "A setting that has no option of its own, by its name. Repeatable."
    return click.option("--set", "settings", multiple=True, metavar="SETTING=VALUE", help=text)(command)


def form_epilog(model: type[FormModel], table: str) -> str:
    """Return the last line of a command's help: where its settings without an option are.

    Args:
        table: The table of ``leadline.toml`` with the command's settings.
    """
    rare = ", ".join(setting.path for setting in settings_in(model) if setting.option.rare)
    return f"Few runs need {rare}: these have no option. Write them below [{table}] in {FILE}, or give them with --set."


def fill_in(model: type[M], command: str, options: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> M:
    """Return a form filled in with the options that were given.

    Args:
        command: The command's name, for the hint of a refusal.
        options: The command's parameters, and further values by their paths.
        defaults: Values of ``leadline.toml``, which options replace.

    Raises:
        UsageError: A value is not what it should be.
    """
    given: dict[str, Any] = {}
    for name, value in options.items():
        if value is None or value == () or name == "settings":
            continue
        *parents, last = name.split(_LEVEL)
        inner = given
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = value
    below = merged(defaults or {}, read_settings(options.get("settings", ())))
    with refusals(command, model, defaults):
        return model.model_validate(merged(below, given))


def _parameter(setting: Setting) -> Callable[[F], F]:
    """Return the decorator of a setting's argument or option."""
    name, flags, kind = setting.path.replace(".", _LEVEL), setting.flags, setting.kind
    metavar = setting.option.metavar
    many = get_origin(kind) in (tuple, dict)
    if not flags:
        nargs = -1 if many else 1
        return click.argument(name, type=_type(setting), nargs=nargs, required=True, metavar=metavar or name.upper())
    placed: dict[str, Any] = {"cls": GroupedOption, "group": setting.group, "advanced": setting.option.advanced}
    if kind is bool:
        on: dict[str, Any] = {} if "/" in flags[-1] else {"is_flag": True, "flag_value": True, "type": click.BOOL}
        return click.option(*flags, name, default=None, help=_help(setting), **placed, **on)
    return click.option(
        *flags, name, type=_type(setting), multiple=many, metavar=metavar, help=_help(setting, many=many), **placed
    )


def _help(setting: Setting, *, many: bool = False) -> str:
    """Return what a field is for, with its default at the end as click writes it."""
    text, _, default = (setting.field.description or "").partition(" Default: ")
    default = default.rstrip(".")
    if not default and setting.default not in (None, False, "", (), {}):
        default = str(getattr(setting.default, "value", setting.default))
    return text + (" Repeatable." if many else "") + (f"  [default: {default}]" if default else "")


def _type(setting: Setting) -> click.ParamType[Any]:
    """Return the type of an option's value, with the bounds that the field has."""
    kind = setting.kind
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if setting.choices:
        return click.Choice(setting.choices)
    if kind in (int, float):
        return _number(kind, setting)
    metavar = setting.option.metavar
    return click.Path(file_okay=metavar != "DIR") if metavar in _PATHS else click.STRING


def _number(kind: type, setting: Setting) -> click.ParamType[Any]:
    bounds = {
        name: getattr(rule, name)
        for rule in setting.field.metadata
        for name in ("ge", "gt", "le", "lt")
        if hasattr(rule, name)
    }
    if not bounds:
        return click.INT if kind is int else click.FLOAT
    low, high = bounds.get("ge", bounds.get("gt")), bounds.get("le", bounds.get("lt"))
    number = click.IntRange if kind is int else click.FloatRange
    return number(low, high, min_open="gt" in bounds, max_open="lt" in bounds)


@contextmanager
def refusals(
    command: str, model: type[BaseModel] | None = None, defaults: Mapping[str, Any] | None = None
) -> Iterator[None]:
    """Turn a refused setting into a usage error: the option or file it comes from, its value, and what is allowed.

    Args:
        model: The form; tells which fields there are.
        defaults: Values of ``leadline.toml``.
    """
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        field, reason = field_of(first, model), why(first, model)
        where = _option_of(field) or (f"{FILE}, [{command}] {field}" if _has(defaults, field) else field)
        sentence = f"{where}: {reason}." if where else f"{reason[:1].upper()}{reason[1:]}."
        raise UsageError(sentence, hint=f"See: leadline {command} --help", code=ErrorCode.CONFIG_OPTION) from None


def _has(values: Mapping[str, Any] | None, path: str) -> bool:
    """Return whether nested values have something at a path, or a value in place of one of its parents."""
    found: Any = values or {}
    for part in path.split("."):
        if not isinstance(found, Mapping):
            return True
        if part not in found:
            return False
        found = found[part]
    return True


def _option_of(field: str) -> str:
    """Return the option that filled a field in, as the user wrote it; ``""`` where none did."""
    context = click.get_current_context(silent=True)
    if context is None or not field:
        return ""
    for text in context.params.get("settings", ()):
        path = text.partition("=")[0]
        if field == path or field.startswith(f"{path}.") or path.startswith(f"{field}."):
            return f"--set {path}" if looks_secret(text) else f"--set {text}"
    for option in context.command.params:
        path = (option.name or "").replace(_LEVEL, ".")
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if isinstance(option, click.Option) and f"{field}.".startswith(f"{path}.") and given:
            return option.opts[-1]
    return ""


def split_ids(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of a repeatable option, each of whose values may contain several with commas between them."""
    return tuple(id_ for text in texts for id_ in text.split(",") if id_)


def parse_params(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Read ``ID.NAME=VALUE`` and ``ID.NAME.KEY=VALUE``; an id may itself contain points.

    Raises:
        UsageError: A text is of neither form, names no evaluator, or contradicts another one.
    """
    params: dict[str, dict[str, Any]] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals:
            raise UsageError(
                f"--param {text!r} has no value.", hint="Write: --param ID.NAME=VALUE", code=ErrorCode.CONFIG_PARAMETER
            )
        evaluator, name, key = _split(path)
        values = params.setdefault(evaluator, {})
        if not key:
            values[name] = read_value(value)
            continue
        inner = values.setdefault(name, {})
        if not isinstance(inner, dict):
            raise UsageError(
                f"--param {text!r}: {evaluator}.{name} was given another value before.", code=ErrorCode.CONFIG_PARAMETER
            )
        inner[key] = read_value(value)
    return params


def _split(path: str) -> tuple[str, str, str]:
    from leadline.evaluators.core import all_evaluators, get

    named = re.match(r"[^#]+#[\w-]+(?=\.)", path)  # ID#NAME, an evaluator under a name of its own
    known = [id_ for id_ in ([named[0]] if named else all_evaluators()) if path.startswith(f"{id_}.")]
    named_id = max(known, key=len) if known else path.rpartition(".")[0] or path
    evaluator = get(named_id).spec.id
    name, _, key = path.removeprefix(f"{evaluator}.").partition(".")
    if not known or not name:
        raise UsageError(
            f"--param {path!r} names no parameter.",
            hint="Write: --param ID.NAME=VALUE",
            code=ErrorCode.CONFIG_PARAMETER,
        )
    return evaluator, name, key


def read_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Read ``FIELD=VALUE`` and ``FIELD.KEY=VALUE``; values are JSON or plain texts.

    Raises:
        UsageError: A text has no value, or contradicts another one.
    """
    found: dict[str, Any] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals or not path:
            raise UsageError(
                f"--set {text!r} has no value.",
                hint="Write: --set FIELD=VALUE or --set FIELD.KEY=VALUE",
                code=ErrorCode.CONFIG_OPTION,
            )
        *parents, last = path.split(".")
        inner = found
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise UsageError(
                    f"--set {text!r}: {parent} was given another value before.", code=ErrorCode.CONFIG_OPTION
                )
        inner[last] = read_value(value)
    return found


def read_value(text: str) -> Any:
    """Read a value as JSON if it is some, else take it as it stands."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return text
