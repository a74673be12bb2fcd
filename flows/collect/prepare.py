"""Targets and output of collecting, without Prefect, so that a command can check them before a server is up."""

from __future__ import annotations

from pathlib import Path

from leadline.flows.collect.config import CollectConfig
from leadline.flows.shared.output_files import output_file
from leadline.tasks.collect import Target, find_targets


def targets_of(config: CollectConfig) -> tuple[Target, ...]:
    """Return the models to ask.

    Raises:
        UsageError: A targets file or a name makes no sense.
    """
    of_named = ("api_base", "api_key_env", "system", "temperature", "max_tokens")
    return find_targets(
        config.targets,
        config.models,
        version=config.version,
        defaults={name: getattr(config, name) for name in of_named},
    )


def output_of(config: CollectConfig) -> Path:
    """Return where the dataset is written.

    Raises:
        UsageError: There is the suite itself, or a folder.
    """
    return output_file(config.output, f"{Path(config.suite).stem}.answers.jsonl", sources=[config.suite])
