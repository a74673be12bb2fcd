"""Problems of the dataset: inputs that are missing, hosts that failed, costs that cannot be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from leadline.evaluators.data import RowField, Severity
from leadline.evaluators.ground import count, listing, nouns, number, quoted
from leadline.tasks.analyse.findings.finding import MOST_ROWS, Finding, RunView
from leadline.tasks.analyse.findings.severity import by_coverage
from leadline.tasks.db import digests_of, records, sql


class Missing(NamedTuple):
    """The name of an input, and the severity when every row or some rows lack it."""

    name: str
    all: Severity
    some: Severity


FIELDS: Final[Mapping[RowField, Missing]] = {
    RowField.QUESTION: Missing("question", Severity.HIGH, Severity.MEDIUM),
    RowField.EXPECTED_ANSWER: Missing("expected answer", Severity.HIGH, Severity.MEDIUM),
    RowField.ACTUAL_ANSWER: Missing("actual answer", Severity.HIGH, Severity.HIGH),
    RowField.RETRIEVED_CONTEXT: Missing("retrieved context", Severity.HIGH, Severity.MEDIUM),
    RowField.RETRIEVED_DOCUMENTS: Missing("retrieved document", Severity.MEDIUM, Severity.LOW),
    RowField.EXPECTED_DOCUMENTS: Missing("expected document", Severity.MEDIUM, Severity.LOW),
    RowField.CONDITION: Missing("condition", Severity.MEDIUM, Severity.LOW),
    RowField.EXPECTED_ANNOTATIONS: Missing("expected annotations", Severity.HIGH, Severity.MEDIUM),
    RowField.PREDICTED_ANNOTATIONS: Missing("predicted annotations", Severity.HIGH, Severity.HIGH),
}
_OF_RAG: Final = frozenset({RowField.RETRIEVED_CONTEXT, RowField.RETRIEVED_DOCUMENTS})


def missing_input_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each input that some evaluator of the run needs and rows lack.

    A model of which no row has a context is no RAG system and lacks none, unless all models are like that: then
    evaluators of retrieval have nothing to do, which is a note of low severity. Under a policy that groups problems,
    the inputs that only some rows lack are one note.
    """
    found = [
        problem
        for field, missing in FIELDS.items()
        if (needing := [id_ for id_ in view.evaluators if field in view.required(id_)])
        and (problem := _missing(view, field, missing, needing))
    ]
    if view.policy.problems == "seed":
        yield from found
        return
    some = [problem for problem in found if problem.attrs["n_missing"] < problem.attrs["n_rows"]]
    yield from (problem for problem in found if problem not in some)
    if some:
        yield _some_missing(view, some)


def _some_missing(view: RunView, found: Sequence[Finding]) -> Finding:
    """Return one note for all inputs that only some rows lack: such rows are usually of another kind, not broken."""
    parts = [
        f"{FIELDS[RowField(problem.attrs['field'])].name} {problem.attrs['n_missing']:,} of "
        f"{count(problem.attrs['n_rows'], 'row')}"
        for problem in found
    ]
    names = list(dict.fromkeys(name for problem in found for name in problem.attrs["evaluator_names"]))
    severe = any(problem.severity is Severity.HIGH for problem in found)
    rows = dict.fromkeys(row for problem in found for row in problem.row_ids)
    return view.finding(
        type="dataset",
        kind="missing_input",
        severity=Severity.HIGH if severe else Severity.LOW,
        fault="data",
        description=f"Some rows lack an input, and the evaluators that need it do not score them: {listing(parts)}.",
        actions="If these rows are of another kind, there is nothing to do. Else complete the dataset.",
        row_ids=list(rows)[:MOST_ROWS],
        evaluator_names=names,
        evaluator_ids=list(dict.fromkeys(id_ for problem in found for id_ in problem.attrs["evaluator_ids"])),
        fields=[problem.attrs["field"] for problem in found],
        missing={problem.attrs["field"]: problem.attrs["n_missing"] for problem in found},
        avid="P0100",
    )


def _missing(view: RunView, field: RowField, missing: Missing, needing: Sequence[int]) -> Finding | None:
    lines = [
        line
        for line in records(view.connection, sql("problems/missing_input").format(field=field.value, most=MOST_ROWS))
        if line["model_id"] in view.models
    ]
    rag = [line for line in lines if view.models[line["model_id"]]["is_rag"]]
    no_rag = field in _OF_RAG and not rag
    concerned = rag if field in _OF_RAG and rag else lines
    n, n_rows = sum(line["n"] for line in concerned), sum(line["n_rows"] for line in concerned)
    if not n:
        return None
    names = [view.evaluator_name(evaluator_id) for evaluator_id in needing]
    everywhere = n == n_rows
    if everywhere:
        text = f"No row has {_article(missing.name)}: {listing(names)} had nothing to measure."
        severity = Severity.LOW if no_rag else missing.all
    else:
        cases = max(line["n_cases"] for line in concerned)
        text = (
            f"{n:,} of {count(n_rows, 'row')} ({count(cases, 'test case')}) have no {missing.name}: "
            f"{listing(names)} left them out."
        )
        severity = missing.some
    models = [line["model_id"] for line in concerned if line["n"]]
    return Finding(
        type="dataset",
        kind="missing_input",
        severity=severity,
        fault="data",
        evaluator_id=needing[0] if len(needing) == 1 else None,
        model_id=models[0] if len(models) == 1 and len(view.models) > 1 else None,
        description=text,
        actions=f"Add the {missing.name} to the dataset, or leave out the evaluators that need it.",
        attrs=view.attrs(
            **view.several(needing),
            field=field.value,
            model_names=[view.model_name(model_id) for model_id in models],
            n_missing=n,
            n_rows=n_rows,
            avid="P0100",
        ),
        row_ids=[] if everywhere else sorted(row for line in concerned for row in line["row_ids"])[:MOST_ROWS],
    )


