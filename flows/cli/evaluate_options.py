"""The options that say what to evaluate, shared by ``evaluate`` and ``plan``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from leadline.evaluators.core.error_codes import ErrorCode
from leadline.evaluators.core.errors import UsageError
from leadline.tasks.load.formats.registry import format_choices

if TYPE_CHECKING:
    from pydantic import BaseModel

    from leadline.flows.cli.session import Session
    from leadline.flows.evaluate.config import EvaluateConfig

F = TypeVar("F", bound=Callable[..., Any])

FORMATS: Final = format_choices()

# The values of the enumerations in leadline.flows.evaluate.config, which takes too long to import for a help text.
FAIL_ON: Final = ("high", "medium", "never")
DISPATCH: Final = ("auto", "inline", "workers")
SPLITTERS: Final = ("auto", "punkt", "rules")
PRECISIONS: Final = ("auto", "float32", "float16", "bfloat16")

_OPTIONS: Final = (
    click.argument("dataset", type=click.Path(), metavar="DATASET"),
    click.option("-e", "--evaluator", "evaluators", multiple=True, metavar="ID", help="An evaluator; repeatable."),
    click.option(
        "--suite",
        metavar="NAME",
        help="A named set of evaluators.  [default: those that can run here, unless -e names some]",
    ),
    click.option(
        "--evaluators-dir", type=click.Path(), metavar="DIR", help="Folder with judges of your own as YAML files."
    ),
    click.option(
        "--param",
        "params",
        multiple=True,
        metavar="ID.NAME=VALUE",
        help="A parameter of an evaluator; the value is JSON or a plain text; repeatable.",
    ),
    click.option(
        "--model", "model_keys", multiple=True, metavar="KEY", help="Only this model of the dataset; repeatable."
    ),
    click.option("--format", type=click.Choice(FORMATS), default="auto", show_default=True, help="The file's format."),
    click.option("--judge", metavar="MODEL", help="Judge: a LiteLLM model name, or a judge of leadline.toml."),
    click.option("--judge-api-base", metavar="URL", help="Address of the judge's OpenAI-compatible server."),
    click.option(
        "--judge-config", type=click.Path(), metavar="FILE", help="File with named judges.  [default: leadline.toml]"
    ),
    click.option(
        "--trials", type=click.IntRange(1, 50), default=1, show_default=True, help="How often each row is judged."
    ),
    click.option(
        "--canaries", type=click.Path(), metavar="FILE", help="Rows with known verdicts that the judge must pass."
    ),
    click.option("--max-calls", type=click.IntRange(0), metavar="N", help="Judge calls that the run may make."),
    click.option("--max-cost", type=click.FloatRange(0), metavar="USD", help="What the run may spend on judges."),
    click.option("--embedder", metavar="ID|PATH|offline", help="Embedder for all evaluators."),
    click.option("--language", metavar="CODE", default="en", show_default=True, help="Language of the texts."),
    click.option(
        "--splitter", type=click.Choice(SPLITTERS), default="auto", show_default=True, help="Sentence splitter."
    ),
    click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:N or mps."),
    click.option(
        "--precision",
        type=click.Choice(PRECISIONS),
        default="auto",
        show_default=True,
        help="Number format of models.",
    ),
    click.option("--allow-download", is_flag=True, help="Fetch missing weights."),
    click.option("--allow-pickle", is_flag=True, help="Load pickled weights too, which can run code when loaded."),
    click.option(
        "--fail-on",
        type=click.Choice(FAIL_ON),
        default="never",
        show_default=True,
        help="Least severity of a problem that fails the gate (exit code 1).",
    ),
    click.option(
        "--min-coverage",
        type=click.FloatRange(0, 1),
        default=0.95,
        show_default=True,
        help="Share of rows that must be scored for a conclusive gate.",
    ),
    click.option(
        "--dispatch",
        type=click.Choice(DISPATCH),
        default="auto",
        show_default=True,
        help="Score here, on Prefect workers, or on those that are up.",
    ),
    click.option("--processes", type=click.IntRange(1, 256), help="Processes in the cpu lane.  [default: one a core]"),
    click.option("--name", default="", help="A name for the run."),
    click.option("-o", "--output", type=click.Path(file_okay=False), metavar="DIR", help="Copy the results to DIR."),
)


_JUDGES: Final = {
    "judge": "model",
    "judge_api_base": "api_base",
    "judge_config": "config",
    "trials": "trials",
    "canaries": "canaries",
    "max_calls": "max_calls",
    "max_cost": "max_cost",
}
"""The options about judges, and their fields in :class:`~leadline.flows.evaluate.config.Judges`."""


def evaluation_options(command: F) -> F:
    """Give a command the options that make up an :class:`~leadline.flows.evaluate.config.EvaluateConfig`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@contextmanager
