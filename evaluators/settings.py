"""The choices of a run: its judges and juries, with all that a verdict depends on, its models, device and limits.

::

    [judges.panel]
    jury = ["small", "strict", "other"]
    combine = "majority"
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from leadline.evaluators.data import Json
from leadline.evaluators.ground import ErrorCode, UsageError, remember_variable

MEBIBYTE: Final = 1024 * 1024
KEY_VARIABLE: Final = "LEADLINE_JUDGE_API_KEY"
"""Holds the API key of a judge with an ``api_base`` that names no variable of its own."""

SEARCH_KEY_VARIABLE: Final = "LEADLINE_SEARCH_API_KEY"
"""Holds the API key of the tool that a judge may search with."""

UNNAMED: Final = "default"
"""Key of a judge that no table of ``leadline.toml`` names, but a model."""

Precision: TypeAlias = Literal["auto", "float32", "float16", "bfloat16"]
Combining: TypeAlias = Literal["majority", "mean", "dawid-skene"]
_LEAST_MEMBERS: Final = 2
_Share = Annotated[float, Field(gt=0, lt=1)]


class GuidanceExample(BaseModel):
    """An answer with people's verdict; of its case, what the evaluator reads."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verdict: str = Field(min_length=1, max_length=100, description="What people say: good, bad, or a number.")
    question: str = Field("", max_length=20_000, description="The question.")
    context: str = Field("", max_length=20_000, description="The retrieved texts.")
    expected: str = Field("", max_length=20_000, description="The expected answer.")
    answer: str = Field("", max_length=20_000, description="The answer.")
    note: str = Field("", max_length=2_000, description="Why, in people's words.")

    @property
    def texts(self) -> dict[str, str]:
        """The texts that there are, by the name of their fence."""
        parts = {"question": self.question, "context": self.context, "expected": self.expected, "answer": self.answer}
        return {name: text for name, text in parts.items() if text}


