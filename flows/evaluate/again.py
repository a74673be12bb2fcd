"""An evaluation of the answers that an earlier run had."""

from __future__ import annotations

from leadline.flows.evaluate.config import EvaluateConfig
from leadline.flows.evaluate.job import Evaluate
from leadline.flows.evaluate.prepare import Prepared, prepared_again
from leadline.tasks.runs.run_index import RunLine


class EvaluateAgain(Evaluate):
    """Score the answers of an earlier run again.

    Args:
        line: The run.
    """

    def __init__(self, line: RunLine) -> None:
        super().__init__(asks_here=True)
        self._line = line

    def check(self, config: EvaluateConfig) -> Prepared:
        """Check the request with the dataset that the run had, and give that to other hosts."""
        prepared = prepared_again(config, self._line, check_key=True)
        prepared.store.share_dataset(prepared.loaded.digest)
        return prepared
