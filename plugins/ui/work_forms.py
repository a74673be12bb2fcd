"""Forms of work that people start: made of the settings of a command's job, and turned into its command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, get_origin

from pydantic import ValidationError

from leadline.evaluators.ground import ErrorCode, UsageError, refusals_of, settings_table
from leadline.flows.compare import Compare
from leadline.flows.prefect.outside_requests import allowed, check_request
from leadline.flows.shared.form import Setting, merged, settings_in
from leadline.flows.shared.job import Job
from leadline.tasks.load.source import in_bucket

_OUTSIDE: Final = frozenset({"store", "output", "evaluators_dir", "evaluator_files"})
"""Settings that a page neither shows nor passes on: they name places on this host."""

_FILES: Final = frozenset({"FILE", "DIR", "DATASET", "SUITE"})
"""What the help calls a value that names a file."""


@dataclass(frozen=True, slots=True)
class WorkKind:
    """A command that people start by a form.

    Attributes:
        name: The command, which is also the name of its flow and deployment.
        title: The same for people.
        job: Returns its job; what it imports is only needed once somebody asks.
        without: Settings that the form leaves out.
        command: Words of the command, where these are others.
        positional: A setting that the command takes as an argument, although it could be left out.
        runs: Settings that name runs, which must be filled in.
        metrics: Settings that name a metric of a run.
        page: Parts of the address from which its form is reached, where that is another page.
    """

    name: str
    title: str
    job: Callable[[], Job[Any, Any, Any, Any]]
    without: frozenset[str] = frozenset()
    command: tuple[str, ...] = ()
    positional: str = ""
    runs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    page: tuple[str, ...] = ()


@cache
def _evaluate() -> Job[Any, Any, Any, Any]:
    from leadline.flows.evaluate.job import Evaluate

    return Evaluate()


@cache
def _collect() -> Job[Any, Any, Any, Any]:
    from leadline.flows.collect import Collect

    return Collect()


@cache
def _sample_labels() -> Job[Any, Any, Any, Any]:
    from leadline.flows.sample_labels import SampleLabels

    return SampleLabels()


@cache
def _improve_judge() -> Job[Any, Any, Any, Any]:
    from leadline.flows.improve_judge import ImproveJudge

    return ImproveJudge()


KINDS: Final = {
    kind.name: kind
    for kind in (
        WorkKind("evaluate", "Evaluate", _evaluate),
        WorkKind(
            "compare", "Compare", Compare, frozenset({"model", "versions"}), positional="candidate",
            runs=("baseline", "candidate"),
        ),
        WorkKind("collect", "Collect answers", _collect),
        WorkKind(
            "sample-labels", "Sample labels", _sample_labels, command=("labels", "sample", "--queue"), runs=("run",),
            metrics=("metric",),
        ),
        WorkKind(
            "improve-judge", "Improve a judge", _improve_judge, command=("judges", "improve"),
            positional="judges.model", page=("labels",),
        ),
    )
}  # fmt: skip
"""What can be started, by the names of the commands."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A setting as a field of a form.

    Attributes:
        path: Its name.
        label: The same for people.
        help: What it is.
        kind: ``text``, ``number``, ``list``, ``flag``, ``choice``, ``run`` or ``metric``.
        choices: Values to choose from.
        value: What stands in it at first.
        required: Whether it must be filled in.
    """

    path: str
    label: str
    help: str
    kind: str
    choices: tuple[str, ...] = ()
    value: str = ""
    required: bool = False


def form_fields(kind: WorkKind, filled: Mapping[str, Any] | None = None) -> Iterator[FormField]:
    """Yield the fields of a form: the settings that most people need, which are those that the command's help lists.

    Args:
        filled: Values that stand in them at first, by the settings' paths.
    """
    for setting in settings_in(kind.job().Config):
        option = setting.option
        if option.rare or option.advanced or get_origin(setting.kind) is dict:
            continue
        if setting.path in _OUTSIDE or setting.path in kind.without:
            continue
        value = (filled or {}).get(setting.path, setting.default)
        label = (setting.field.title or setting.path.rpartition(".")[2].replace("_", " ")).capitalize()
        yield FormField(
            setting.path, label, setting.field.description or "", _kind(kind, setting),
            tuple(map(str, setting.choices)), _as_text(value),
            setting.path in kind.runs or setting.field.is_required(),
        )  # fmt: skip


def _kind(kind: WorkKind, setting: Setting) -> str:
    if setting.path in kind.runs:
        return "run"
    if setting.path in kind.metrics:
        return "metric"
    if setting.choices and get_origin(setting.kind) is not tuple:
        return "choice"
    if setting.kind is bool:
        return "flag"
    if get_origin(setting.kind) is tuple:
        return "list"
    return "number" if setting.kind in (int, float) else "text"


def _as_text(value: Any) -> str:
    if value is None or value == ():
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(getattr(value, "value", value))


def read_form(kind: WorkKind, form: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a form that was sent, by their paths; ``None`` for a field that was left empty."""
    for field in form_fields(kind):
        text = form.get(field.path, "").strip()
        if field.kind == "flag":
            yield field.path, True if text else None
        elif not text:
            yield field.path, None
        elif field.kind == "list":
            yield field.path, [part.strip() for part in text.split(",") if part.strip()]
        elif field.kind == "number":
            yield field.path, _number(field, text)
        else:
            yield field.path, text


