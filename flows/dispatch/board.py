"""The shards of a run as an artifact: which chunks are where, with a link to their flow run."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final, cast
from uuid import UUID

import httpx
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.objects import StateType
from prefect.exceptions import PrefectException
from prefect.utilities.urls import url_for

from leadline.flows.dispatch.shards import Shard

log = logging.getLogger("leadline.dispatch")

EVERY_S: Final = 5.0
KEY: Final = "leadline-shards"


class Board:
    """Keeps the artifact ``leadline-shards`` of the flow that waits for them."""

    def __init__(self) -> None:
        self._id: UUID | None = None
        self._shown = 0.0

    def show(self, shards: Mapping[UUID, Shard]) -> None:
        """Show the shards, at most every few seconds unless all have ended; failing to costs nothing but the sight."""
        now = time.monotonic()
        if now - self._shown < EVERY_S and any(shard.open for shard in shards.values()):
            return
        self._shown = now
        try:
            self._write(table(shards))
        except (httpx.HTTPError, PrefectException) as error:
            log.warning("The table of shards could not be shown: %s", error)

    def _write(self, text: str) -> None:
        if self._id is None:
            title = f"{KEY}: chunks on workers"
            self._id = cast("UUID", create_markdown_artifact(text, key=KEY, description=title))
            return
        with get_client(sync_client=True) as client:
            client.update_artifact(self._id, ArtifactUpdate(data=text))


def table(shards: Mapping[UUID, Shard]) -> str:
    """Return a Markdown table: those that run or failed first, then those that wait, then the completed ones."""
    order = {StateType.COMPLETED: 2, StateType.SCHEDULED: 1}
    lines = sorted(shards.values(), key=lambda shard: (order.get(shard.state, 0), shard.name, shard.attempt))
    counts = [
        f"{sum(shard.state == state for shard in lines)} {state.value.lower()}"
        for state in dict.fromkeys(shard.state for shard in lines)
    ]
    return "\n".join(
        [
            f"{len(lines)} shards: {', '.join(counts)}",
            "",
            "| chunks | attempt | state | ended | rows | flow run |",
            "|---|---|---|---|---|---|",
            *(
                f"| {shard.name} | {shard.attempt + 1} | {shard.state.value.lower()} "
                f"| {len(shard.parts) - len(shard.open)} of {len(shard.parts)} "
                f"| {sum(part.chunk.rows for part in shard.parts)} "
                f"| [{shard.id}]({url_for('flow-run', obj_id=shard.id)}) |"
                for shard in lines
            ),
        ]
    )