def _article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def inapplicable_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each evaluator that no row fits although no single input is missing everywhere.

    An evaluator that nobody named and that looks for what no row has, such as encoded parts, is no problem.
    """
    for evaluator_id in view.evaluators:
        spec, metric = view.spec(evaluator_id), view.primary(evaluator_id)
        if spec is None or metric is None:
            continue
        own = [line for (metric_id, _), line in view.aggregates.items() if metric_id == metric["metric_id"]]
        required = view.required(evaluator_id)
        if not own or any(line["n_scored"] or line["n_unscored"] for line in own) or _lacks_one(view, required):
            continue
        name = view.evaluator_name(evaluator_id)
        if _some_row_has(view, required):
            if not view.rules[metric["metric_id"]]["named"]:
                continue
            severity = Severity.LOW
            text = f"{name} measured nothing: no row is of the kind that it is for."
            actions = f"See `leadline evaluators show {spec.id}` for what it looks for, or leave it out."
        else:
            severity = Severity.HIGH
            inputs = listing([FIELDS[field].name if field in FIELDS else field.value for field in required])
            text = f"{name} measured nothing: no row has all it needs ({inputs})."
            actions = "Complete the rows of the dataset, or leave out this evaluator."
        yield view.finding(
            type="dataset",
            kind="measured_nothing",
            severity=severity,
            fault="data",
            description=text,
            actions=actions,
            evaluator_id=evaluator_id,
            fields=[field.value for field in required],
            avid="P0100",
        )


def _lacks_one(view: RunView, required: Sequence[RowField]) -> bool:
    """Return whether some required input is missing from every row."""
    return not all(_some_row_has(view, [field]) for field in required)


def _some_row_has(view: RunView, fields: Sequence[RowField]) -> bool:
    """Return whether there is a row with all of some inputs."""
    present = " AND ".join(f"{field.value} IS NOT NULL" for field in fields) or "true"
    found = f"(FROM {digests_of(fields)} WHERE {present})"
    statement = f"SELECT count(*) FROM rows SEMI JOIN {found} USING (row_id) WHERE model_id IN (SELECT unnest(?))"
    return bool(view.connection.execute(statement, [list(view.models)]).fetchall()[0][0])


def host_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each model whose host returned errors instead of answers.

    Under a policy that groups problems it weighs as much as the coverage that is lost.
    """
    seed = view.policy.problems == "seed"
    for line in records(view.connection, sql("problems/host_errors").format(most=MOST_ROWS)):
        model_id = line["model_id"]
        if model_id not in view.models:
            continue
        yield view.finding(
            type="dataset",
            kind="host_errors",
            severity=Severity.HIGH if seed else by_coverage(1 - line["n"] / line["n_rows"]),
            fault="data",
            description=f"{line['n']:,} of {count(line['n_rows'], 'row')} of model {view.model_name(model_id)} "
            f"{'hold' if seed else nouns(line['n'], 'has', 'have')} an error of its host instead of an answer. "
            "They are left out of every mean. "
            f"Commonest: {quoted(line['message'], most=300)}",
            actions="Ask the model again for these rows, then run again: only they are computed.",
            row_ids=line["row_ids"],
            model_id=model_id,
            n_errors=line["n"],
            n_rows=line["n_rows"],
            message=line["message"],
            avid="P0100",
        )


def cost_problems(view: RunView) -> Iterator[Finding]:
    """Yield a note for each model with negative costs, which count as 0."""
    for line in records(view.connection, sql("problems/negative_costs").format(most=MOST_ROWS)):
        model_id = line["model_id"]
        if model_id not in view.models:
            continue
        yield view.finding(
            type="cost",
            kind="negative_cost",
            severity=Severity.LOW,
            fault="data",
            description=f"{count(line['n'], 'row')} of model {view.model_name(model_id)} with a negative cost (down to "
            f"{number(line['lowest'])} USD) count as 0.",
            actions="Correct the costs in the dataset.",
            row_ids=line["row_ids"],
            model_id=model_id,
            n_rows=line["n"],
            cost=line["lowest"],
            avid="P0100",
        )
