"""Targets: the models and applications under test, and how each is asked.

A targets file, in TOML or YAML, has a table ``[[model]]`` for each::

    [[model]]
    key = "harbour-strict"
    model = "openai/gpt-4o-mini"
    system = "Answer from the handbook only."

    [[model]]
    key = "harbour-rag"
    url = "http://localhost:8080/answer"
    body = '{"question": {{ question }}}'
    headers = { Authorization = "Bearer ${HARBOUR_TOKEN}" }
    [model.reply]
    answer = "result.text"

    [[model]]
    key = "in-process"
    function = "harbour.rag:answer"

    [[model]]
    key = "harbour-mcp"
    mcp = "mcp+https://harbour.example/mcp#answer"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from leadline.evaluators.data import Json
from leadline.evaluators.ground import ErrorCode, UsageError, field_of, looks_secret, remember_variable, why
from leadline.evaluators.judge_client.search import MCP, holds_key, mcp_server
from leadline.evaluators.settings import JudgeConfig, address_without_secrets
from leadline.tasks.collect.templates import ReplyMap, check_template, variables_of, with_variables, with_version
from leadline.tasks.runs.versions import VERSION_PATTERN

KEY_VARIABLE: Final = "LEADLINE_MODEL_API_KEY"
"""Holds the API key of a model under test with an ``api_base`` that names no variable of its own."""

PYTHON: Final = "python:"
"""Before the name of a callable, where a model is named in one text."""

_OF_CALLS: Final = ("timeout_s", "deadline_s", "max_reply_mib", "down_after_s", "max_in_flight", "start_in_flight")
_PER_CALL: Final = ("input_cost_per_token", "output_cost_per_token")
_LARGEST: Final = 1024 * 1024
_NEEDS_VARIABLE: Final = re.compile(r"authorization|key|token|secret|cookie|password", re.IGNORECASE)


class ModelConfig(JudgeConfig):
    """The settings of the calls to a model under test, for the judge client."""

    subject: ClassVar[str] = "The model"
    key_variable: ClassVar[str] = KEY_VARIABLE


class Target(BaseModel):
    """One model under test: exactly one of ``model``, ``url``, ``function`` and ``mcp`` says of which kind it is.

    The same model under several configurations is several targets. What is under "Calls" is about time and money, the
    answers do not depend on it; all else but ``name`` and ``reply`` is part of what identifies an answer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = Field(min_length=1, max_length=200, description="Key in the dataset and in reports.")
    name: str | None = Field(None, min_length=1, max_length=500, description="Name for people.")
    version: str | None = Field(None, pattern=VERSION_PATTERN, max_length=100, description="Version.")

    model: str | None = Field(None, min_length=1, description="LiteLLM model name.")
    api_base: str | None = Field(None, description="Address of an OpenAI-compatible server.")
    api_key_env: str | None = Field(None, description="Environment variable that holds the API key.")
    system: str | None = Field(None, description="System prompt.")
    prompt: str | None = Field(None, description="Template of the user's message; the question by default.")
    temperature: float = Field(0.0, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = None
    max_tokens: int = Field(4096, ge=1, description="Longest answer; one cut off there is marked.")

    url: str | None = Field(None, description="Address of an HTTP endpoint, without secrets.")
    method: Literal["GET", "POST", "PUT"] = "POST"
    headers: dict[str, str] = Field({}, description="Headers; ${NAME} is a variable of the environment.")
    query: dict[str, str] = Field({}, description="Parameters of the address: templates.")
    body: str | dict[str, Any] | None = Field(None, description="JSON body: a template. Default: the question.")
    reply: ReplyMap = ReplyMap()

    function: str | None = Field(
        None, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$", description="package.module:function, sync or async."
    )
    mcp: str | None = Field(None, pattern=r"^mcp\+", description="Tool of an MCP server: mcp+https://HOST/mcp#TOOL.")

    timeout_s: float = Field(60.0, gt=0, description="Calls: longest wait for one attempt.")
    deadline_s: float = Field(300.0, gt=0, description="Calls: longest time for one, with attempts and pauses.")
    down_after_s: float = Field(20.0, gt=0, description="Calls: time without success after which it is held down.")
    max_reply_mib: float = Field(16.0, gt=0, le=1024, description="Calls: largest reply in MiB, when decompressed.")
    max_in_flight: int = Field(64, ge=1, le=4096, description="Calls: most in flight.")
    start_in_flight: int = Field(8, ge=1, description="Calls: in flight before anything is known of the limit.")
    input_cost_per_token: float | None = Field(None, ge=0, description="Calls: price in USD.")
    output_cost_per_token: float | None = Field(None, ge=0, description="Calls: price in USD.")
    call_cost_usd: float | None = Field(None, ge=0, description="Calls: the most that one costs, for --max-cost.")

    @field_validator("api_base", "url")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        return None if value is None else address_without_secrets(value)

    @field_validator("api_key_env")
    @classmethod
    def _remember_variable(cls, value: str | None) -> str | None:
        if value:
            remember_variable(value)
        return value

    @field_validator("mcp")
    @classmethod
    def _check_mcp(cls, value: str | None) -> str | None:
        if value is not None and holds_key(value):
            raise ValueError("it holds a password or a key; send it as a header, ${NAME}")
        return value

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            for variable in variables_of(text):
                remember_variable(variable)
            if not variables_of(text) and (_NEEDS_VARIABLE.search(name) or looks_secret(text)):
                raise ValueError(f"{name}: a key does not belong into a file; write ${{NAME}} and export NAME")
            if re.search(r"[\r\n]", name + text):
                raise ValueError(f"{name}: a header is one line")
        return value

    @field_validator("query", "body", "prompt")
    @classmethod
    def _check_templates(cls, value: Any) -> Any:
        check_template(value)
        for name, text in _leaves("", value):
            if looks_secret(text) or (_NEEDS_VARIABLE.search(name) and "{{" not in text):
                raise ValueError(f"{name or 'it'}: a key does not belong here; send it as a header, ${{NAME}}")
        return value

    @model_validator(mode="after")
    def _check_kind(self) -> Target:
        if sum(way is not None for way in (self.model, self.url, self.function, self.mcp)) != 1:
            raise ValueError("give one of model (LiteLLM), url (HTTP), function (Python) and mcp (MCP)")
        return self

    @property
    def kind(self) -> Literal["litellm", "http", "function", "mcp"]:
        """The kind of the target: by LiteLLM, HTTP, a function or MCP."""
        if self.model is not None:
            return "litellm"
        if self.mcp is not None:
            return "mcp"
        return "http" if self.url is not None else "function"

    @property
    def address(self) -> str:
        """The address of the target, for people and for the ledger."""
        return str(self.model or self.function or self.mcp or f"{self.method} {self.url}")

    def at_version(self, version: str | None, *, force: bool = False) -> Target:
        """Return it with a version, and with that in place of ``{{ version }}`` in model, url and api_base.

        Args:
            version: The version where the target states none.
            force: Replace the target's own.

        Raises:
            UsageError: It needs a version and has none.
        """
        stated = version if version and (force or self.version is None) else self.version
        places = {name: getattr(self, name) for name in ("model", "url", "api_base") if getattr(self, name)}
        filled = {name: with_version(text, stated) for name, text in places.items()}
        return self.model_copy(update={"version": stated, **filled})

    def config(self) -> ModelConfig:
        """Return how it is called."""
        shared = {name: getattr(self, name) for name in (*_OF_CALLS, *_PER_CALL)}
        if self.kind == "litellm":
            of_model = ("api_base", "api_key_env", "temperature", "top_p", "seed", "max_tokens")
            shared |= {name: getattr(self, name) for name in of_model}
        return ModelConfig(key=self.key, model=self.address, **shared)

    def identity(self) -> dict[str, Json]:
        """Return what an answer depends on besides the case. How a reply is read is no part of it."""
        of_kind: dict[str, tuple[str, ...]] = {
            "litellm": ("api_base", "system", "prompt", "temperature", "top_p", "seed", "max_tokens"),
            "http": ("headers", "query", "body"),
            "function": (),
            "mcp": ("headers", "body"),
        }
        stated = {name: getattr(self, name) for name in ("key", "version", *of_kind[self.kind])}
        return {"under_test": self.kind, "model": self.address, **stated}

    def check(self) -> None:
        """Raise ``UsageError`` where a variable of the environment or a program that it needs is not there."""
        if self.kind == "litellm":
            self.config().api_key()
        if self.mcp is not None:
            mcp_server(self.mcp)
        self.request_headers()

    def request_headers(self) -> dict[str, str]:
        """Return the headers of a request with the environment's variables filled in.

        Raises:
            UsageError: A variable is not set.
        """
        return {
            name: with_variables(with_version(text, self.version), f"The header {name} of model {self.key!r}")
            for name, text in self.headers.items()
        }


def find_targets(
    files: Sequence[str | Path],
    names: Sequence[str],
    *,
    version: str | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> tuple[Target, ...]:
    """Return the models to ask.

    Args:
        names: Keys of models in the files; other names are addresses: LiteLLM's model names, ``http://…``,
            ``mcp+…`` or ``python:package.module:function``. None: all models of the files.
        version: Version of those that state none.

    Raises:
        UsageError: A file or a name makes no sense, or there is nothing to ask.
    """
    known: dict[str, Target] = {}
    for file in files:
        for target in read_targets(Path(file)):
            if target.key in known:
                raise UsageError(
                    f"{file}: there are two models {target.key!r}.",
                    hint="Keys tell models apart.",
                    code=ErrorCode.COLLECT_TARGETS,
                )
            known[target.key] = target
    for name in names if known else ():
        if name not in known and not any(mark in name for mark in ("/", PYTHON, MCP)):
            raise UsageError(
                f"There is no model {name!r} in {', '.join(map(str, files))}.",
                hint=f"There: {', '.join(known)}. Others: PROVIDER/MODEL, http://…, {MCP}… or {PYTHON}module:function.",
                code=ErrorCode.COLLECT_NO_MODEL,
            )
    chosen = {name: known.get(name) or _target_at(name, defaults or {}) for name in names} or known
    if not chosen:
        raise UsageError(
            "No model was named.", hint="Add: --model MODEL or --targets FILE", code=ErrorCode.COLLECT_NO_MODEL
        )
    return tuple(target.at_version(version) for target in chosen.values())


def read_targets(file: Path) -> tuple[Target, ...]:
    """Read a targets file.

    Raises:
        UsageError: It cannot be read or is no targets file.
    """
    document = _document(file)
    tables = document.get("model") if isinstance(document, dict) else None
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise UsageError(
            f"{file}: there is no list of models.", hint="Write: [[model]] and key = …", code=ErrorCode.COLLECT_TARGETS
        )
    if set(document) != {"model"}:
        unknown = ", ".join(sorted(map(str, set(document) - {"model"})))
        raise UsageError(
            f"{file}: {unknown} is unknown.",
            hint="A targets file holds [[model]] tables.",
            code=ErrorCode.COLLECT_TARGETS,
        )
    return tuple(_target(table, f"{file}, model {number}") for number, table in enumerate(tables, 1))


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts in a template with the names that they stand under."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for inner, each in value.items():
            yield from _leaves(str(inner), each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(name, each)


def _document(file: Path) -> Any:
    try:
        if file.stat().st_size > _LARGEST:
            raise UsageError(f"{file} has more than a mebibyte; it is no targets file.", code=ErrorCode.COLLECT_TARGETS)
        text = file.read_text(encoding="utf-8")
        return yaml.safe_load(text) if file.suffix in (".yaml", ".yml") else tomllib.loads(text)
    except FileNotFoundError:
        raise UsageError(f"There is no file {file}.", code=ErrorCode.CONFIG_FILE) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, yaml.YAMLError, RecursionError) as error:
        raise UsageError(
            f"{file} cannot be read: {' '.join(str(error).split())}.", code=ErrorCode.COLLECT_TARGETS
        ) from None


def _target_at(name: str, defaults: Mapping[str, Any]) -> Target:
    """Return the target that a name such as ``openai/gpt-4o-mini`` stands for."""
    if name.startswith(("http://", "https://")):
        return _target({"key": name, "url": name}, f"--model http(s)://{urlsplit(name).hostname}/…")
    if name.startswith(PYTHON):
        return _target({"key": name, "function": name.removeprefix(PYTHON)}, f"--model {name}")
    if name.startswith(MCP):
        return _target({"key": name[:200], "mcp": name}, "--model mcp+…")
    return _target({"key": name, "model": name, **defaults}, f"--model {name}")


def _target(values: Mapping[str, Any], where: str) -> Target:
    if "api_key" in values:
        raise UsageError(
            f"{where}: an API key does not belong into a file.",
            hint="Put it into an environment variable, and name that with api_key_env.",
            code=ErrorCode.CONFIG_SECRET,
        )
    try:
        return Target.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = field_of(first, Target)
        raise UsageError(
            f"{where}{f', {field}' if field else ''}: {why(first, Target)}.", code=ErrorCode.COLLECT_TARGETS
        ) from None
