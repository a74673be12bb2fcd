"""Work that is started through Prefect: flow runs of deployments that workers serve, followed and cancelled there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from leadline.evaluators.ground import ErrorCode, LeadlineError, in_project, masked
from leadline.flows.prefect.server import Api, ServerUse, chosen_server, find_api, is_loopback
from leadline.plugins.ui.work_forms import WorkKind

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

TAG: Final = "leadline-ui"
"""Marks the flow runs that people started on the pages."""

_PERSON, _JOB = "person:", "job:"
"""Beginnings of tags that say who started a flow run, and what it does."""

KEPT: Final = 50
"""Flow runs that the page lists."""

LINES: Final = 200
"""Lines of a flow run's log that are shown, the last ones."""

_UNREMARKABLE: Final = "Finished in state Completed()"
"""Line of each step's log, which does not say whose it is."""

ANSWER_S: Final = 10.0
"""Time that Prefect has for an answer."""

AGAIN_S: Final = {True: 60.0, False: 10.0}
"""Time after which it is looked at again whether the server answers, by whether it did."""

_OUTCOMES: Final = {
    "SCHEDULED": "waiting", "PENDING": "starting", "RUNNING": "running", "PAUSED": "paused", "COMPLETED": "done",
    "FAILED": "failed", "CRASHED": "failed", "CANCELLING": "ending", "CANCELLED": "stopped",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StartedFlow:
    """A flow run that somebody started; it goes on when this server ends.

    Attributes:
        title: Its name.
        job: Name of the job that it does, or "".
        settings: The job's form.
        person: Name of who started it, or "".
        started: When, in seconds since 1970.
        seconds: Time since it began to work, or that it took.
        running: Whether it has not ended.
        outcome: Its state in a word.
        note: What Prefect says of the state.
        address: Its page in Prefect's UI, or "".
        lines: The last lines of its log, for one that was looked at by itself.
    """

    id: str
    title: str
    job: str
    settings: Mapping[str, Any]
    person: str
    started: float
    seconds: float
    running: bool
    outcome: str
    note: str
    address: str
    lines: tuple[str, ...] = ()

    def said(self) -> str:
        """Return the end of its log."""
        return "\n".join(self.lines)


@dataclass
class PrefectWork:
    """The flow runs of a store that were started on the pages.

    Attributes:
        store: Place of the store, which every run names.
        ui: Address of Prefect's UI, as a browser sees it, or "".
    """

    store: str
    ui: str
    _seen: tuple[float, Api | str] = field(default=(float("-inf"), ""))

    def problem(self, kind: WorkKind) -> str | None:
        """Return why Prefect does not start a kind of work: "" where it does, ``None`` where there is no server."""
        if isinstance(api := self._api(), str):
            return api or None
        from leadline.flows.dispatch.pools import served_by

        with self._client() as client:
            return served_by(client, deployment_of(kind))[2]

    def start(self, kind: WorkKind, config: Any, person: str) -> StartedFlow:
        """Start a flow run of a kind's deployment.

        Args:
            config: The form of the job, which is the flow's parameter.
            person: Name of who starts it, or "".

        Raises:
            LeadlineError: Prefect does not take it.
        """
        job = kind.job()
        with self._client() as client:
            run = client.create_flow_run_from_deployment(
                client.read_deployment_by_name(deployment_of(kind)).id,
                parameters=job.parameters(config),
                name=masked(job.run_name(config)),
                tags=["leadline", TAG, f"{_JOB}{kind.name}", *([f"{_PERSON}{person}"] if person else [])],
            )
        return self._shown(run)

    def works(self) -> list[StartedFlow]:
        """Return the flow runs, the newest first; none where there is no server, or it is away."""
        if isinstance(self._api(), str):
            return []
        from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
        from prefect.client.schemas.sorting import FlowRunSort

        with self._client() as client:
            runs = client.read_flow_runs(
                flow_run_filter=FlowRunFilter(tags=FlowRunFilterTags(all_=[TAG])),
                sort=FlowRunSort.EXPECTED_START_TIME_DESC,
                limit=KEPT,
            )
        return [self._shown(run) for run in runs if self._is_ours(run)]

    def get(self, name: str) -> StartedFlow | None:
        """Return a flow run by its id with the end of its log; ``None`` for another store's, and other things."""
        try:
            id_ = UUID(name)
        except ValueError:
            return None
        if self._api() == "":
            return None
        from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
        from prefect.client.schemas.sorting import LogSort
        from prefect.exceptions import ObjectNotFound

        with self._client() as client:
            try:
                run = client.read_flow_run(id_)
            except ObjectNotFound:
                return None
            if not self._is_ours(run):
                return None
            lines = client.read_logs(
                LogFilter(flow_run_id=LogFilterFlowRunId(any_=[id_])), limit=LINES, sort=LogSort.TIMESTAMP_DESC
            )
        told = [line for line in reversed(lines) if not (line.task_run_id and line.message == _UNREMARKABLE)]
        return self._shown(run, tuple(f"{line.timestamp:%H:%M:%S}  {line.message}" for line in told))

    def stop(self, work: StartedFlow) -> None:
        """Cancel a flow run: its worker ends it as Ctrl-C does; one that waits does not begin."""
        from prefect.states import Cancelling

        with self._client() as client:
            client.set_flow_run_state(UUID(work.id), Cancelling(message="Stopped in the browser."))

    def _is_ours(self, run: FlowRun) -> bool:
        config = run.parameters.get("config")
        return TAG in run.tags and isinstance(config, dict) and config.get("store") == self.store

    def _shown(self, run: FlowRun, lines: tuple[str, ...] = ()) -> StartedFlow:
        state = run.state
        created = run.created or run.expected_start_time
        return StartedFlow(
            str(run.id),
            run.name,
            _tagged(run, _JOB),
            run.parameters.get("config") or {},
            _tagged(run, _PERSON),
            created.timestamp() if created else 0.0,
            run.estimated_run_time.total_seconds(),
            state is None or not state.is_final(),
            _OUTCOMES.get(state.type.value, state.type.value.lower()) if state else "waiting",
            " ".join(filter(None, (state.name, state.message))) if state else "",
            f"{self.ui}/runs/flow-run/{run.id}" if self.ui else "",
            lines,
        )

    def _api(self) -> Api | str:
        """Return the server that answers, why it cannot be used, or "" where there is none.

        What was found counts for a while, so that not every page waits for a server that is away.
        """
        when, found = self._seen
        if time.monotonic() - when > AGAIN_S[isinstance(found, Api)]:
            found = "" if chosen_server() is ServerUse.NONE else find_api()
            self._seen = (time.monotonic(), found)
        return found

    @contextmanager
    def _client(self) -> Iterator[SyncPrefectClient]:
        import httpx
        from prefect.client.orchestration import get_client
        from prefect.exceptions import PrefectException
        from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

        api = self._api()
        if isinstance(api, str):
            raise LeadlineError(f"{api or 'There is no Prefect server'}.", code=ErrorCode.SERVER_NONE)
        how = {"timeout": ANSWER_S, "trust_env": not is_loopback(api.url)}
        try:
            with (
                temporary_settings({PREFECT_API_URL: api.url, PREFECT_CLIENT_MAX_RETRIES: 1}),
                get_client(httpx_settings=how, sync_client=True) as client,
            ):
                yield client
        except (httpx.HTTPError, PrefectException, RuntimeError) as error:  # a RuntimeError on the first contact
            said = masked(" ".join(str(error).split())[:300])
            raise LeadlineError(f"Prefect's server refuses, or is away: {said}", code=ErrorCode.SERVER_NONE) from error


def _tagged(run: FlowRun, kind: str) -> str:
    """Return what the tag of a kind says, or ""."""
    return next((tag.removeprefix(kind) for tag in run.tags if tag.startswith(kind)), "")


def deployment_of(kind: WorkKind) -> str:
    """Return the full name of a kind's deployment, of this process's project if it belongs to one."""
    return f"{kind.name}/{in_project(kind.name)}"
