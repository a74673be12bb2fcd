"""Failure clusters: what failing answers of a model have in common, in their questions and in the evaluators they fail.

Rows of original cases that fail some *must* or *should* metric of quality are clustered by the vectors of their
questions (of the embedder that the run used, else by their words) together with the metrics that they fail. Copies of
a case are left to the problems of perturbations, and privacy and fairness to the problems that name their rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leadline.evaluators.data import Severity
from leadline.evaluators.ground import count, listing, percent, quoted
from leadline.evaluators.models.vectors import text_digest
from leadline.evaluators.models.weights import identity_digest
from leadline.tasks.analyse.findings.finding import Finding, case_keys
from leadline.tasks.analyse.findings.root_causes import (
    WORDS,
    Cause,
    actions_for,
    count_causes,
    main_cause,
    root_causes,
)
from leadline.tasks.analyse.findings.severity import misses
from leadline.tasks.analyse.text_clusters import LEAST, clusters, distinctive_words, label_vectors, text_vectors
from leadline.tasks.db import records, sql
from leadline.tasks.policy.policy import Role
from leadline.tasks.statistics.statistics import fisher_exact

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.tasks.analyse.findings.finding import RunView

MOST_CLUSTERED: Final = 2000
"""Failing rows of a run that are clustered at most, shared out among its models."""
FEWEST_CLUSTERED: Final = 100
"""Failing rows of a model that are clustered at most, however many models there are."""
CENTRAL: Final = 3
"""Central cases that a cluster names."""
OF_OTHER_KINDS: Final = frozenset({"privacy", "fairness"})
"""Families whose failing rows have no root cause of the kinds that answers of poor quality have."""
SURE: Final = 0.002
"""Probability, over all clusters of a run, up to which a cluster fails more than other questions beyond chance. Since
clusters are looked for among the failures, chance makes a problem some five times as often: in 1 to 2 % of runs."""

_QUALITY: Final = f"""
    SELECT metric_id
    FROM rules
    JOIN metrics USING (metric_id)
    JOIN evaluators USING (evaluator_id)
    WHERE role <> 'information' AND family NOT IN ({", ".join(f"'{family}'" for family in sorted(OF_OTHER_KINDS))})
"""
_QUESTION_WEIGHT: Final = 0.7  # of the squared distance between rows; the metrics that they fail have the rest
_COHERENT: Final = {
    "embedding": 0.015,
    "words": 0.05,
}  # least mean silhouette of clusters, by what questions are seen by
_SHARED: Final = 0.5  # share of a cluster's rows from which on they fail a metric together


@dataclass(frozen=True, slots=True)
class Cluster:
    """Failing rows of a model that have things in common.

    Attributes:
        row_ids: The rows, the most central first.
        words: Words that set their questions apart from the model's other questions.
        metric_ids: Metrics that at least half of the rows fail.
        n_near: Rows of the model with questions like these.
        failing_near: Share of those that fail.
        failing_else: Share of the model's other rows that fail.
        chance: Probability of so many failures among questions like these if they failed like the others.
    """

    row_ids: tuple[int, ...]
    words: tuple[str, ...]
    metric_ids: tuple[int, ...]
    n_near: int
    failing_near: float
    failing_else: float
    chance: float


@dataclass(frozen=True, slots=True)
class Failures:
    """The failing rows of a model.

    Attributes:
        n_failing: Rows of original cases that fail some metric that counts.
        n_rows: Rows of original cases that were scored on one.
        n_looked_at: Failing rows that were clustered, all or a sample.
        seen_by: What questions were compared by: ``embedding`` or ``words``.
        clusters: The clusters, largest first.
    """

    n_failing: int = 0
    n_rows: int = 0
    n_looked_at: int = 0
    seen_by: str = "words"
    clusters: tuple[Cluster, ...] = ()


def explained(view: RunView, problem: Finding) -> Finding:
    """Return a problem of a model's failing rows with why they fail: their root causes, and the clusters they are in.

    A problem of a metric that is none of quality is returned as it is.
    """
    if problem.model_id is None or problem.evaluator_id is None or not problem.row_ids:
        return problem
    if view.evaluators[problem.evaluator_id]["family"] in OF_OTHER_KINDS:
        return problem
    causes, evidence = root_causes(view, problem.row_ids)
    grouped = _groups(view, problem.model_id, problem.row_ids)
    attrs: dict[str, Any] = {}
    if any(cause is not Cause.UNKNOWN for cause in causes):
        attrs |= {"root_causes": count_causes(causes), "root_cause_evidence": list(evidence)}
    if grouped:
        attrs["failure_clusters"] = grouped
    return replace(
        problem,
        description=" ".join(
            filter(None, [problem.description, _causes_in_words(causes), _clusters_in_words(grouped)])
        ),
        actions=actions_for(causes) or problem.actions,
        attrs={**problem.attrs, **attrs},
    )


def _groups(view: RunView, model_id: int, row_ids: Sequence[int]) -> list[dict[str, Any]]:
    """Return the model's clusters as far as they are made of some rows, unless one has all of these."""
    rows = set(row_ids)
    found = [
        (cluster, [row for row in cluster.row_ids if row in rows]) for cluster in failures(view, model_id).clusters
    ]
    parts = [(cluster, inside) for cluster, inside in found if LEAST <= len(inside) < len(rows)]
    keys = case_keys(view.connection, [row for _, inside in parts for row in inside])
    return [
        {
            "size": len(inside),
            "words": list(cluster.words),
            "central_cases": [keys[row] for row in inside[:CENTRAL]],
            "cases": [keys[row] for row in inside],
            "metric_ids": [view.metrics[metric_id]["metric"] for metric_id in cluster.metric_ids],
        }
        for cluster, inside in parts
    ]


