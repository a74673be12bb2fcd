"""Errors of judges that gave no verdict. None of these is ever a score."""

from __future__ import annotations

from typing import ClassVar

from leadline.evaluators.data import Reason
from leadline.evaluators.ground import ErrorCode, LeadlineError


class JudgeError(LeadlineError):
    """A judge gave no verdict; the rows that needed it are unscored."""

    code = ErrorCode.JUDGE_UNAVAILABLE
    reason: ClassVar[Reason] = Reason.JUDGE_UNAVAILABLE


class JudgeUnavailable(JudgeError):
    """The judge could not be reached, or kept failing until the deadline; later it may answer."""


class JudgeRefused(JudgeError):
    """The judge will not answer this call, however often it is asked: a wrong key, a question that is too long."""

    code = ErrorCode.JUDGE_REFUSED
    reason = Reason.JUDGE_REFUSED


class JudgeTruncated(JudgeError):
    """The reply was cut off at the token limit."""

    code = ErrorCode.JUDGE_TRUNCATED
    reason = Reason.JUDGE_TRUNCATED


class JudgeUnparseable(JudgeError):
    """The reply does not hold the verdict that was asked for, and neither did the second one."""

    code = ErrorCode.JUDGE_UNPARSEABLE
    reason = Reason.JUDGE_UNPARSEABLE


class BudgetSpent(JudgeError):
    """The run's budget does not allow another call."""

    code = ErrorCode.JUDGE_BUDGET
    reason = Reason.BUDGET
