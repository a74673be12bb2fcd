"""Records what no change of the code's structure may change.

Digests, keys, scores and findings of the sample; what judged, labelled and stopped runs find and ask; what commands
tell; databases, prompts and public names.

``python -m tests.golden.record`` writes the files anew; look at the difference before committing it.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import duckdb

from leadline.evaluators.core import CUSTOM, all_evaluators
from leadline.evaluators.ground import package_version
from leadline.evaluators.settings import JudgeConfig, Settings
from leadline.tasks import pipeline
from leadline.tasks.db import open_run
from leadline.tasks.load.dataset import load_dataset
from leadline.tasks.plan.jobs import make_jobs
from leadline.tasks.plan.selection import choose
from leadline.tasks.policy.policy import load_policy
from leadline.tasks.score.chunk import score_chunk
from leadline.tasks.store.store import Store
from tests.golden.comparing import same
from tests.golden.faces import prompts, public_names
from tests.golden.plain import laid_out
from tests.golden.walks import demo_report, judged_walk, stopped_run

HERE: Final = Path(__file__).parent
SAMPLE: Final = HERE.parents[1] / "examples" / "harbour.json"
JUDGE: Final = JudgeConfig(model="openai/golden", api_base="http://127.0.0.1:9/v1")
EVALUATORS: Final = (
    "answer_relevancy_sentence_similarity",
    "answer_semantic_sentence_similarity",
    "answer_semantic_similarity",
    "bleu",
    "classification",
    "context_relevancy_soft",
    "databricks.document_recall",
    "encoding_guardrail",
    "groundedness",
    "llamaindex.retrieval",
    "looping_detection",
    "pii_leakage",
    "rouge",
    "sensitive_data_leakage",
    "step_alignment",
    "text_matching",
    "valor.bleu",
    "valor.rouge",
)
"""Evaluators that need neither a judge nor weights, whatever a run takes by default."""

MODELS: Final = "(SELECT model_id, model_key FROM models)"
TABLES: Final = {
    "scores": """
        SELECT evaluator, metric, model_key,
            list(coalesce(reason, round(value, 9)::VARCHAR, status::VARCHAR) ORDER BY case_key) AS by_case
        FROM scores JOIN metrics USING (metric_id) JOIN evaluators USING (evaluator_id)
        JOIN rows USING (row_id) JOIN cases USING (case_id) JOIN models USING (model_id)
        GROUP BY ALL ORDER BY ALL""",
    "aggregates": f"""
        SELECT evaluator, metric, model_key, a.* EXCLUDE (metric_id, model_id)
        FROM aggregates a JOIN metrics USING (metric_id) JOIN evaluators USING (evaluator_id)
        JOIN {MODELS} USING (model_id) ORDER BY ALL""",
    "problems": f"""
        SELECT evaluator, metric, model_key, p.* EXCLUDE (evaluator_id, metric_id, model_id, kind, fault, harm)
        FROM problems p LEFT JOIN evaluators USING (evaluator_id) LEFT JOIN metrics m ON m.metric_id = p.metric_id
        LEFT JOIN {MODELS} d ON d.model_id = p.model_id ORDER BY problem_id""",
    "insights": f"""
        SELECT evaluator, metric, model_key, i.* EXCLUDE (evaluator_id, metric_id, model_id)
        FROM insights i LEFT JOIN evaluators USING (evaluator_id) LEFT JOIN metrics m ON m.metric_id = i.metric_id
        LEFT JOIN {MODELS} d ON d.model_id = i.model_id ORDER BY insight_id""",
}  # fmt: skip


def configurations() -> dict[str, str]:
    """Return the digest of each evaluator's configuration: default parameters, a judge and the offline embedder.

    Keys cover the versions of packages and of Python, which are the same for all machines here.
    """
    settings = Settings(embedder="offline", judges=(JUDGE,), splitter="rules")
    ours = {id_: kind for id_, kind in all_evaluators().items() if kind.spec.origin != CUSTOM}
    evaluators = [kind(kind.parameters.build(id_, {})) for id_, kind in ours.items()]
    package_version.cache_clear()
    installed = patch("leadline.evaluators.ground.packages.version", return_value="1")
    with installed, patch("platform.python_version", return_value="3"):
        found = {job.evaluator: job.error or job.config for job in make_jobs(evaluators, settings)}
    package_version.cache_clear()
    return found


def sample_run(folder: Path, policy: str = "sonar") -> dict[str, Any]:
    """Return the tables of the sample, and a digest of the keys of each evaluator's scores.

    Args:
        folder: The store.
        policy: The gate's policy; the seed's by default.
    """
    store = Store.open(str(folder))
    settings = Settings(embedder="offline", splitter="rules")
    choice = choose(None, EVALUATORS, {"classification": {"categories": ["classification"]}}, settings)
    loaded = load_dataset(store, str(SAMPLE))
    planned = pipeline.plan_run(
        store,
        loaded,
        choice,
        settings,
        model_keys=(),
        processes=1,
        config={"name": "Golden"},
        policy=load_policy(policy),
    )
    run = store.run(planned.run)
    for chunk in planned.chunks:
        score_chunk(chunk)
    pipeline.gather_scores(store, run)
    pipeline.aggregate_scores(store, run)
    pipeline.detect_flips(store, run)
    pipeline.detect_problems(store, run)
    pipeline.derive_insights(store, run)
    with open_run(store, run, read_only=True) as connection:
        tables = {name: _lines(connection, statement) for name, statement in TABLES.items()}
    return tables | {"keys": _keys(folder / "scores")}


def _lines(connection: duckdb.DuckDBPyConnection, statement: str) -> list[dict[str, Any]]:
    lines = connection.sql(statement).to_arrow_table().to_pylist()
    for line in lines:
        for name in ("attrs", "reasons"):
            if name in line:
                line[name] = json.loads(line[name])
    return json.loads(json.dumps(lines, default=str))  # type: ignore[no-any-return]


def _keys(scores: Path) -> dict[str, str]:
    """Return for each evaluator a digest of its keys, in order."""
    found = {}
    for folder in sorted(path for path in scores.iterdir() if any(path.rglob("*.parquet"))):
        statement = f"SELECT DISTINCT hex(key) FROM '{folder}/**/*.parquet' ORDER BY 1"
        keys = [key for (key,) in duckdb.execute(statement).fetchall()]
        found[folder.name] = f"{len(keys)} {hashlib.sha256(' '.join(keys).encode()).hexdigest()}"
    return found


def recorded(name: str) -> Any:
    """Return what was recorded."""
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def main() -> None:
    """Write the golden files anew, but for those that differ by the rounding of another processor at most."""
    with tempfile.TemporaryDirectory() as folder:
        found = sample_run(Path(folder)) | {"configurations": configurations()}
    for name, content in found.items():
        _write(name, content, _by_line)
    for name, content in (("prompts", prompts()), ("public_names", public_names())):
        _write(name, content, laid_out)
    for walk in (judged_walk, stopped_run, demo_report):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in walk(Path(folder)).items():
                _write(name, content, laid_out)


def _by_line(content: Any) -> str:
    lines = content.items() if isinstance(content, dict) else content
    opening, closing = ("{", "}") if isinstance(content, dict) else ("[", "]")
    texts = [
        f"{json.dumps(line[0])}: {json.dumps(line[1])}" if isinstance(line, tuple) else json.dumps(line)
        for line in lines
    ]
    return f"{opening}\n" + ",\n".join(texts) + f"\n{closing}"


def _write(name: str, content: Any, form: Callable[[Any], str]) -> None:
    file = HERE / f"{name}.json"
    file.parent.mkdir(exist_ok=True)
    if not file.exists() or not same(content, recorded(name)):
        file.write_text(f"{form(content)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