def _causes_in_words(causes: Sequence[Cause]) -> str:
    counted = count_causes(causes)
    if set(counted) <= {Cause.UNKNOWN.value}:
        return ""
    parts = [f"{n:,} {WORDS[Cause(cause)]}" for cause, n in counted.items()]
    return f"Root causes of {count(len(causes), 'failing answer')}: {'; '.join(parts)}."


def _clusters_in_words(grouped: Sequence[Mapping[str, Any]]) -> str:
    """Return the groups of failing questions, each by its most central case and the words that set it apart."""
    named = [
        f"{each['size']:,} like case {quoted(each['central_cases'][0], most=60)[1:-1]} ({', '.join(each['words'])})"
        for each in grouped
        if each["words"]
    ]
    return f"What failing questions are about: {listing(named, most=4)}." if named else ""


def cluster_problems(view: RunView) -> Iterator[Finding]:
    """Yield a problem for each cluster of a model that fails beyond chance although the model's metrics hold.

    Where a metric that the cluster's rows fail has a problem of its own, that problem describes the cluster.
    """
    every = [(model_id, cluster) for model_id in view.models for cluster in failures(view, model_id).clusters]
    for model_id, cluster in every:
        covered = any(_has_problem(view, metric_id, model_id) for metric_id in cluster.metric_ids)
        if cluster.chance * len(every) <= SURE and not covered:
            yield _problem(view, model_id, cluster)


def without_slices(problems: Sequence[Finding]) -> list[Finding]:
    """Return problems without the clusters whose rows are mostly those of a slice that has a problem of its own."""
    slices = [(problem.model_id, set(problem.row_ids)) for problem in problems if problem.kind == "slice"]
    return [
        problem
        for problem in problems
        if problem.kind != "failure_cluster"
        or not any(
            model_id in (None, problem.model_id) and 2 * len(rows.intersection(problem.row_ids)) >= len(problem.row_ids)
            for model_id, rows in slices
        )
    ]


def _has_problem(view: RunView, metric_id: int, model_id: int) -> bool:
    aggregate = view.aggregates[metric_id, model_id]
    if view.role(metric_id) is Role.MUST:
        return True  # rows that fail it are named
    return misses(view.metrics[metric_id], aggregate)