class Guidance(BaseModel):
    """Instructions and examples that people's labels add to the prompts of an evaluator."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    evaluator: str = Field(min_length=1, max_length=200, description="Id of the evaluator.")
    instructions: str = Field(min_length=1, max_length=8_000, description="How people judge.")
    examples: tuple[GuidanceExample, ...] = Field((), max_length=20, description="Answers and their verdicts.")

    @property
    def length(self) -> int:
        """Characters that it adds to a prompt."""
        shown = (text for each in self.examples for text in (*each.texts.values(), each.note))
        return len(self.instructions) + sum(map(len, shown))


class JudgeConfig(BaseModel):
    """One judge.

    The API key is never a field: it is read from the environment when a call is made.

    Class attributes:
        subject: Who is asked, as error texts begin.
        key_variable: Holds the API key of a server of the user's own that names no variable.
    """

    subject: ClassVar[str] = "The judge"
    key_variable: ClassVar[str] = KEY_VARIABLE

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = Field(UNNAMED, min_length=1, max_length=100, description="Name of the judge.")
    model: str = Field(min_length=1, description="LiteLLM model name, or for a local judge a hub id or directory.")
    kind: Literal["litellm", "local"] = Field("litellm", description="Asked on a server, or run here.")
    api_base: str | None = Field(None, description="Base URL of an OpenAI-compatible server.")
    api_key_env: str | None = Field(None, description="Environment variable that holds the API key.")
    revision: str | None = Field(None, description="Revision of a local model's weights.")
    temperature: float = Field(0.0, ge=0, le=2, description="Sampling temperature.")
    top_p: float | None = Field(None, gt=0, le=1, description="Nucleus sampling.")
    seed: int | None = Field(None, description="Sampling seed, where the provider has one.")
    max_tokens: int = Field(1024, ge=1, description="Longest reply; a reply cut off there is no verdict.")
    structured: Literal["auto", "json_schema", "json_object", "off"] = Field(
        "auto", description="How a JSON reply is enforced; auto: by schema where the server takes one."
    )
    timeout_s: float = Field(60.0, gt=0, description="Longest wait for one attempt.")
    deadline_s: float = Field(
        300.0, gt=0, description="Longest time for one call, attempts and pauses; waiting for its turn not included."
    )
    max_reply_mib: float = Field(4.0, gt=0, le=1024, description="Largest reply in MiB, when it is decompressed.")
    down_after_s: float = Field(
        20.0, gt=0, description="Time without any success after which the judge is held to be down."
    )
    max_in_flight: int = Field(128, ge=1, le=4096, description="Most calls in flight.")
    start_in_flight: int = Field(16, ge=1, description="Calls in flight before anything is known of the limit.")
    input_cost_per_token: float | None = Field(None, ge=0, description="Price in USD, if LiteLLM does not know it.")
    output_cost_per_token: float | None = Field(None, ge=0, description="Price in USD, if LiteLLM does not know it.")

    sentinel_every_h: float = Field(
        24.0, gt=0, le=8760, description="Hours after which a run checks whether the judge is still the one enrolled."
    )
    epoch: int = Field(
        0, ge=0, description="How often a change of the judge was accepted; known from the store, never set by hand."
    )
    guidance: tuple[Guidance, ...] = Field((), description="What labels add to prompts, by evaluator.")

    @model_serializer(mode="wrap")
    def _without_empty_guidance(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out guidance where there is none, so that records of judges are what they always were."""
        found: dict[str, Any] = dump(self)
        return {name: value for name, value in found.items() if name != "guidance" or value}

    @field_validator("guidance", mode="before")
    @classmethod
    def _guidance_from_tables(cls, value: Any) -> Any:
        """Take the tables of ``leadline.toml``, an evaluator's name before each."""
        if not isinstance(value, Mapping):
            return value
        if not all(isinstance(table, Mapping) for table in value.values()):
            raise ValueError("needs a table for each evaluator: guidance.EVALUATOR")
        return [{**table, "evaluator": name} for name, table in sorted(value.items())]

    def guidance_for(self, evaluator: str) -> Guidance | None:
        """Return what labels add to the prompts of an evaluator; ``None`` for nothing."""
        return next((each for each in self.guidance if each.evaluator == evaluator), None)

    @field_validator("api_base")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        return None if value is None else address_without_secrets(value)

    @field_validator("model")
    @classmethod
    def _check_model(cls, value: str) -> str:
        if "://" in value and ("@" in urlsplit(value).netloc or urlsplit(value).query):
            raise ValueError("must hold no user, password or query: name the key's variable with api_key_env")
        return value

    @field_validator("api_key_env")
    @classmethod
    def _remember_variable(cls, value: str | None) -> str | None:
        if value:
            remember_variable(value)
        return value

    @property
    def max_reply(self) -> int:
        """The largest reply in bytes."""
        return int(self.max_reply_mib * MEBIBYTE)

    def identity(self) -> dict[str, Json]:
        """Return what of the judge a verdict depends on, and so belongs into score keys and the ledger.

        The first epoch is left out, so that the keys of judges that were never accepted anew are what they always were.
        """
        identity: dict[str, Json] = {
            "kind": self.kind,
            "model": self.model,
            "revision": self.revision,
            "api_base": self.api_base,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "max_tokens": self.max_tokens,
            "structured": self.structured,
        }
        return identity | {"epoch": self.epoch} if self.epoch else identity

    def api_key(self) -> str | None:
        """Return the API key, or ``None`` to let LiteLLM look where the provider documents it.

        A server of the user's own (``api_base``) never gets the key of a provider by accident: its key is that of
        ``api_key_env`` or of the ``key_variable``, and ``"none"`` where neither is set.

        Raises:
            UsageError: The variable that should hold it is not set.
        """
        if self.api_key_env is None:
            return (os.environ.get(self.key_variable) or "none") if self.api_base else None
        key = os.environ.get(self.api_key_env)
        if not key:
            raise UsageError(
                f"{self.subject} {self.key!r} takes its API key from {self.api_key_env}, which is not set.",
                hint=f"Set it: export {self.api_key_env}=…",
                code=ErrorCode.CONFIG_VARIABLE,
            )
        return key


