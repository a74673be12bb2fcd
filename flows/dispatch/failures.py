"""Failures of chunks that were given to workers."""

from __future__ import annotations

from leadline.evaluators.ground.error_codes import ErrorCode
from leadline.evaluators.ground.errors import LeadlineError


class NoWorkers(LeadlineError):
    """Chunks were to be scored on workers, and nobody is there who could."""

    code = ErrorCode.WORKER_NONE


class WorkerLost(LeadlineError):
    """A chunk's process or its host is gone, or it failed there; another worker may do better."""

    code = ErrorCode.WORKER_LOST


class Stopped(LeadlineError):
    """The flow that waits for the chunk is ending."""

    code = ErrorCode.RUN_STOPPED
