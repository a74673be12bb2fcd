"""The tests of a marked function: its dataset's cases, the answer of each, the policy's lines, the gate.

Collecting loads the dataset into the store and chooses the evaluators, as a run does first; nothing is scored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from leadline.api.evaluation import Request, requested
from leadline.api.failure_text import AnswerTexts
from leadline.api.metric_choice import chosen_metrics
from leadline.evaluators.core import Evaluator, get
from leadline.evaluators.ground import one_line
from leadline.evaluators.ground.code_digest import code_digest
from leadline.tasks.db import attach_dataset, connect, sql
from leadline.tasks.ground.files import digest
from leadline.tasks.policy import policy_text
from leadline.tasks.policy.policy import Policy, Role, load_policy

LONGEST_NAME: Final = 80


@dataclass(frozen=True, slots=True)
class SuiteCheck:
    """One test of a suite.

    Attributes:
        suite: Key of the suite.
        kind: A case, a line of the policy, or the gate.
        name: The part of the test's name in brackets.
    """

    suite: str
    kind: Literal["case", "line", "gate"]
    name: str
    case: str = ""
    model: str = ""
    evaluator: str = ""
    metric: str = ""

    @property
    def calls_function(self) -> bool:
        """True if the marked function is run: for cases."""
        return self.kind == "case"


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of a marked function.

    Attributes:
        key: Digest of all that is evaluated and how: suites with one key share a run.
        settings: How it is evaluated, for :func:`leadline.evaluate`.
        checks: The tests in their order.
    """

    key: str
    data: Any
    settings: Mapping[str, Any]
    checks: tuple[SuiteCheck, ...]


def collect_suite(data: Any, settings: Mapping[str, Any], scratch: Path) -> Suite:
    """Return the tests of a dataset.

    Args:
        data: The dataset, as :func:`leadline.evaluate` takes it.
        settings: How it is evaluated; ``limits`` are limits by evaluator, beside those of the policy.
        scratch: A folder that stays until the evaluation ended.

    Raises:
        UsageError: There is no such setting, evaluator or policy.
        DatasetError: The dataset was refused.
    """
    given = {name: value for name, value in settings.items() if name != "limits"}
    if limits := settings.get("limits"):
        given["policy"] = _with_limits(given.get("policy"), limits, scratch)
    with requested(data, **given) as request:
        own = [kind.source_digest for kind in chosen_metrics(given.get("metrics", ())).own]
        own += [f"{model}:{code_digest(function).digest}" for model, function in request.targets.items()]
        config = request.config.model_dump(mode="json", exclude={"dataset", "policy"})
        key = digest([config, request.prepared.loaded.digest, request.prepared.policy.to_json(), own])[:16]
        return Suite(key, data, given, tuple(_checks(key, request)))


def located(data: Any, *folders: Path) -> Any:
    """Return a dataset that is named by a relative path as the file in the first folder that has it.

    Args:
        data: The dataset; what is no path is returned as it is.
    """
    if not isinstance(data, str | os.PathLike) or "://" in os.fspath(data):
        return data
    return next((found for folder in folders if (found := folder / os.fspath(data)).exists()), data)


def _with_limits(policy: str | os.PathLike[str] | None, limits: Mapping[str, float], scratch: Path) -> str:
    """Write the policy with other limits to a file, and return its path; a limit makes of information a check."""
    base = load_policy(None if policy is None else os.fspath(policy))
    rules: dict[str, dict[str, Any]] = {}
    for name, limit in limits.items():
        id_, _, metric = name.partition(":")
        evaluator = get(id_)()
        decided = base.rules_of(evaluator)
        key = metric or base.deciding(evaluator.metrics, decided)
        role = decided[key].role if key in decided else None
        weightier = {"role": Role.SHOULD.value, "proof": "mean"} if role is Role.INFORMATION else {}
        rules[f"{id_}:{key}"] = {"threshold": float(limit), **weightier}
    text = policy_text.as_toml(base.extended(rules))
    path = scratch / f"policy-{digest(text)[:12]}.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def _checks(key: str, request: Request) -> Iterator[SuiteCheck]:
    with connect(threads=1) as connection:
        attach_dataset(connection, request.prepared.loaded.path)
        if request.targets:
            cases = connection.execute("SELECT case_key FROM cases ORDER BY case_id").fetchall()
            answers = [(case, model) for (case,) in cases for model in request.targets]
        else:
            answers = connection.execute(sql("checks/answers")).fetchall()
    wanted = request.config.model_keys
    answers = [(case, model) for case, model in answers if not wanted or model in wanted]
    models = sorted({model for _, model in answers})
    several = len(models) > 1
    for case, model in answers:
        yield SuiteCheck(key, "case", _name(case, model if several else ""), case=case, model=model)
    for evaluator in request.prepared.applicable().evaluators:
        for metric in _blocking(evaluator, request.prepared.policy):
            for model in models:
                name = _name(f"policy:{_metric_name(evaluator, metric)}", model if several else "")
                yield SuiteCheck(key, "line", name, model=model, evaluator=evaluator.spec.id, metric=metric)
    yield SuiteCheck(key, "gate", "gate")


def _blocking(evaluator: Evaluator, policy: Policy) -> list[str]:
    return [key for key, rule in policy.rules_of(evaluator).items() if rule.role is not Role.INFORMATION]


def _metric_name(evaluator: Evaluator, metric: str) -> str:
    return evaluator.spec.id if len(evaluator.metrics) == 1 else f"{evaluator.spec.id}.{metric}"


def _name(what: str, model: str) -> str:
    """Return a name that fits a line, and is another one for every text."""
    line = one_line(f"{what}-{model}" if model else what)
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 9]}…{digest(line)[:8]}"


@dataclass(frozen=True, slots=True)
class AnswerUnderTest:
    """The answer that a marked test is about.

    Attributes:
        texts: Question, answer, expected answers, contexts and condition.
        scores: Value by ``evaluator.metric``, ``None`` where it is unscored or does not apply.
    """

    case: str
    model: str
    texts: AnswerTexts
    scores: Mapping[str, float | None]
    run: str

    @property
    def question(self) -> str | None:
        """The question."""
        return self.texts.question

    @property
    def answer(self) -> str | None:
        """The answer."""
        return self.texts.answer

    @property
    def expected(self) -> tuple[str, ...]:
        """The acceptable answers."""
        return self.texts.expected

    @property
    def context(self) -> tuple[str, ...]:
        """The retrieved texts in rank order."""
        return self.texts.context
