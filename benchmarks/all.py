"""All benchmarks, one after another, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

NAMES = (
    "rules",
    "loading",
    "traces",
    "embedding",
    "models",
    "bare_models",
    "aggregation",
    "judge",
    "warm",
    "classification",
    "detection",
    "tool_calls",
    "dispatch",
    "workbench",
    "end_to_end",
)


def main() -> None:
    """Run them."""
    for name in NAMES:
        print(f"\n== {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)


if __name__ == "__main__":
    main()
