"""The dispatcher that gives chunks to Dask, as the entry point ``leadline.dispatchers`` names it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from leadline.evaluators.core import Lane
from leadline.plugins.dask.dask_chunks import DaskChunks
from leadline.plugins.dask.dask_cluster import dask_workers


class DaskDispatcher:
    """See :class:`leadline.flows.dispatch.dispatcher.Dispatcher`."""

    def workers(self, dispatch: str, lanes: Collection[Lane], processes: int) -> Mapping[Lane, int]:
        """Return the lanes that a cluster serves. See :func:`.dask_workers`."""
        return dask_workers(dispatch, lanes, processes)

    def elsewhere(self, dispatch: str, workers: Mapping[Lane, int]) -> DaskChunks:
        """Return what scores chunks on a cluster."""
        return DaskChunks(dispatch, workers)
