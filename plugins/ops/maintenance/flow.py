"""The flow ``maintain``: what ``leadline store gc``, ``verify`` and ``backup`` do, by a schedule."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed
from pydantic import Field

from leadline.evaluators.ground import in_bytes
from leadline.flows.prefect.outside_requests import allowed, check_store
from leadline.flows.prefect.prefect_steps import TaskSteps, is_from_outside
from leadline.flows.prefect.server_outage import outlast_outages
from leadline.flows.shared.form import FormModel
from leadline.flows.shared.settings import StorePlace
from leadline.plugins.ops.maintenance.backup import back_up
from leadline.plugins.ops.maintenance.garbage import drop_garbage
from leadline.plugins.ops.maintenance.integrity import CheckedStore
from leadline.plugins.ops.maintenance.integrity import check_store as check_files
from leadline.plugins.ops.maintenance.retention import load_retention
from leadline.tasks.store.store import Store

outlast_outages()


class MaintainConfig(FormModel):
    """Upkeep of a store: each part where it is asked for."""

    gc: bool = Field(False, description="Drop what [retention] of leadline.toml does not keep, and leftovers.")
    verify: bool = Field(False, description="Check the digests of all files.")
    backup: str | None = Field(None, description="Folder for a copy, a tar file named by the time. Default: no copy.")
    store: StorePlace = None


@flow(
    name="maintain",
    flow_run_name="maintain",
    description="Drop old results of a store, check its files, copy it.",
    persist_result=False,
)
def maintain(config: MaintainConfig) -> State[Any]:
    """Look after a store; fails where its files are damaged, and makes no copy of them.

    Args:
        config: What is done.
    """
    if is_from_outside():
        rules = allowed()
        check_store(rules, config.store)
        if config.backup:
            rules.check_file("folder for results", config.backup)
    store, steps, done = Store.open(config.store), TaskSteps(), []
    if config.gc:
        dropped = steps.step("gc", lambda: list(drop_garbage(store, load_retention())))
        done.append(f"{in_bytes(sum(item.bytes for item in dropped))} freed")
    if config.verify:
        checked = CheckedStore()
        damaged = steps.step("verify", lambda: list(check_files(store, checked)))
        done.append(f"{checked.files:,} files checked, {len(damaged) or 'none'} damaged")
        if damaged:
            lines = [{"file": one.name, "fault": one.fault, "advice": one.advice} for one in damaged]
            create_table_artifact(
                lines, key="leadline-damage", description="Damaged files: leadline store verify --repair"
            )
            return Failed(message="; ".join(done))
    if config.backup:
        target = Path(config.backup).absolute() / f"leadline-{datetime.now(UTC):%Y%m%d-%H%M%S}.tar"
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = steps.step("backup", back_up, store, target)
        done.append(f"{made.files:,} files, {in_bytes(made.bytes)}, copied to {target}")
        if not made.ledger:
            steps.log.warning("The ledger is in PostgreSQL and not in the copy: pg_dump --schema=leadline")
    return Completed(message="; ".join(done) or "Nothing was asked for")
