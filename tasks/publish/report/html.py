"""``report.html``: one file that needs nothing else, and may run its own script and nothing more."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from leadline.tasks.publish.exports.leaderboards import standings
from leadline.tasks.publish.report.charts import distributions, heat_row
from leadline.tasks.publish.report.details_page import page_details
from leadline.tasks.publish.report.page_data import PageData
from leadline.tasks.publish.spending import made_again, spending
from leadline.tasks.publish.templating import render, visible
from leadline.tasks.publish.views import EvaluatorView, Facts

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SCRIPTS: Final = ("dom.js", "data.js", "cases.js", "findings.js", "page.js")


@cache
def _part(name: str) -> str:
    return (files("leadline.tasks.publish") / "templates" / "report" / name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    parts = "\n".join(_part(name) for name in _SCRIPTS)
    return f"'use strict';\n(() => {{\n{parts}\n}})();\n"


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def content_policy() -> str:
    """Return the page's Content-Security-Policy: its own script and style by their hashes, no network at all."""
    return (
        f"default-src 'none'; script-src {_hash(_script())}; style-src {_hash(_part('style.css'))}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def write_html(connection: DuckDBPyConnection, facts: Facts, data: PageData, path: Path) -> None:
    """Write the page.

    Args:
        connection: The run's database.
        facts: What the run found.
        data: The single cases that the page holds.
        path: The file.
    """
    models = {model.id: position for position, model in enumerate(facts.models)}
    evaluators = {evaluator.id: position for position, evaluator in enumerate(facts.evaluators)}
    page = render(
        "report/report.html",
        facts=facts,
        data=data,
        packed=Markup(data.packed),  # noqa: S704 - base64
        policy=content_policy(),
        style=Markup(_part("style.css")),  # noqa: S704 - our own file
        script=Markup(_script()),  # noqa: S704 - our own files
        heat={metric.id: heat_row(facts, metric) for evaluator in facts.evaluators for metric in evaluator.metrics},
        distributions=distributions(connection, facts),
        details=page_details(connection, facts),
        standings={evaluator.id: standings(facts, evaluator) for evaluator in facts.evaluators},
        boards=[evaluator for evaluator in facts.evaluators if evaluator.board == "bool" and evaluator.primary],
        position={"model": models, "evaluator": evaluators},
        weights=_weights(facts),
        spending=spending(facts.record),
        made_again=made_again(facts.record),
        pretty=_pretty,
        chosen=_chosen,
        odd=[(e, m) for e in facts.evaluators for m in e.metrics if m.primary and (m.unreachable or m.idle)],
        primary_flips=[rate for rate in facts.flip_rates if (m := facts.metric(rate.metric_id)) and m.primary],
        flip_total=sum(rate.n_pairs for rate in facts.flip_rates if not rate.perturbation),
    )
    path.write_text(page, encoding="utf-8", newline="\n")


def _weights(facts: Facts) -> list[tuple[str, str]]:
    """Return the models that made numbers, each with the evaluators that used it."""
    used: dict[str, list[str]] = {}
    for evaluator in facts.evaluators:
        for model in _models_of(evaluator):
            used.setdefault(model, []).append(evaluator.short)
    return [(model, ", ".join(names)) for model, names in used.items()]


def _models_of(evaluator: EvaluatorView) -> list[str]:
    found = evaluator.identity.get("models")
    return [_pretty(model) for model in found] if isinstance(found, list) else []


def _chosen(params: Mapping[str, Any]) -> str:
    """Return the parameters, without those that every evaluator has and that were left as they are."""
    usual = {"save_llm_result": True, "min_test_cases": 0}
    return _pretty({name: value for name, value in params.items() if usual.get(name) != value})


def _pretty(value: Any) -> str:
    """Return JSON as a reader wants it: ``name: value`` pairs without braces at the top."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_pretty(item)}" for name, item in value.items() if item not in (None, "", [], {}))
    if isinstance(value, list):
        return ", ".join(_pretty(item) for item in value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return visible(re.sub(r"\s+", " ", text))[:600]
