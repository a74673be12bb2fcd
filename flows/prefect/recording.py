"""Recording a job that this process does: by Prefect's engine, or on a server of this machine by its REST API alone."""

from __future__ import annotations

from leadline.flows.prefect.kept_history import NotTaken, Requests, kept_history
from leadline.flows.prefect.server import Api, guarded, prefect_client
from leadline.flows.shared.job import C, Job, K, R, S
from leadline.flows.shared.settings import SCORING_FLOW, Dispatch
from leadline.tasks.ground.timeline import in_step


def recorded(api: Api, job: Job[C, K, S, R], config: C, checked: K) -> R:
    """Check and do a job whose run a Prefect server records.

    Prefect's own engine, whose import takes longer than a small run, does it where the server is somebody else's, which
    may be away for a while, want a key, or have workers.

    Args:
        api: The server's API.
        checked: What the check of the job found.
    """
    if api.kind == "kept" and not guarded() and not _has_workers(api, config):
        with kept_history(api.url, job.name, job.run_name(config), job.parameters(config)) as history:
            return job.carry_out(config, job.plain_steps(config, history), checked)
    with in_step("imports"):
        from leadline.flows.prefect.prefect_steps import recorded_by_engine
    with prefect_client(api):
        return recorded_by_engine(job, config, checked)


def _has_workers(api: Api, config: object) -> bool:
    """Return whether chunks of a job may go to workers: it wants them, or there are deployments for them."""
    dispatch = getattr(config, "dispatch", Dispatch.INLINE)
    if dispatch != Dispatch.AUTO:
        return bool(dispatch == Dispatch.WORKERS)
    wanted = {"flows": {"name": {"any_": [SCORING_FLOW]}}, "limit": 1}
    requests = Requests(api.url)
    try:
        return bool(requests.send("POST", "/deployments/filter", wanted))
    except (OSError, NotTaken):  # Prefect's engine knows what to do
        return True
    finally:
        requests.close()
