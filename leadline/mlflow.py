"""The bridge to MLflow: results become its runs, and evaluators scorers of ``mlflow.genai``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from leadline.api.answer_scorer import AnswerScorer, answer_scorer, context_chunks
from leadline.api.metric_choice import Metrics
from leadline.evaluators.data import ContextChunk, Row
from leadline.evaluators.ground import ErrorCode, UsageError
from leadline.tasks.load.columns import names_of, normalized
from leadline.tasks.runs.lookup import find_run
from leadline.tasks.runs.show import overview
from leadline.tasks.store.store import Run, Store

if TYPE_CHECKING:
    from mlflow.entities import Feedback
    from mlflow.genai.scorers import Scorer

    from leadline.api.result import Result


__all__ = ["log", "scorer"]


_FACTS: Final = "expected_facts"
_RETRIEVER: Final = "RETRIEVER"


def scorer(metric: Metrics, *, name: str = "", judge: Any = None, **settings: Any) -> Scorer:
    """Return an evaluator as a scorer of MLflow, whose values have a rationale and whether they pass.

    Question, answer, contexts and expectation are looked for in ``inputs``, ``outputs`` and ``expectations`` under the
    names that datasets use for them; contexts also in the trace's spans of retrievers. An answer that cannot be
    measured gets feedback with an error; one that lacks an input gets none.

    Args:
        metric: An id, an id with one of its metrics (``bleu:bleu_2``), ``leadline.metrics.…``, a class, or a function.
        name: Name of the assessment. Default: the evaluator's id.
        judge: The judge, as :func:`leadline.evaluate` takes it.
        **settings: Further settings of :func:`~leadline.api.answer_scorer.answer_scorer`.

    Raises:
        UsageError: MLflow is not installed, or there is no such metric, judge or setting.
    """
    try:
        from mlflow.genai.scorers import scorer
    except ImportError:
        raise missing_mlflow() from None
    own = answer_scorer(metric, judge=judge, **settings)
    called = name or own.name.replace(".", "_")

    def score(inputs: Any = None, outputs: Any = None, expectations: Any = None, trace: Any = None) -> Feedback | None:
        return _feedback(own, called, _row(inputs, outputs, expectations, trace))

    made: Scorer = scorer(score, name=called, description=own.metric.description or own.evaluator.spec.name)
    return made


def missing_mlflow() -> UsageError:
    """Return the error of a bridge whose library is not here."""
    return UsageError(
        "This needs the package mlflow, version 3 or newer.",
        hint="Install it: pip install 'mlflow>=3'",
        code=ErrorCode.CONFIG_PACKAGE,
    )


def _feedback(own: AnswerScorer, name: str, row: Row) -> Feedback | None:
    from mlflow.entities import AssessmentError, AssessmentSource, Feedback

    found = own.score(row)
    if found.state == "not_applicable":
        return None
    source = AssessmentSource(
        source_type="LLM_JUDGE" if own.evaluator.spec.judge else "CODE", source_id=f"leadline/{own.name}"
    )
    if found.value is None:
        code, _, message = found.reason.partition(": ")
        return Feedback(name=name, error=AssessmentError(code.upper(), message or None), source=source)
    about = {f"leadline.{key}": f"{value:.6g}" for key, value in found.values.items()}
    if found.passes is not None:
        about["leadline.passes"] = str(found.passes).lower()
    return Feedback(name=name, value=found.value, rationale=found.explanation or None, source=source, metadata=about)


def _row(inputs: Any, outputs: Any, expectations: Any, trace: Any) -> Row:
    expected = _text(expectations, "expected_answer") or _text(expectations, "actual_answer")
    facts = expectations.get(_FACTS) if isinstance(expectations, Mapping) else None
    several = facts if isinstance(facts, Sequence) and not isinstance(facts, str) else ()
    context = context_chunks(_named(outputs, "retrieved_context") or _named(inputs, "retrieved_context"))
    return Row(
        case="answer",
        model="answer",
        question=_question(inputs),
        expected_answers=(expected,) if expected is not None else tuple(map(str, several)),
        retrieved_context=context or tuple(_retrieved(trace)),
        actual_answer=_text(outputs, "actual_answer"),
    )


def _question(inputs: Any) -> str | None:
    found = _text(inputs, "question")
    if found is None and isinstance(inputs, Mapping) and len(inputs) == 1:
        [only] = inputs.values()
        found = only if isinstance(only, str) else None
    return found


def _text(holder: Any, field: str) -> str | None:
    """Return the text of a field: the whole if that is a text, else a member with one of the field's names."""
    found = _named(holder, field) if isinstance(holder, Mapping) else holder
    if isinstance(found, Sequence) and not isinstance(found, str):
        messages = [each for each in found if isinstance(each, Mapping) and isinstance(each.get("content"), str)]
        wanted = [each for each in messages if (each.get("role") == "user") == (field == "question")]
        found = wanted[-1]["content"] if wanted else None
    return found if isinstance(found, str) else None


