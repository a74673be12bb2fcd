"""Settings written down once: a Pydantic model is a flow's form, the source of its command's options and of the docs.

The order of a model's fields is the order of the form, of the options and of the tables in the docs.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from leadline.evaluators.ground import variable_in
from leadline.flows.shared.option_group import OptionGroup


class FormModel(BaseModel):
    """A frozen set of settings that refuses unknown names and keeps values out of error messages.

    Class attributes:
        option_group: The heading of its options in the help, where a field names no other.
    """

    option_group: ClassVar[OptionGroup] = OptionGroup.OTHER

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_secrets(cls, values: Any) -> Any:
        """Refuse a key in the place of a setting: settings are recorded with the run, and Prefect shows them."""
        for name, text in _texts("", values) if isinstance(values, Mapping) else ():
            if variable := variable_in(text):
                raise ValueError(
                    f"the setting {name} holds the secret in {variable}, and settings are recorded: take it out"
                )
        return values

    @classmethod
    def __get_pydantic_json_schema__(cls, schema_of_core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Number the fields in the order of their definition, which is the order in Prefect's form."""
        schema = handler(schema_of_core)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for position, name in enumerate(cls.model_fields):
            properties[name]["position"] = position
        return schema


class Option:
    """Spelling of a field on the command line, where that is not ``--its-name``.

    Attributes:
        flags: The option's names; without any the field's own.
        metavar: The value's name in the help; names of files and folders are completed by shells.
        group: Its heading in the help, instead of its form's.
        advanced: Whether the help lists its option only with ``--all``.
        rare: Whether few runs need it: there is no option of its own then, but ``--set`` and ``leadline.toml``.
    """

    def __init__(
        self,
        *flags: str,
        metavar: str | None = None,
        group: OptionGroup | None = None,
        advanced: bool = False,
        rare: bool = False,
    ) -> None:
        self.flags: Final = flags
        self.metavar: Final = metavar
        self.group: Final = group
        self.advanced: Final = advanced
        self.rare: Final = rare


_USUAL: Final = Option()


@dataclass(frozen=True, slots=True)
class OneOf:
    """Restricts a text to names that are known when it is asked, such as those of registered classes.

    Attributes:
        what: What they name, for the refusal of another one.
    """

    names: Callable[[], tuple[str, ...]]
    what: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Refuse other names."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """List the names, so that the form offers them."""
        return handler(schema) | {"enum": list(self.names())}

    def _check(self, name: str) -> str:
        if name not in self.names():
            raise ValueError(f"{name[:40]!r} is no {self.what}; there are {', '.join(self.names())}")
        return name


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a form, or of a form within it.

    Attributes:
        path: Its name, with points between the levels, such as ``judges.max_cost``.
    """

    path: str
    field: FieldInfo
    form: type[BaseModel]

    @property
    def option(self) -> Option:
        """Its spelling on the command line, the usual one where the field gives none."""
        return next((item for item in self.field.metadata if isinstance(item, Option)), _USUAL)

    @property
    def group(self) -> OptionGroup:
        """The heading of its option in the help."""
        usual = self.form.option_group if issubclass(self.form, FormModel) else OptionGroup.OTHER
        return self.option.group or usual

    @property
    def flags(self) -> tuple[str, ...]:
        """Names of its option; none for an argument, which is a required field without names."""
        if self.option.flags:
            return self.option.flags
        if self.field.is_required():
            return ()
        name = self.path.rpartition(".")[2].replace("_", "-")
        return (f"--{name}/--no-{name}",) if self.default is True else (f"--{name}",)

    @property
    def kind(self) -> Any:
        """The type of its value, ``None`` left aside."""
        alternatives = [each for each in _alternatives(self.field.annotation) if each is not type(None)]
        return alternatives[0] if len(alternatives) == 1 else self.field.annotation

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that it may have, where these are few."""
        kind = self.kind
        if isinstance(kind, type) and issubclass(kind, Enum):
            return tuple(str(member.value) for member in kind)
        if get_origin(kind) is Literal:
            return get_args(kind)
        return next((item.names() for item in self.field.metadata if isinstance(item, OneOf)), ())

    @property
    def default(self) -> Any:
        """Its default, ``None`` where it has none."""
        return None if self.field.is_required() else self.field.get_default(call_default_factory=True)


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts in nested settings with the names that they stand under."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for inner, each in value.items():
            yield from _texts(f"{name}.{inner}".lstrip("."), each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(name, each)


def settings_in(model: type[BaseModel], prefix: str = "") -> Iterator[Setting]:
    """Yield the settings of a form in their order, those of a form within it in its place."""
    for name, field in model.model_fields.items():
        setting = Setting(f"{prefix}{name}", field, model)
        if isinstance(setting.kind, type) and issubclass(setting.kind, BaseModel):
            yield from settings_in(setting.kind, f"{setting.path}.")
        else:
            yield setting


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings in which those of the second mapping win.

    Args:
        below: Settings, such as those of a file.
        above: Settings that win, such as those of the command line.
    """
    both = {
        name: merged(below[name], value)
        if isinstance(value, Mapping) and isinstance(below.get(name), Mapping)
        else value
        for name, value in above.items()
    }
    return {**below, **both}


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
