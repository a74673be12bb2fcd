"""Runs the flow for new model versions in a process of its own that tests can kill.

``python -m tests.support.processes.version_flow CONFIG…``: each CONFIG is the flow's parameter as JSON; prints a line
of JSON for what became of each.
"""

from __future__ import annotations

import sys

from leadline.flows.model_version import ModelVersionConfig
from leadline.flows.served import on_model_version


def main() -> None:
    for text in sys.argv[1:]:
        print(on_model_version(ModelVersionConfig.model_validate_json(text)).model_dump_json(), flush=True)


if __name__ == "__main__":
    main()
