"""The configuration of a judge: all that a verdict depends on, and what it may cost in time."""

from __future__ import annotations

import os
from typing import ClassVar, Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from leadline.evaluators.data.row import Json
from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import UsageError
from leadline.evaluators.ground.secret_values import remember_variable

MEBIBYTE: Final = 1024 * 1024
KEY_VARIABLE: Final = "LEADLINE_JUDGE_API_KEY"
"""Holds the API key of a judge with an ``api_base`` that names no variable of its own."""

UNNAMED: Final = "default"
"""Key of a judge that no table of ``leadline.toml`` names, but a model."""


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