def _problem(view: RunView, model_id: int, cluster: Cluster) -> Finding:
    found = failures(view, model_id)
    size = len(cluster.row_ids)
    causes, evidence = root_causes(view, cluster.row_ids)
    keys = case_keys(view.connection, cluster.row_ids[:CENTRAL])
    named = listing(quoted(keys[row], most=60)[1:-1] for row in cluster.row_ids[:CENTRAL])
    about = "questions like that of " + quoted(keys[cluster.row_ids[0]], most=60)[1:-1]
    if cluster.words:
        about = f'questions about "{", ".join(cluster.words)}"'
    metrics = [view.metrics[metric_id] for metric_id in cluster.metric_ids]
    checks = (
        listing(dict.fromkeys(view.evaluator_name(metric["evaluator_id"]) for metric in metrics)) if metrics else ""
    )
    sample = "" if found.n_looked_at == found.n_failing else f" of a sample of {found.n_looked_at:,}"
    parts = [
        f"Model {quoted(view.model_name(model_id))} fails on {about}: {percent(cluster.failing_near)} of "
        f"{count(cluster.n_near, 'such answer')} are bad, of its others {percent(cluster.failing_else)}.",
        f"The cluster has {count(size, 'failing answer')}, {percent(size / max(1, found.n_looked_at))} of those of the "
        f"model{sample}; the most central cases are {named}.",
        f"They fail {checks}." if checks else "",
        _causes_in_words(causes),
    ]
    weight = max((view.rules[metric_id]["weight"] for metric_id in cluster.metric_ids), default=1.0)
    single = metrics[0] if len(metrics) == 1 else None
    return Finding(
        type="accuracy",
        kind="failure_cluster",
        severity=Severity.MEDIUM,
        fault="data" if main_cause(causes) is Cause.REFERENCE else "model",
        harm=weight * size / max(1, found.n_looked_at) * found.n_failing / max(1, found.n_rows),
        evaluator_id=single["evaluator_id"] if single else None,
        metric_id=single["metric_id"] if single else None,
        model_id=model_id,
        description=" ".join(filter(None, parts)),
        actions=actions_for(causes)
        or "Read the cases named: they share a topic. See what the documents and the "
        "prompt say of it, and add cases of this topic.",
        attrs=view.attrs(
            model_id=model_id,
            avid="P0200",
            size=size,
            share_of_failures=size / max(1, found.n_looked_at),
            words=list(cluster.words),
            central_cases=[keys[row] for row in cluster.row_ids[:CENTRAL]],
            metric_ids=[metric["metric"] for metric in metrics],
            n_near=cluster.n_near,
            failing_near=cluster.failing_near,
            failing_else=cluster.failing_else,
            chance=cluster.chance,
            root_causes=count_causes(causes),
            root_cause_evidence=list(evidence),
            compared_by=found.seen_by,
        ),
        row_ids=cluster.row_ids,
    )


def failures(view: RunView, model_id: int) -> Failures:
    """Return the failing rows of a model and their clusters; computed for all models when first asked for."""
    if "failures" not in view.computed:
        view.computed["failures"] = _failures(view)
    return view.computed["failures"].get(model_id, Failures())  # type: ignore[no-any-return]


