"""Random kills of a judged run, as many as a test can afford; ``make soak`` does fifty."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes.soak import soak

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_a_run_that_is_killed_at_random_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    figures = soak(tmp_path, 5)
    assert figures.faults() == []
    assert figures.kills == 5
    assert figures.while_judging >= 1
