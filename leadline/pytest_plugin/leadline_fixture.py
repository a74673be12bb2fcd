"""The fixture ``leadline``: checks and evaluations with the settings of the session and of the test's marker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from leadline.api.result import Result
    from leadline.pytest_plugin.sessions import PluginSession


class LeadlineFixture:
    """Checks answers and evaluates data with the settings of the session and of the test's marker.

    Args:
        node: The test, which gets the values as properties.
        settings: Settings of the test's marker.
    """

    def __init__(self, session: PluginSession, node: pytest.Item, settings: Mapping[str, Any]) -> None:
        self._session = session
        self._node = node
        self._settings = {name: value for name, value in settings.items() if name != "dataset"}

    def check(
        self,
        answer: str,
        *,
        question: str | None = None,
        context: Any = None,
        expected: Any = None,
        condition: str | None = None,
        **settings: Any,
    ) -> dict[str, float]:
        """Assert that an answer is good; see :func:`leadline.check`.

        Args:
            question: The question that was asked.
            context: What was retrieved for the answer.
            expected: Acceptable answers.
            condition: A condition on the answer's text.
            **settings: ``metrics``, ``limits``, ``judge`` and the others; those of the marker are the default.
        """
        __tracebackhide__ = True
        from leadline.api.answer_check import AnswerFailed, check

        given = {**self._session.settings.defaults(), **self._settings, **settings}
        self._session.count_check(given.get("store"))
        try:
            values = check(
                answer,
                question=question,
                context=context,
                expected=expected,
                condition=condition,
                session=self._session.name,
                **given,
            )
        except AnswerFailed as failure:
            self._keep(failure.values)
            raise
        self._keep(values)
        return values

    def evaluate(self, data: Any, **settings: Any) -> Result:
        """Evaluate data; see :func:`leadline.evaluate`.

        Args:
            data: The cases with their answers.
            **settings: Those of the marker are the default.
        """
        from leadline.api.evaluation import evaluate

        given = {name: value for name, value in self._settings.items() if name != "limits"}
        result = evaluate(data, **{"progress": False, **self._session.settings.defaults(), **given, **settings})
        self._session.tell_run(result.outcome, result.store.location, self._node.nodeid)
        return result

    def _keep(self, values: Mapping[str, float]) -> None:
        self._node.user_properties += [(f"leadline.{name}", value) for name, value in values.items()]
