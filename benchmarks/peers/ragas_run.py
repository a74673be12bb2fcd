"""The judged suite with Ragas, as its documentation does it; for the Python of an environment that has Ragas.

Run: ``python ragas_run.py DATASET URL IN_FLIGHT OUTPUT``; with 0 in flight it is as it comes. Embeddings, of which
answer relevancy needs some, are made of hashes here and cost nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
from pathlib import Path

os.environ["RAGAS_DO_NOT_TRACK"] = "true"
warnings.simplefilter("ignore")

from langchain_core.embeddings import Embeddings  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from ragas import EvaluationDataset, evaluate  # noqa: E402
from ragas.llms import LangchainLLMWrapper  # noqa: E402
from ragas.metrics import (  # noqa: E402
    Faithfulness,
    LLMContextPrecisionWithReference,
    LLMContextRecall,
    ResponseRelevancy,
)
from ragas.run_config import RunConfig  # noqa: E402


class Hashes(Embeddings):
    """Vectors that cost nothing."""

    def embed_query(self, text: str) -> list[float]:
        """See :class:`Embeddings`."""
        return [byte / 255 for byte in hashlib.sha256(text.encode()).digest()]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """See :class:`Embeddings`."""
        return [self.embed_query(text) for text in texts]


def main() -> None:
    """Score the dataset and write the scores."""
    dataset, url, in_flight, output = sys.argv[1:]
    rows = [json.loads(line) for line in Path(dataset).read_text(encoding="utf-8").splitlines()]
    found = evaluate(
        EvaluationDataset.from_list(
            [
                {
                    "user_input": row["question"],
                    "retrieved_contexts": row["retrieved_context"],
                    "response": row["actual_answer"],
                    "reference": row["expected_answer"],
                }
                for row in rows
            ]
        ),
        metrics=[Faithfulness(), ResponseRelevancy(), LLMContextPrecisionWithReference(), LLMContextRecall()],
        llm=LangchainLLMWrapper(ChatOpenAI(model="gpt-4o-mini", base_url=url, api_key="none")),
        embeddings=Hashes(),
        run_config=RunConfig(max_workers=int(in_flight)) if int(in_flight) else RunConfig(),
        show_progress=False,
    )
    Path(output).write_text(json.dumps(found.scores), encoding="utf-8")


if __name__ == "__main__":
    main()