def refusals(command: str, model: type[BaseModel] | None = None) -> Iterator[None]:
    """Turn what a flow's parameters refuse into a usage error: the option, its value, and what is allowed.

    Args:
        command: The command whose help says more.
        model: What is filled in; tells which fields there are.
    """
    from pydantic import ValidationError

    from leadline.evaluators.core.refusal import field_of, why

    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        field, said = field_of(first, model), why(first, model)
        where = _option_of(field) or field
        sentence = f"{where}: {said}." if where else f"{said[:1].upper()}{said[1:]}."
        raise UsageError(sentence, hint=f"See: leadline {command} --help", code=ErrorCode.CONFIG_OPTION) from None


def _option_of(field: str) -> str:
    """Return the option that filled a field in, as the user wrote it; ``""`` where none did."""
    context = click.get_current_context(silent=True)
    if context is None or not field:
        return ""
    for text in context.params.get("settings", ()):
        path = text.partition("=")[0]
        if field == path or field.startswith(f"{path}.") or path.startswith(f"{field}."):
            return f"--set {text}"
    name = field.split(".")[-1]
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if isinstance(option, click.Option) and option.name == name and given:
            return option.opts[-1]
    return ""


def make_config(session: Session, options: dict[str, Any]) -> EvaluateConfig:
    """Turn options into the flow's parameters.

    Raises:
        UsageError: A value is not what it should be.
    """
    from leadline.flows.evaluate.config import EvaluateConfig, FailOn, Judges, Models

    judges = {field: options.pop(option) for option, field in _JUDGES.items() if option in options}
    models = {name: options.pop(name) for name in Models.model_fields if name in options}
    with refusals("evaluate", EvaluateConfig):
        return EvaluateConfig(
            **options
            | {
                "fail_on": FailOn(options["fail_on"]),
                "evaluators": tuple(id_ for text in options["evaluators"] for id_ in text.split(",") if id_),
                "params": parse_params(options["params"]),
                "models": Models(**models),
                "judges": Judges(**judges),
                "store": session.store,
            }
        )


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
    from leadline.evaluators.core.registry import all_evaluators, get

    named = re.match(r"[^#]+#[\w-]+(?=\.)", path)  # ID#NAME, an evaluator under a name of its own
    known = [id_ for id_ in ([named[0]] if named else all_evaluators()) if path.startswith(f"{id_}.")]
    if not known:
        get(path.rpartition(".")[0] or path)
        raise UsageError(
            f"--param {path!r} names no parameter.",
            hint="Write: --param ID.NAME=VALUE",
            code=ErrorCode.CONFIG_PARAMETER,
        )
    evaluator = get(max(known, key=len)).spec.id
    name, _, key = path.removeprefix(f"{evaluator}.").partition(".")
    if not name:
        raise UsageError(
            f"--param {path!r} names no parameter.",
            hint="Write: --param ID.NAME=VALUE",
            code=ErrorCode.CONFIG_PARAMETER,
        )
    return evaluator, name, key


def read_value(text: str) -> Any:
    """Read a value as JSON if it is some, else take it as it stands."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return text