def address_without_secrets(address: str) -> str:
    """Return a server's address, which goes into score keys, the ledger and reports.

    Raises:
        ValueError: It is none, or could hold a key.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address such as http://localhost:11434")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must hold no user, password or query: name the key's variable with api_key_env")
    return address.rstrip("/")


class MemberWeight(BaseModel):
    """The weight of one member in one metric: two rates where rows pass or fail, a share of the mean for numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    member: str = Field(min_length=1, description="Name of the judge.")
    passes: _Share | None = Field(None, description="Share of the good answers that it passes.")
    catches: _Share | None = Field(None, description="Share of the bad answers that it fails.")
    weight: Annotated[float, Field(gt=0, le=1)] | None = Field(None, description="Its share of a mean.")

    @model_validator(mode="after")
    def _check(self) -> MemberWeight:
        if (self.passes is None) != (self.catches is None) or (self.passes is None) == (self.weight is None):
            raise ValueError("needs passes and catches, or a weight")
        if self.passes is not None and self.catches is not None and self.passes + self.catches <= 1:
            raise ValueError("passes good answers no more often than bad ones: leave this judge out")
        return self


class MetricWeights(BaseModel):
    """The weights of all members in one metric, as they were learned from labels."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str = Field(min_length=1, description="EVALUATOR.METRIC.")
    good: _Share | None = Field(None, description="Share of good answers, where rows pass or fail.")
    members: tuple[MemberWeight, ...] = Field(description="The members' weights.")

    @model_validator(mode="after")
    def _check(self) -> MetricWeights:
        by_votes = {each.passes is not None for each in self.members}
        if by_votes != {self.good is not None}:
            raise ValueError("needs good with passes and catches, or weights alone")
        return self

    def of(self, member: str) -> MemberWeight:
        """Return the weight of a member."""
        return next(each for each in self.members if each.member == member)


class JuryConfig(JudgeConfig):
    """Several judges that answer as one. Each is asked by itself; what they say is combined row by row.

    What it inherits of a single judge (sampling, limits, prices) is that of its members.
    """

    members: tuple[JudgeConfig, ...] = Field(min_length=_LEAST_MEMBERS, description="The judges.")
    combine: Combining = Field("majority", description="How their verdicts become one.")
    weights: tuple[MetricWeights, ...] = Field((), description="What labels taught of the members, for dawid-skene.")

    @field_validator("weights", mode="before")
    @classmethod
    def _from_tables(cls, value: Any) -> Any:
        """Take the tables of ``leadline.toml``, a metric's name before each."""
        if not isinstance(value, Mapping):
            return value
        return [_weights_of(metric, table) for metric, table in sorted(value.items())]

    @model_validator(mode="after")
    def _check(self) -> JuryConfig:
        names = [member.key for member in self.members]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"has the judge {twice[0][:40]!r} twice")
        if any(isinstance(member, JuryConfig) for member in self.members):
            raise ValueError("has a jury as a member: name its judges instead")
        if (self.combine == "dawid-skene") != bool(self.weights):
            raise ValueError(
                'has weights, which are for combine = "dawid-skene"'
                if self.weights
                else 'learns its weights first: with combine = "majority", leadline judges train NAME --labels SET'
            )
        for each in self.weights:
            if sorted(weight.member for weight in each.members) != sorted(names):
                raise ValueError(f"has weights of {each.metric[:80]} for other judges than its own: train it again")
        return self

    @property
    def quorum(self) -> int:
        """The least number of members whose verdicts make one: more than half."""
        return len(self.members) // 2 + 1

    def weights_for(self, evaluator: str) -> MetricWeights | None:
        """Return what labels taught of the members in an evaluator, ``None`` where nobody labelled it."""
        return next((each for each in self.weights if each.metric.rpartition(".")[0] == evaluator), None)

    def identity(self) -> dict[str, Json]:
        """Return what of the jury a verdict depends on."""
        return self.identity_with([member.identity() for member in self.members])

    def identity_with(self, members: list[dict[str, Json]]) -> dict[str, Json]:
        """Return the jury's identity; the order of its members is no part of it.

        Args:
            members: The identities of its members, in their order.
        """
        learned = {
            member.key: {each.metric: each.of(member.key).model_dump(exclude={"member"}) for each in self.weights}
            for member in self.members
        }
        parts: list[dict[str, Json]] = [
            {"judge": identity, "weights": learned[member.key]}
            for member, identity in zip(self.members, members, strict=True)
        ]
        return {
            "kind": "jury",
            "model": self.model,
            "combine": self.combine,
            "good": {each.metric: each.good for each in self.weights},
            "members": sorted(parts, key=str),
        }

    def api_key(self) -> str | None:
        """Check that the key of every member is set; a jury has none of its own.

        Raises:
            UsageError: The variable that should hold one is not set.
        """
        for member in self.members:
            member.api_key()
        return None


