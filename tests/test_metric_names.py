"""``leadline.metrics``: a name for every evaluator, at run time and for editors."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import get_type_hints

import pytest

import leadline
from docs.build import metrics_stub
from leadline.api.evaluation import evaluate
from leadline.api.settings import AcceptedSettings
from leadline.evaluators.core import all_evaluators
from leadline.evaluators.ground import UsageError
from leadline.flows.evaluate.config import EvaluateConfig

STUB = Path(leadline.__file__).with_name("metrics.pyi")


def test_the_stub_is_what_make_docs_writes() -> None:
    assert STUB.read_text(encoding="utf-8") == metrics_stub()


def test_the_stub_is_python_and_has_every_evaluator() -> None:
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    alone = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    families = {
        f"{node.name}.{inner.name}".removeprefix("_").removesuffix(".__call__")
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for inner in node.body
        if isinstance(inner, ast.FunctionDef)
    }
    built_in = {id_ for id_, kind in all_evaluators().items() if kind.__module__.startswith("leadline.evaluators.")}
    assert alone | families == built_in


@pytest.mark.parametrize("id_", [id_ for id_, kind in all_evaluators().items() if "#" not in id_])
def test_every_evaluator_is_chosen_by_its_name(id_: str) -> None:
    choose = leadline.metrics
    for part in id_.split("."):
        assert part in dir(choose)
        choose = getattr(choose, part)
    signature = inspect.signature(choose)  # type: ignore[arg-type]
    assert {*signature.parameters} == {*all_evaluators()[id_].parameters.model_fields, "name"}
    assert choose() == leadline.MetricChoice(id_)  # type: ignore[operator]
    assert choose.__doc__


def test_parameters_are_checked_where_they_are_written() -> None:
    assert repr(leadline.metrics.bleu(metric_threshold=0.4, name="mild")) == (
        "leadline.metrics.bleu(metric_threshold=0.4, name='mild')"
    )
    with pytest.raises(UsageError, match=r"bleu\.n: there is no such parameter"):
        leadline.metrics.bleu(n=2)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match=r"no evaluator called 'blue'\. Did you mean bleu"):
        _ = leadline.metrics.blue  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no evaluator called 'valor\.blue'"):
        _ = leadline.metrics.valor.blue  # type: ignore[attr-defined]


def test_editors_know_all_settings() -> None:
    named = set(inspect.signature(evaluate).parameters)
    assert set(get_type_hints(AcceptedSettings)) == set(EvaluateConfig.model_fields) - named - {"dataset"}
