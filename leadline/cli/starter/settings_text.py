"""``leadline.toml`` for a file: only what differs from the defaults, and in comments what a user will change."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leadline.cli.starter.first_look import EXAMPLE_JUDGE, FirstLook, several
from leadline.tasks.ground.numbers import money
from leadline.tasks.load.field_names import normalized

if TYPE_CHECKING:
    from jinja2 import Template

_LISTED: Final = 20
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_ROLES: Final = {
    "must": "no answer may fail; tolerance_share = 0.05 tolerates 5 %",
    "should": "the model's value must meet the threshold",
}


def settings_text(look: FirstLook) -> str:
    """Return the text of ``leadline.toml``.

    Args:
        look: What is known of the file.
    """
    config, planned = look.config, look.plan
    asked = {column for columns in look.asked.values() for column in several(columns)}
    others = {column: field for column, field in planned.columns.items() if column not in asked}
    renamed = {column: field for column, field in others.items() if normalized(column) != normalized(field)}
    listed = [column for column in planned.metadata_columns if column not in asked]
    more = ", …" if len(listed) > _LISTED else ""
    cost = "" if look.judge_cost_usd is None else f", about {money(look.judge_cost_usd)}"
    return _template().render(
        file=toml(Path(config.dataset).name),
        suite=config.suite,
        purpose=look.purpose or "named for this file",
        evaluators=list(config.evaluators),
        running=list(look.running),
        format=config.format,
        model_name=config.model_name,
        judge=config.judges.model,
        example=EXAMPLE_JUDGE,
        judge_calls=look.judge_calls,
        cost=cost,
        priced=look.judge_cost_usd is not None,
        api_base=config.judges.api_base,
        asked=list(look.asked.items()),
        unsure=[(field, column) for column, field in others.items() if column in look.unsure],
        understood=[(field, column) for column, field in renamed.items() if column not in look.unsure],
        metadata=", ".join(map(toml, listed[:_LISTED])) + more,
        decisions=look.decisions,
        can_ask=look.can_ask,
        roles=_ROLES,
    )


def toml(value: object) -> str:
    """Return a text, or a list of texts, as TOML writes it on one line, whatever characters it has."""
    escaped = json.dumps(value, ensure_ascii=False)
    return re.sub(
        r"[\x7f-\x9f\u2028\u2029\ud800-\udfff]", lambda found: f"\\u{min(ord(found[0]), 0xFFFD):04x}", escaped
    )


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml(name)


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(  # noqa: S701 - TOML; the filters escape
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"toml": toml, "key": _key}
    return environment.get_template("starter.toml.jinja")