def _named(holder: Any, field: str) -> Any:
    if not isinstance(holder, Mapping):
        return None
    known = {normalized(str(name)): value for name, value in holder.items() if value is not None}
    clear, weak = names_of(field)
    return next((known[key] for name in (*clear, *weak) if (key := normalized(name)) in known), None)


def _retrieved(trace: Any) -> Iterator[ContextChunk]:
    """Yield what the retrievers of a trace found, in the order of their spans."""
    if trace is None:
        return
    for span in trace.search_spans(span_type=_RETRIEVER):
        yield from context_chunks(span.outputs)


FILES: Final = ("report.html", "report.md", "report.json", "problems.csv", "aggregates.csv", "junit.xml")
"""Files of results that are logged as artifacts, as far as a run has them."""

MOST_VALUE: Final = 6_000
"""Characters of a parameter that MLflow takes."""

_REFUSED: Final = re.compile(r"[^\w\-. :/]")
_COUNTS: Final = ("rows", "cases", "scored", "unscored", "not_applicable", "seconds")


def log(
    result: Result | str, *, store: Any = None, experiment: str = "", prefix: str = "", artifacts: bool = True
) -> str:
    """Log a result as a run of MLflow, in the active run if there is one.

    Metrics are the means of every evaluator and model, as ``EVALUATOR.METRIC`` where there is one model and
    ``MODEL/EVALUATOR.METRIC`` where there are several, each with ``.ci_low``, ``.ci_high`` and ``.coverage``; problems
    by severity; counts and seconds. The gate is the tag ``leadline.gate``, with its reason beside it.

    Args:
        result: What :func:`leadline.evaluate` returned, or a run by its name.
        store: The store of a run that is named. Default: ``$LEADLINE_STORE`` or ``./.leadline``.
        experiment: MLflow's experiment; the active one by default.
        prefix: Stands before the name of each metric.
        artifacts: Whether to log the report and the tables, below ``leadline/``.

    Returns:
        The id of MLflow's run.

    Raises:
        UsageError: MLflow is not installed, or there is no such run.
    """
    try:
        import mlflow
    except ImportError:
        raise missing_mlflow() from None
    place, run = _found(result, store)
    found = overview(place, run)
    if experiment:
        mlflow.set_experiment(experiment)
    active = mlflow.active_run()
    name = str(found["name"] or found["dataset_name"] or run.id)
    with nullcontext(active) if active else mlflow.start_run(run_name=name) as logged:
        mlflow.log_metrics({f"{prefix}{key}": value for key, value in metrics_of(found).items()})
        mlflow.log_params(params_of(found))
        mlflow.set_tags(tags_of(found))
        for file in FILES if artifacts else ():
            path = run.results / file
            if path.is_file():
                mlflow.log_artifact(str(path), "leadline")
        return str(logged.info.run_id)


def _found(result: Result | str, store: Any) -> tuple[Store, Run]:
    if not isinstance(result, str):
        return result.store, result.store.run(result.run)
    place = store if isinstance(store, Store) else Store.open(store)
    return place, find_run(place, result)


def metrics_of(found: Mapping[str, Any]) -> dict[str, float]:
    """Return a run's numbers by the names that MLflow gets."""
    several = len({line["model"] for line in found["board"]}) > 1
    numbers: dict[str, float | None] = {}
    for line in found["board"]:
        key = f"{line['evaluator']}.{line['metric']}"
        name = f"{line['model']}/{key}" if several else key
        measured = line["n_scored"] + line["n_unscored"]
        numbers[name] = line["value"]
        numbers[f"{name}.ci_low"], numbers[f"{name}.ci_high"] = line["ci_low"], line["ci_high"]
        numbers[f"{name}.coverage"] = line["n_scored"] / measured if measured else None
    numbers |= {f"leadline.{name}": found[name] for name in _COUNTS}
    by_fault = found["record"].get("problems_by_fault") or {}
    for whose, counts in by_fault.items():
        numbers |= {f"leadline.problems.{whose}.{severity}": number for severity, number in counts.items()}
    return {_name(key): float(value) for key, value in numbers.items() if value is not None and math.isfinite(value)}


def params_of(found: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run was asked for, as MLflow's parameters."""
    requested = found["record"].get("config") or {}
    judges = requested.get("judges") or {}
    known = {
        "dataset": found["dataset_name"],
        "dataset_digest": found["dataset"],
        "models": ", ".join(found["record"].get("models") or ()),
        "evaluators": ", ".join(sorted({line["evaluator"] for line in found["board"]})),
        "policy": requested.get("policy"),
        "judge": judges.get("model"),
    }
    return {f"leadline.{name}": str(value)[:MOST_VALUE] for name, value in known.items() if value}


def tags_of(found: Mapping[str, Any]) -> dict[str, str]:
    """Return a run's verdict and where it is, as MLflow's tags."""
    known = {"run": found["run"], "gate": found["gate"], "gate_reason": found["gate_reason"], "report": found["report"]}
    return {f"leadline.{name}": str(value)[:MOST_VALUE] for name, value in known.items() if value}


def _name(key: str) -> str:
    return _REFUSED.sub("_", key)[:250]
