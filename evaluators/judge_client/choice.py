"""The judges of a run: those of ``leadline.toml``, and the one that the user names.

::

    [judges.small]
    model = "openai/gpt-4o-mini"
    default = true

    [judges.here]
    model = "ollama_chat/llama3.1"
    api_base = "http://localhost:11434"

    [judges.both]
    jury = ["small", "here"]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from leadline.evaluators.ground import (
    FILE,
    ErrorCode,
    ProjectScope,
    UsageError,
    first_refusal,
    from_home,
    project_scope,
    settings_document,
)
from leadline.evaluators.settings import UNNAMED, JudgeConfig, JuryConfig

JURY: Final = "jury"
"""The key of a judge's table that names the judges of a jury."""

LOCAL: Final = "local:"
"""Before the name of a model that runs here."""

MODEL_VARIABLE: Final = "LEADLINE_JUDGE"
BASE_VARIABLE: Final = "LEADLINE_JUDGE_API_BASE"


def find_judges(
    model: str | None, api_base: str | None, file: Path | None, environment: Mapping[str, str]
) -> tuple[JudgeConfig, ...]:
    """Return the judges that can be asked, the default one first; none when nothing names one.

    Args:
        model: A model, ``local:`` and one that runs here, or the name of a judge in the file; else
            ``$LEADLINE_JUDGE``, else the file's default. A model has the price that some judge of the file states for
            it.
        api_base: Address of the model's server; else ``$LEADLINE_JUDGE_API_BASE``.
        file: The configuration file; by default ``leadline.toml`` here, if there is one.
        environment: The environment's variables.

    Raises:
        UsageError: The file is broken, or there is no clear default.
    """
    judges, default = _read(file)
    scope = project_scope(environment)
    if scope is not None and scope.judges:
        judges, default = _of_project(scope, judges, file), scope.judges[0]
        asked = model or environment.get(MODEL_VARIABLE) or default
        if asked not in judges or api_base or environment.get(BASE_VARIABLE):
            raise scope.refused("This judge", f"the judges {', '.join(judges)} as they are")
    named = model or environment.get(MODEL_VARIABLE)
    if not named:
        if api_base:
            raise UsageError(
                "--judge-api-base was given without a model.", hint="Add: --judge MODEL", code=ErrorCode.JUDGE_CONFIG
            )
        if default is None and len(judges) > 1:
            raise UsageError(
                f"{file or FILE} has several judges and no default.",
                hint="Write default = true in one of them.",
                code=ErrorCode.JUDGE_CONFIG,
            )
        named = default or next(iter(judges), None)
        if named is None:
            return ()
    elif named not in judges:
        values = _from_name(named, api_base or environment.get(BASE_VARIABLE)) | _price_in(judges, named)
        judges[UNNAMED] = _judge(UNNAMED, values, "--judge")
        named = UNNAMED
    elif api_base and isinstance(judges[named], JuryConfig):
        raise UsageError(
            f"{named} is a jury, and has no address of its own.",
            hint="Leave --judge-api-base away: its judges have theirs.",
            code=ErrorCode.JUDGE_CONFIG,
        )
    elif api_base:
        judges[named] = _judge(named, judges[named].model_dump() | {"api_base": api_base}, "--judge-api-base")
    return (judges[named], *(judge for key, judge in sorted(judges.items()) if key != named))


def configured_judges(file: Path | None, environment: Mapping[str, str]) -> tuple[JudgeConfig, ...]:
    """Return the judges that a configuration file and the environment name, whatever a request asks for.

    Args:
        file: The configuration file; by default ``leadline.toml`` here, if there is one.
        environment: The environment's variables.

    Raises:
        UsageError: The file is broken.
    """
    judges, _ = _read(file)
    named = environment.get(MODEL_VARIABLE)
    if named and named not in judges:
        values = _from_name(named, environment.get(BASE_VARIABLE)) | _price_in(judges, named)
        judges[UNNAMED] = _judge(UNNAMED, values, MODEL_VARIABLE)
    return tuple(judges.values())


def _of_project(scope: ProjectScope, judges: Mapping[str, JudgeConfig], file: Path | None) -> dict[str, JudgeConfig]:
    """Return the judges that a project may ask."""
    missing = [name for name in scope.judges if name not in judges]
    if missing:
        raise UsageError(
            f"{file or FILE} has no judge {missing[0][:40]!r}, which the project {scope.project!r} is to ask.",
            hint=f"Write [judges.{missing[0][:40]}], or correct the project.",
            code=ErrorCode.JUDGE_CONFIG,
        )
    return {name: judges[name] for name in scope.judges}


def _from_name(name: str, api_base: str | None) -> dict[str, Any]:
    if name.startswith(LOCAL):
        return {"kind": "local", "model": name.removeprefix(LOCAL)}
    return {"model": name, "api_base": api_base or None}


def _price_in(judges: Mapping[str, JudgeConfig], model: str) -> dict[str, Any]:
    """Return the price that a table of the file states for a model, so that it need not be named as a judge for it."""
    for judge in judges.values():
        price = {
            "input_cost_per_token": judge.input_cost_per_token,
            "output_cost_per_token": judge.output_cost_per_token,
        }
        if judge.model == model and None not in price.values():
            return price
    return {}


