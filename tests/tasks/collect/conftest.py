"""Applications under test that are served for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from leadline.tasks.collect import Target
from tests.support.datasets.collecting import HASTY
from tests.support.judges.judge_endpoint import serving
from tests.support.processes.rag_app import TARGET, RagApp


@pytest.fixture
def rag(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Serves a RAG application, with the secret that it is asked with."""
    monkeypatch.setenv("HARBOUR_TOKEN", "tok-very-secret-1")

    @contextmanager
    def serve(**script: Any) -> Iterator[tuple[RagApp, Target]]:
        with serving(RagApp(**{"reply": lambda question: f"Answer to {question.text}"} | script)) as app:
            address = app.url.removesuffix("/v1") + "/answer"
            yield app, Target.model_validate({**TARGET, **HASTY, "url": address})  # type: ignore[misc]

    return serve
