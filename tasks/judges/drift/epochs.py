"""Epochs: how often a change of a judge was accepted, which is part of what its scores depend on.

Layout, below the store's root::

    judges/<key>/epochs/<epoch>.json            when the change that began it was accepted
    judges/<key>/enrolments/<epoch>-<n>.json    probes and their first replies
    judges/<key>/checks/<epoch>-<occasion>.json what the judge replied to them later

A file is never changed. The key is the digest of the judge's identity without its epoch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from leadline.evaluators.ground import ErrorCode, StoreError
from leadline.evaluators.settings import JudgeConfig, JuryConfig, Settings
from leadline.tasks.ground.files import digest, write_json
from leadline.tasks.store.store import Store

FOLDER: Final = "judges"


def judge_key(judge: JudgeConfig) -> str:
    """Return what identifies a judge in all its epochs."""
    return digest(judge.model_copy(update={"epoch": 0}).identity())


def judge_files(store: Store, key: str, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the files of one kind that a store has of a judge, by name, in order.

    Args:
        kind: ``epochs``, ``enrolments`` or ``checks``.

    Raises:
        StoreError: A file is damaged.
    """
    folder = store.root / FOLDER / key / kind
    store.sync([folder])
    for path in sorted(folder.glob("*.json")):
        try:
            yield path.stem, dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise StoreError(
                f"What the store knows of a judge is damaged: {path}: {error}.",
                hint="Restore the file from a backup.",
                code=ErrorCode.STORE_FAILED,
            ) from error


def keep(store: Store, key: str, kind: str, name: str, content: dict[str, Any]) -> Path:
    """Write a file of a judge unless it is there, and return it.

    One that a killed process left here reaches the bucket as well.

    Args:
        kind: ``epochs``, ``enrolments`` or ``checks``.
    """
    path = store.root / FOLDER / key / kind / f"{name}.json"
    if not path.exists():
        write_json(path, content)
    store.sync([path.parent])
    return path


def enrolled_keys(store: Store) -> list[str]:
    """Return the keys of all judges that a store knows."""
    folder = store.root / FOLDER
    names = {path.name for path in folder.glob("*") if path.is_dir()}
    if store.remote:
        names |= set(store.remote.folders(folder))
    return sorted(names)


def epoch_of(store: Store, key: str) -> int:
    """Return the epoch that a judge is in: 0 until a change of it is accepted."""
    return max((int(name) for name, _ in judge_files(store, key, "epochs")), default=0)


def begin_epoch(store: Store, key: str, epoch: int, at: datetime) -> None:
    """Put on record that a change of a judge was accepted."""
    keep(store, key, "epochs", f"{epoch:04d}", {"accepted": at.isoformat(timespec="seconds")})


def with_epochs(store: Store, settings: Settings) -> Settings:
    """Return settings whose judges are in the epoch that the store knows of them.

    Every worker gets them with the run's jobs, so all agree even when an epoch begins meanwhile.
    """
    known = enrolled_keys(store) if settings.judges else []
    if not known:
        return settings
    return replace(settings, judges=tuple(_in_its_epoch(store, judge, known) for judge in settings.judges))


def _in_its_epoch(store: Store, judge: JudgeConfig, known: list[str]) -> JudgeConfig:
    if isinstance(judge, JuryConfig):  # it has none of its own
        members = tuple(_in_its_epoch(store, member, known) for member in judge.members)
        return judge.model_copy(update={"members": members})
    key = judge_key(judge)
    return judge.model_copy(update={"epoch": epoch_of(store, key)}) if key in known else judge
