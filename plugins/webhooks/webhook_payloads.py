"""Webhooks of model registries: who sent it, and which model version it is about. No network here, no server.

MLflow (>= 3.3) signs by the Standard Webhooks scheme: ``X-MLflow-Signature: v1,base64(hmac-sha256(secret,
"{delivery id}.{timestamp}.{body}"))``. Hugging Face sends the secret itself in ``X-Webhook-Secret``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from leadline.evaluators.ground import ErrorCode, LeadlineError, UsageError, first_refusal

TOLERANCE_S: Final = 300.0
"""Greatest age of a signed delivery; an older one may be a replay."""

_LONGEST_STAMP: Final = 20


class NotAuthentic(LeadlineError):
    """A delivery has no valid signature or secret."""

    code = ErrorCode.EVENT_NOT_AUTHENTIC


class NotUnderstood(LeadlineError):
    """A delivery has not the shape that its sender documents."""

    code = ErrorCode.EVENT_NOT_UNDERSTOOD


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A version of a model in a registry.

    Attributes:
        name: Its name there.
        version: Its version; a commit for Hugging Face.
    """

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A delivery about something else.

    Attributes:
        reason: About what.
    """

    reason: str


class ModelChoice(BaseModel):
    """Models that are evaluated when a registry has a new version of them.

    Attributes:
        defaults: Fields of the event's payload for all of them.
        models: Names or patterns, each with fields of its own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    defaults: dict[str, Any] = {}
    models: dict[str, dict[str, Any] | None]

    def payload(self, found: ModelVersion) -> dict[str, Any] | None:
        """Return the payload of the event, or ``None`` when the model is none of these.

        A pattern may contain ``*``; the first that fits counts.
        """
        for pattern, own in self.models.items():
            if fnmatchcase(found.name, pattern):
                return {"model": found.name} | self.defaults | (own or {}) | {"version": found.version}
        return None


def read_choice(path: Path) -> ModelChoice:
    """Read a file (YAML or JSON) with the models.

    Raises:
        UsageError: It cannot be read or is not as it should be.
    """
    try:
        return ModelChoice.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", code=ErrorCode.CONFIG_FILE) from None
    except yaml.YAMLError as error:
        raise UsageError(
            f"{path} is not YAML: {' '.join(str(error).split())[:300]}.", code=ErrorCode.CONFIG_FILE
        ) from None
    except ValidationError as error:
        raise UsageError(f"{path}, {first_refusal(error, ModelChoice)}.", code=ErrorCode.CONFIG_CONTENT) from None


def check_mlflow(secret: str, headers: Mapping[str, str], body: bytes, now: float | None = None) -> None:
    """Check MLflow's signature, in constant time, and the delivery's age.

    Args:
        secret: The shared secret.
        headers: Headers of the delivery.
        body: Body of the delivery.
        now: The time in seconds since 1970.

    Raises:
        NotAuthentic: It is missing, wrong or too old.
    """
    delivery, stamp = headers.get("x-mlflow-delivery-id", ""), headers.get("x-mlflow-timestamp", "")
    given = headers.get("x-mlflow-signature", "")
    digest = hmac.new(secret.encode(), f"{delivery}.{stamp}.".encode() + body, hashlib.sha256).digest()
    wanted = "v1," + base64.b64encode(digest).decode("ascii")
    if not hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace")):
        raise NotAuthentic("The signature is missing or wrong.")
    at = int(stamp) if len(stamp) <= _LONGEST_STAMP and stamp.isascii() and stamp.isdigit() else 0
    age = (time.time() if now is None else now) - at
    if abs(age) > TOLERANCE_S:
        raise NotAuthentic("The delivery is too old, or the clocks differ.")


def check_huggingface(secret: str, headers: Mapping[str, str]) -> None:
    """Check the secret that Hugging Face sends, in constant time.

    Args:
        secret: The shared secret.
        headers: Headers of the delivery.

    Raises:
        NotAuthentic: It is missing or wrong.
    """
    given = headers.get("x-webhook-secret", "")
    if not hmac.compare_digest(secret.encode(), given.encode("utf-8", "replace")):
        raise NotAuthentic("The secret is missing or wrong.")


def of_mlflow(payload: Mapping[str, Any]) -> ModelVersion | Ignored:
    """Return which model version MLflow tells of.

    Raises:
        NotUnderstood: The delivery is of another shape.
    """
    kind = f"{payload.get('entity')}.{payload.get('action')}"
    if kind != "model_version.created":
        return Ignored(f"{kind} is no new model version")
    data = payload.get("data")
    return ModelVersion(_text(data, "name", "data"), _text(data, "version", "data"))


def of_huggingface(payload: Mapping[str, Any], refs: Sequence[str] = ("refs/heads/main",)) -> ModelVersion | Ignored:
    """Return which commit of a model's repository Hugging Face tells of.

    Args:
        payload: The delivery.
        refs: Branches and tags that count, by pattern.

    Raises:
        NotUnderstood: The delivery is of another shape.
    """
    event, repo = payload.get("event"), payload.get("repo")
    scope = _text(event, "scope", "event")
    name, kind = _text(repo, "name", "repo"), _text(repo, "type", "repo")
    if kind != "model" or not scope.startswith("repo"):
        return Ignored(f"{scope} of a {kind} is no new model version")
    updated = payload.get("updatedRefs")
    if updated is None:
        created = scope == "repo" and _text(event, "action", "event") == "create"
        head = repo.get("headSha") if isinstance(repo, dict) else None
        return ModelVersion(name, head) if created and isinstance(head, str) else Ignored(f"{scope} changes no commit")
    if not isinstance(updated, list):
        raise NotUnderstood("updatedRefs is no list.")
    for ref in updated:
        at = _text(ref, "ref", "updatedRefs")
        commit = ref.get("newSha")
        if isinstance(commit, str) and any(fnmatchcase(at, pattern) for pattern in refs):
            return ModelVersion(name, commit)
    return Ignored("no branch or tag that counts has changed")


def _text(value: object, key: str, where: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, str) or not found:
        raise NotUnderstood(f"The delivery has no text {where}.{key}.")
    return found