def _number(field: FormField, text: str) -> float | int:
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        raise UsageError(f"{field.label}: {text[:40]!r} is not a number.", code=ErrorCode.CONFIG_OPTION) from None


def recorded_settings(kind: WorkKind, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a run was made with, without those of this host's places and those left as they are."""
    config = record.get("config")
    found: dict[str, Any] = {}
    for setting in settings_in(kind.job().Config):
        value: Any = config
        for name in setting.path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is not None and not _is_default(setting, value) and setting.path not in _OUTSIDE:
            found[setting.path] = value
    return found


def _is_default(setting: Setting, value: Any) -> bool:
    usual = getattr(setting.default, "value", setting.default)
    return value in (usual, list(usual) if isinstance(usual, tuple) else usual)


def checked_config(kind: WorkKind, settings: Mapping[str, Any], store: str) -> Any:
    """Return the form of a job, filled in; what makes no sense is refused, and what outside requests may not name.

    Args:
        settings: By their paths.
        store: The place of the store.

    Raises:
        UsageError: They are refused.
    """
    nested: dict[str, Any] = {}
    for path, value in settings.items():
        *parents, last = path.split(".")
        inner = nested
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = value
    job = kind.job()
    try:
        config = job.Config.model_validate(merged(_table(kind), nested | {"store": store}))
    except ValidationError as error:
        raise UsageError(refusals_of(error, job.Config)[0], code=ErrorCode.CONFIG_OPTION) from None
    for what, file in _files(kind, settings):
        allowed().check_file(what, file)
    check_request(job, config)
    return config


def _files(kind: WorkKind, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the files on this host that settings name, with what they are."""
    for setting in settings_in(kind.job().Config):
        named = set((setting.option.metavar or "").split("|"))
        value = settings.get(setting.path)
        for file in value if isinstance(value, list) else [value]:
            is_name = "NAME" in named and re.fullmatch(r"[\w-]+", str(file))
            if file and named & _FILES and not in_bucket(file) and not is_name:
                yield setting.path.rpartition(".")[2].replace("_", " "), file


def _table(kind: WorkKind) -> Mapping[str, Any]:
    """Return what ``leadline.toml`` says of a command; only that of ``evaluate`` reads its table."""
    return settings_table(kind.name) if kind.name == "evaluate" else {}


def command_of(kind: WorkKind, settings: Mapping[str, Any], store: str) -> list[str]:
    """Return the arguments of ``leadline`` that do work with these settings."""
    options, arguments = [], []
    keeps_defaults = bool(_table(kind))  # which the file might say otherwise
    for setting in settings_in(kind.job().Config):
        value = settings.get(setting.path)
        if value is None:
            continue
        if not setting.flags or setting.path == kind.positional:
            arguments.append(str(value))
        elif keeps_defaults or not _is_default(setting, value):
            options += _option(setting, value)
    return [*(kind.command or (kind.name,)), "--store", store, *options, "--", *arguments]


def _option(setting: Setting, value: Any) -> list[str]:
    if setting.option.rare or isinstance(value, dict):
        return [f"--set={setting.path}={json.dumps(value)}"]
    flags = setting.flags[-1].split("/")
    if isinstance(value, bool):
        return [flags[0]] if value else flags[1:]
    return [f"{flags[0]}={each}" for each in (value if isinstance(value, list | tuple) else [value])]
