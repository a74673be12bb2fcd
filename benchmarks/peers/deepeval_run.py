"""The judged suite with DeepEval, as its documentation does it; for the Python of an environment that has DeepEval.

Run: ``python deepeval_run.py DATASET URL IN_FLIGHT OUTPUT``; with 0 in flight it is as it comes. Reasons
are left out: each would be a further call.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ |= {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DEEPEVAL_NO_INSPECT_PROMPT": "1",
    "DEEPEVAL_PER_TASK_TIMEOUT_SECONDS_OVERRIDE": "600",
}

from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import (
    AnswerRelevancyMetric,
    ContextualPrecisionMetric,
    ContextualRecallMetric,
    FaithfulnessMetric,
)
from deepeval.models import LocalModel
from deepeval.test_case import LLMTestCase

METRICS = (FaithfulnessMetric, AnswerRelevancyMetric, ContextualPrecisionMetric, ContextualRecallMetric)


def main() -> None:
    """Score the dataset and write the scores."""
    dataset, url, in_flight, output = sys.argv[1:]
    rows = [json.loads(line) for line in Path(dataset).read_text(encoding="utf-8").splitlines()]
    result_file = Path(output).resolve()
    os.chdir(result_file.parent)  # DeepEval writes its last run into the folder it is started in
    model = LocalModel(model="judge", api_key="none", base_url=url)
    found = evaluate(
        [
            LLMTestCase(
                input=row["question"],
                actual_output=row["actual_answer"],
                expected_output=row["expected_answer"],
                retrieval_context=row["retrieved_context"],
            )
            for row in rows
        ],
        [metric(model=model, include_reason=False) for metric in METRICS],
        async_config=AsyncConfig(max_concurrent=int(in_flight)) if int(in_flight) else AsyncConfig(),
        display_config=DisplayConfig(show_indicator=False, print_results=False, inspect_after_run=False),
        cache_config=CacheConfig(write_cache=False),
        error_config=ErrorConfig(ignore_errors=True),
    )
    scores = [{data.name: data.score for data in result.metrics_data or ()} for result in found.test_results]
    result_file.write_text(json.dumps(scores), encoding="utf-8")


if __name__ == "__main__":
    main()