def _failures(view: RunView) -> dict[int, Failures]:
    most = max(FEWEST_CLUSTERED, MOST_CLUSTERED // max(1, len(view.models)))
    lines = records(view.connection, sql("problems/failures").format(most=most, quality=_QUALITY))
    drawn = records(
        view.connection,
        sql("problems/drawn_rows").format(quality=_QUALITY),
        [[row for line in lines for row in (*line["failing"], *line["passing"])]],
    )
    by_row = {line["row_id"]: line for line in drawn}
    embedded = _embedded(view, [row["question"] or "" for row in drawn])
    return {line["model_id"]: _of_model(line, by_row, embedded) for line in lines if line["n_failing"]}


def _of_model(
    line: Mapping[str, Any], by_row: Mapping[int, Mapping[str, Any]], embedded: Sequence[Mapping[bytes, Any]]
) -> Failures:
    failing, passing = [[by_row[row] for row in line[name]] for name in ("failing", "passing")]
    questions = [row["question"] or "" for row in (*failing, *passing)]
    vectors, seen_by = _question_vectors(questions, embedded)
    bad, good = vectors[: len(failing)], vectors[len(failing) :]
    labels = label_vectors([row["metrics"] for row in failing])
    points = np.hstack([bad * _QUESTION_WEIGHT**0.5, labels * (1 - _QUESTION_WEIGHT) ** 0.5])
    sampling = (line["n_failing"] / len(failing), (line["n_rows"] - line["n_failing"]) / max(1, len(passing)))
    found = []
    for members in clusters(points, least=_COHERENT[seen_by]):
        inside = set(members)
        texts = [questions[place] for place in members]
        others = [text for place, text in enumerate(questions) if place not in inside]
        counted = Counter(metric for place in members for metric in failing[place]["metrics"])
        found.append(
            Cluster(
                row_ids=tuple(failing[place]["row_id"] for place in members),
                words=tuple(distinctive_words(texts, others)),
                metric_ids=tuple(sorted(metric for metric, n in counted.items() if n >= _SHARED * len(members))),
                **over_represented(bad, good, members, sampling),
            )
        )
    return Failures(line["n_failing"], line["n_rows"], len(failing), seen_by, tuple(found))


def over_represented(
    bad: npt.NDArray[np.float64], good: npt.NDArray[np.float64], members: Sequence[int], sampling: tuple[float, float]
) -> dict[str, Any]:
    """Return how often questions near a cluster fail, against the others (Fisher's exact test).

    Near is what is as close to the cluster's centre as half of its members are, each seen from the centre of the other
    members: else a cluster would be near to itself by construction.

    Args:
        bad: Vectors of the questions of failing rows.
        good: Vectors of the questions of passing rows.
        members: Places of the cluster's rows in ``bad``.
        sampling: Rows that each failing and each passing row stands for.
    """
    inside = np.zeros(len(bad), dtype=bool)
    inside[list(members)] = True
    total = bad[inside].sum(axis=0)
    own = _cosines(bad[inside], total - bad[inside])
    radius = np.median(own)
    bad_near = int((own >= radius).sum() + (_cosines(bad[~inside], total) >= radius).sum())
    good_near = int((_cosines(good, total) >= radius).sum())
    near, n_near = _share((bad_near, good_near), sampling)
    other, _ = _share((len(bad) - bad_near, len(good) - good_near), sampling)
    return {
        "n_near": n_near,
        "failing_near": near,
        "failing_else": other,
        "chance": fisher_exact(bad_near, bad_near + good_near, len(bad), len(bad) + len(good)),
    }


def _cosines(vectors: npt.NDArray[np.float64], centre: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(np.atleast_2d(centre), axis=1)
    cosines = np.divide((vectors * centre).sum(axis=1), lengths, out=np.zeros(len(vectors)), where=lengths > 1e-12)
    return np.asarray(cosines.round(9))  # so that equal questions are equally near


def _share(row: Sequence[int], sampling: tuple[float, float]) -> tuple[float, int]:
    failing, passing = (n * each for n, each in zip(row, sampling, strict=True))
    return failing / max(1.0, failing + passing), round(failing + passing)


def _embedded(view: RunView, questions: Sequence[str]) -> list[Mapping[bytes, Any]]:
    """Return by each embedding model of this run the embeddings of questions that it has, by digest."""
    digests = [text_digest(question) for question in questions]
    return [view.vectors.get(model, digests) for model in _embedders(view)] if view.vectors else []


def _question_vectors(
    questions: Sequence[str], embedded: Sequence[Mapping[bytes, Any]]
) -> tuple[npt.NDArray[np.float64], str]:
    """Return vectors of questions, and what they are: the embeddings of this run if it has all of them, else words."""
    digests = [text_digest(question) for question in questions]
    for found in embedded:
        if all(digest in found for digest in digests):
            return np.array([found[digest] for digest in digests], dtype=np.float64), "embedding"
    return text_vectors(questions), "words"


def _embedders(view: RunView) -> list[str]:
    """Return the digests of the embedding models that this run used."""
    models = [model for each in view.evaluators.values() for model in each["identity"].get("models", ())]
    return list(dict.fromkeys(identity_digest(model) for model in models if model.get("kind") == "embedder"))