def find_canaries(file: Path | None) -> str | None:
    """Return the file of canaries that a configuration file names, as seen from its folder.

    Raises:
        UsageError: The configuration file is broken.
    """
    named = settings_document(file).get("canaries")
    if named is not None and not isinstance(named, str):
        raise UsageError(
            f"{file or FILE}: canaries is a file's name.",
            hint='Write: canaries = "canaries.jsonl"',
            code=ErrorCode.JUDGE_CONFIG,
        )
    return str((file or FILE).parent / named) if named else None


def find_evaluator_files(file: Path | None) -> tuple[str, ...]:
    """Return the Python files with evaluators that a configuration file names, as seen from its folder.

    Raises:
        UsageError: The configuration file is broken.
    """
    table = settings_document(file).get("evaluators", {})
    files = table.get("files", []) if isinstance(table, dict) else None
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        raise UsageError(
            f"{file or FILE}: the files of [evaluators] are a list of names.",
            hint='Write: files = ["my_evaluators.py"]',
            code=ErrorCode.CONFIG_CONTENT,
        )
    return tuple(str((file or FILE).parent / name) for name in files)


def evaluator_files_of(files: Sequence[str], config: str | None) -> tuple[str, ...]:
    """Return the absolute paths of the Python files with the user's own evaluators, those of leadline.toml included.

    Args:
        files: Files that were named for the run.
        config: The configuration file; by default ``leadline.toml`` here, if there is one.

    Raises:
        UsageError: The configuration file is broken.
    """
    named = (*files, *find_evaluator_files(Path(config) if config else None))
    return tuple(dict.fromkeys(str(from_home(file).absolute()) for file in named))


def _read(file: Path | None) -> tuple[dict[str, JudgeConfig], str | None]:
    """Return the judges of a configuration file by name, and the name of the default one."""
    path, document = file or FILE, settings_document(file)
    tables = document.get("judges", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise UsageError(
            f"{path}: judges are tables.", hint='Write: [judges.NAME] and model = "…"', code=ErrorCode.JUDGE_CONFIG
        )
    defaults = [name for name, table in tables.items() if table.pop("default", False) is True]
    single = {name: table for name, table in tables.items() if JURY not in table}
    judges = {name: _judge(name, table, f"{path}, [judges.{name}]") for name, table in single.items()}
    juries = {
        name: _jury(name, table, judges, f"{path}, [judges.{name}]")
        for name, table in tables.items()
        if name not in single
    }
    judges = {name: juries.get(name) or judges[name] for name in tables}
    if len(defaults) > 1:
        raise UsageError(
            f"{path}: {' and '.join(defaults)} are both the default judge.",
            hint="Keep one.",
            code=ErrorCode.JUDGE_CONFIG,
        )
    return judges, defaults[0] if defaults else None


def _judge(name: str, values: Mapping[str, Any], where: str) -> JudgeConfig:
    if "api_key" in values:
        raise UsageError(
            f"{where}: an API key does not belong into a file.",
            hint="Put it into an environment variable, and name that with api_key_env.",
            code=ErrorCode.CONFIG_SECRET,
        )
    if values.get("epoch"):
        raise UsageError(
            f"{where}: the epoch of a judge is no setting.",
            hint="It is raised by: leadline judges accept",
            code=ErrorCode.JUDGE_CONFIG,
        )
    try:
        return JudgeConfig.model_validate({**values, "key": name})
    except ValidationError as error:
        raise UsageError(f"{where}: {first_refusal(error, JudgeConfig)}.", code=ErrorCode.JUDGE_CONFIG) from None


def _jury(name: str, table: Mapping[str, Any], judges: Mapping[str, JudgeConfig], where: str) -> JuryConfig:
    """Return a jury of judges of the same file.

    Args:
        table: What the file says of it.
        judges: The judges that are none, by name.
        where: Where it stands, for errors.

    Raises:
        UsageError: It names a judge that is not there or is a jury, or has a key of a single judge.
    """
    named, known = table[JURY], ("combine", "weights")
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
        raise _broken(where, "jury must be a list of judges' names")
    others = sorted(table.keys() - {JURY, *known})
    if others:
        raise _broken(where, f"a jury has no {others[0][:40]}, its judges have; it has jury, combine and weights")
    for each in named:
        if each not in judges:
            known_ones = ", ".join(judges) or "none"
            raise _broken(where, f"there is no single judge {each[:40]!r}; the file's single judges: {known_ones}")
    values = {part: table[part] for part in known if part in table}
    model = f"{values.get('combine', 'majority')} of {', '.join(named)}"[:200]
    try:
        return JuryConfig(key=name, model=model, members=tuple(judges[each] for each in named), **values)
    except ValidationError as error:
        raise _broken(where, first_refusal(error, JuryConfig)) from None


def _broken(where: str, why: str) -> UsageError:
    return UsageError(f"{where}: {why}.", code=ErrorCode.JUDGE_CONFIG)
