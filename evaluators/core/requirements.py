"""Weights that evaluators need, and the one command that fetches those that are not on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leadline.evaluators.core.base import Evaluator
from leadline.evaluators.core.context import EvalContext
from leadline.evaluators.ground import OFFLINE, LeadlineError, ModelRef, ModelUnavailable
from leadline.evaluators.models.weights import is_directory, is_here, pull_name


def required_weights(evaluators: Iterable[Evaluator], ctx: EvalContext) -> dict[ModelRef, tuple[str, ...]]:
    """Return the weights that evaluators need under a run's settings, each with the ids of the evaluators.

    Args:
        ctx: The run's settings and shared resources.
    """
    users: dict[ModelRef, list[str]] = {}
    for evaluator in evaluators:
        for ref in evaluator.models(ctx):
            users.setdefault(ref, []).append(evaluator.spec.id)
    return {ref: tuple(ids) for ref, ids in users.items()}


def pull_command(evaluator: Evaluator, ctx: EvalContext, more: Sequence[ModelRef] = ()) -> str:
    """Return the one command that fetches all weights that an evaluator lacks under a run's settings.

    Args:
        evaluator: Who needs the weights. Its id is the command's argument where it needs several and lacks only
            defaults, as of a tokenizer's repository no more is fetched then than the tokenizer.
        ctx: The run's settings and shared resources.
        more: Weights that are to be fetched in any case, for example since they are damaged.
    """
    refs = evaluator.models(ctx)
    on_hub = [ref for ref in refs if ref.source != OFFLINE and not is_directory(ref)]
    absent = dict.fromkeys([*more, *(ref for ref in on_hub if not is_here(ref))])
    if len(refs) > 1 and absent.keys() <= set(type(evaluator)().models(EvalContext())):
        return f"leadline evaluators models pull {evaluator.spec.id.partition('#')[0]}"
    return f"leadline evaluators models pull {' '.join(dict.fromkeys(map(pull_name, absent)))}"


def with_pull_command(error: LeadlineError, evaluator: Evaluator, ctx: EvalContext) -> LeadlineError:
    """Return an error whose hint fetches all that an evaluator lacks, not only what it missed first.

    Args:
        error: What an evaluator failed with; one that no fetch can mend is returned as it is.
        ctx: The run's settings and shared resources.
    """
    if not isinstance(error, ModelUnavailable) or not error.refs:
        return error
    hint = f"Fetch them with: {pull_command(evaluator, ctx, error.refs)}"
    return ModelUnavailable(error.message, hint=hint, refs=error.refs, code=error.code)
