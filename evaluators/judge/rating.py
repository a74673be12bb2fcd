"""One rating with its rationale: yes or no, in JSON.

``plugins/databricks/databricks_table.py`` reads what a score's evidence keeps of it: under ``assessment`` the
``rating`` and the ``rationale``.
"""

from __future__ import annotations

from leadline.evaluators.data.row import Evidence, Json, RowScore
from leadline.evaluators.judge.verdicts import JudgeReply, Reason, YesNo


class Assessment(JudgeReply):
    """A judge's rating. The rationale comes first, so that the judge thinks before it decides."""

    rationale: Reason = ""
    rating: YesNo


def rated(metric: str, assessment: Assessment) -> RowScore:
    """Return the score of a row that got one rating: 1 for yes and 0 for no.

    Args:
        metric: The metric's key.
        assessment: The rating with its rationale.
    """
    data: dict[str, Json] = {"assessment": {"rating": assessment.rating, "rationale": assessment.rationale}}
    return RowScore({metric: float(assessment.rating == "yes")}, Evidence(assessment.rationale, data=data))
