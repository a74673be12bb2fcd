"""Targets and output of collecting, without Prefect, so that a command can check them before a server is up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leadline.evaluators.judge_client.budget import Limits
from leadline.flows.collect.config import CollectConfig
from leadline.flows.shared.judge_access import limits_for
from leadline.flows.shared.output_files import output_file
from leadline.tasks.collect import Target, find_targets
from leadline.tasks.plan.prices import require_model_price


def targets_of(config: CollectConfig) -> tuple[Target, ...]:
    """Return the models to ask.

    Raises:
        UsageError: A targets file or a name makes no sense, or money is limited for a model of unknown price.
    """
    of_named = ("api_base", "api_key_env", "system", "temperature", "max_tokens")
    targets = find_targets(
        config.targets,
        config.models,
        version=config.version,
        defaults={name: getattr(config, name) for name in of_named},
    )
    require_target_prices(targets, limits_of_collection(config))
    return targets


def limits_of_collection(config: CollectConfig) -> Limits:
    """Return what the calls may cost.

    Raises:
        UsageError: There is no budget for the team.
    """
    return limits_for(config.max_calls, config.max_cost, config.team)


def require_target_prices(targets: Sequence[Target], limits: Limits) -> None:
    """Refuse models whose price is unknown where money is limited.

    Args:
        targets: The models to ask.
        limits: What the calls may cost.

    Raises:
        UsageError: The price of a model is unknown.
    """
    for target in targets:
        require_model_price(target.config(), limits, target.call_cost_usd, by_token=target.kind == "litellm")


def output_of(config: CollectConfig) -> Path:
    """Return where the dataset is written.

    Raises:
        UsageError: There is the suite itself, or a folder.
    """
    return output_file(config.output, f"{Path(config.suite).stem}.answers.jsonl", sources=[config.suite])