def judge_from(record: Mapping[str, Any]) -> JudgeConfig:
    """Return a judge or a jury from its record.

    Args:
        record: Its fields, as ``model_dump`` returned them.
    """
    if "members" not in record:
        return JudgeConfig(**record)
    return JuryConfig(**record)


def members_of(judge: JudgeConfig) -> tuple[JudgeConfig, ...]:
    """Return the judges that are asked: the members of a jury, or the judge itself."""
    return judge.members if isinstance(judge, JuryConfig) else (judge,)


def _weights_of(metric: str, table: Any) -> Any:
    """Return the weights of a metric as the file has them: ``good``, and ``judges`` by name."""
    if not isinstance(table, Mapping) or not isinstance(table.get("judges"), Mapping):
        raise ValueError(f"needs the weights of its judges in {metric[:80]}: judges.NAME = ...")
    members = [
        {"member": name, **(value if isinstance(value, Mapping) else {"weight": value})}
        for name, value in table["judges"].items()
    ]
    return {name: value for name, value in table.items() if name != "judges"} | {"metric": metric, "members": members}


@dataclass(frozen=True, slots=True)
class Settings:
    """Choices for a run that evaluators see.

    Attributes:
        language: Language of the texts, as an ISO 639-1 code.
        splitter: ``auto`` (punkt where its data is installed, else rules), ``punkt`` or ``rules``.
        embedder: Embedder for every evaluator instead of its own default: a Hugging Face id (optionally
            ``id@revision``), a directory, or ``offline``.
        offline_for: Default embedders, by Hugging Face id, in whose place ``offline`` is used since they are not on the
            machine that planned the run. A worker that has them uses ``offline`` as well: it is part of the keys.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
        precision: Number format of models; ``auto`` is float16 where ``device`` names CUDA and float32 otherwise.
        backend: Engine that runs embedders and cross-encoders: ``torch``, or ``onnx`` on a CPU. ``auto`` is ``onnx``
            for the offline embedder, where no other device or number format is asked for, and ``torch`` for all else.
        allow_download: Whether weights may be fetched while scoring.
        allow_pickle: Whether pickled weights may be loaded where a model has no safetensors; they can run any code.
        judges: The judges that can be asked, the default one first.
        evaluators_dir: Folder of the user's own judges as YAML files.
        evaluator_files: Python files with the user's own evaluators.
    """

    language: str = "en"
    splitter: Literal["auto", "punkt", "rules"] = "auto"
    embedder: str | None = None
    offline_for: tuple[str, ...] = ()
    device: str = "auto"
    precision: Precision = "auto"
    backend: Literal["auto", "torch", "onnx"] = "auto"
    allow_download: bool = False
    allow_pickle: bool = False
    judges: tuple[JudgeConfig, ...] = ()
    evaluators_dir: str | None = None
    evaluator_files: tuple[str, ...] = ()
