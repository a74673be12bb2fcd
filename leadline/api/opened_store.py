"""A store as programs and notebooks see it: its runs, the history of a metric, and SQL, as DataFrames."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leadline.tasks.store.store import Store

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """The store of scores, runs and reports.

    Attributes:
        store: The store as the steps of a run use it.
    """

    store: Store

    @property
    def root(self) -> Path:
        """Its folder; of a store in a bucket, this host's working copy."""
        return self.store.root

    @property
    def location(self) -> str:
        """Its path or URL, which :func:`open_store` takes on any host that sees it."""
        return self.store.location

    def runs(self) -> DataFrame:
        """Return the runs, the oldest first: name, status, dataset, gate, and counts of scores and problems."""
        from leadline.tasks.publish.exports import frames

        return frames.runs(self.store)

    def history(self, metric: str) -> DataFrame:
        """Return the means of a metric in all runs, the oldest first, with intervals; no lines if none measured it.

        Args:
            metric: Key of a metric, id of an evaluator for its primary metrics, or both as ``evaluator.metric``.
        """
        from leadline.tasks.publish.exports import frames

        return frames.history(self.store, metric)

    def sql(self, query: str) -> DataFrame:
        """Run one query over all runs together; it can change nothing and reach nothing but the store.

        Args:
            query: A query of DuckDB over the tables of ``leadline store sql``, each with a column ``run``.

        Raises:
            UsageError: It is not a single query, or it fails.
        """
        from leadline.tasks.runs.query import archive

        with archive(self.store, statement=query) as opened, opened.query(query) as found:
            return found.df()


def open_store(location: str | os.PathLike[str] | None = None) -> OpenedStore:
    """Open the store of scores, runs and reports.

    Args:
        location: A folder or an object store's URL; by default ``$LEADLINE_STORE`` or ``./.leadline``.

    Raises:
        StoreError: It cannot be made or reached.
    """
    return OpenedStore(Store.open(location))
