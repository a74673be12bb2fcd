"""Starting work: forms made of the jobs' settings, the commands that run with what they say, and a way to end them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_origin

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.evaluators.ground import ErrorCode, UsageError, refusals_of, settings_table
from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.shared.form import Setting, merged, settings_in
from leadline.plugins.ui.site import PersonRole, Site, does, person_of, shows
from leadline.plugins.ui.workshop import Workshop
from leadline.tasks.load.source import in_bucket

_OUTSIDE: Final = frozenset({"store", "output", "evaluators_dir", "evaluator_files"})
"""Settings that a page neither shows nor passes on: they name places on this host."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A setting as a field of a form.

    Attributes:
        path: Its name.
        label: The same for people.
        help: What it is.
        kind: ``text``, ``number``, ``list``, ``flag`` or ``choice``.
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


def routes(site: Site) -> list[Route]:
    """Return the pages of work."""
    workshop = Workshop(site.store.root / "tmp" / "ui-work")

    def show(request: Request) -> Response:
        """Show what runs, and the form of a new run; with ``run``, filled in as that run was."""
        again = request.query_params.get("run", "")
        filled = recorded_settings(site.store.run(site.run(again).id).read()) if again else {}
        given = {path: value for path, value in filled.items() if path not in {one.path for one in form_fields({})}}
        return site.page(
            request, "work.html", works=workshop.works(), fields=list(form_fields(filled)), given=sorted(given.items()),
            again=again, running=any(work.running for work in workshop.works()),
        )  # fmt: skip

    def work(request: Request) -> Response:
        found = workshop.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        command = shlex.join(("leadline", *found.arguments))
        return site.page(request, "work_log.html", work=found, said=found.said(), command=command)

    def start(request: Request, form: Mapping[str, str]) -> Response:
        again = form.get("again", "")
        settings = recorded_settings(site.store.run(site.run(again).id).read()) if again else {}
        settings |= {field.path: None for field in form_fields({})}  # what the form shows, it also says
        settings |= dict(read_form(form))
        settings = {path: value for path, value in settings.items() if value is not None}
        check(settings, site.store.location)
        started = workshop.start(
            f"evaluate {settings['dataset']}", command_of(settings, site.store.location), person_of(request).name
        )
        return site.back("work", started.id)

    def stop(request: Request, form: Mapping[str, str]) -> Response:
        del form
        found = workshop.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        workshop.stop(found)
        return site.back("work", found.id)

    return [
        shows("/work", show),
        shows("/work/{name}", work),
        does("/work", PersonRole.EDITOR, start),
        does("/work/{name}/stop", PersonRole.EDITOR, stop),
    ]


def form_fields(filled: Mapping[str, Any]) -> Iterator[FormField]:
    """Yield the fields of the form: the settings that most runs need, which are those that the command's help lists.

    Args:
        filled: Values that stand in them at first, by the settings' paths.
    """
    for setting in settings_in(EvaluateConfig):
        option = setting.option
        if option.rare or option.advanced or setting.path in _OUTSIDE or get_origin(setting.kind) is dict:
            continue
        value = filled.get(setting.path, setting.default)
        label = (setting.field.title or setting.path.rpartition(".")[2].replace("_", " ")).capitalize()
        yield FormField(
            setting.path, label, setting.field.description or "", _kind(setting), tuple(map(str, setting.choices)),
            _as_text(value), setting.field.is_required(),
        )  # fmt: skip


def _kind(setting: Setting) -> str:
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


def read_form(form: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a form that was sent, by their paths; ``None`` for a field that was left empty."""
    for field in form_fields({}):
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


def recorded_settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a run was made with, without those of this host's places and those left as they are."""
    config = record.get("config")
    found: dict[str, Any] = {}
    for setting in settings_in(EvaluateConfig):
        value: Any = config
        for name in setting.path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        usual = getattr(setting.default, "value", setting.default)
        as_recorded = list(usual) if isinstance(usual, tuple) else usual
        if value not in (None, usual, as_recorded) and setting.path not in _OUTSIDE:
            found[setting.path] = value
    return found


def check(settings: Mapping[str, Any], store: str) -> None:
    """Refuse settings that make no sense, and those that a request from outside may not name.

    Args:
        settings: By their paths.
        store: The place of the store.

    Raises:
        UsageError: They are refused.
    """
    from leadline.flows.evaluate.job import Evaluate
    from leadline.flows.prefect.outside_requests import allowed, check_request

    nested: dict[str, Any] = {}
    for path, value in settings.items():
        *parents, last = path.split(".")
        inner = nested
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = value
    try:
        config = EvaluateConfig.model_validate(merged(settings_table("evaluate"), nested | {"store": store}))
    except ValidationError as error:
        raise UsageError(refusals_of(error, EvaluateConfig)[0], code=ErrorCode.CONFIG_OPTION) from None
    check_request(Evaluate(), config)
    if not in_bucket(config.dataset):
        allowed().check_file("dataset", config.dataset)


def command_of(settings: Mapping[str, Any], store: str) -> list[str]:
    """Return the arguments of ``leadline`` that evaluate with these settings."""
    values = {path: value for path, value in settings.items() if path != "dataset"}
    return [
        "evaluate", "--store", store,
        *(f"--set={path}={json.dumps(value)}" for path, value in values.items()),
        "--", str(settings["dataset"]),
    ]  # fmt: skip
