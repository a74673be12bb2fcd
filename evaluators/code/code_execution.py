"""Code execution: does the answer's program pass its tests?"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from leadline.evaluators.code._sandbox import Ending, run_sandboxed
from leadline.evaluators.core import Metric, Params, RowEvaluator, Spec, register
from leadline.evaluators.data import Evidence, Json, Reason, Row, RowField, RowScore
from leadline.evaluators.text.markdown import fences

if TYPE_CHECKING:
    from leadline.evaluators.core import EvalContext

TESTS: Final = "tests"
ENTRY_POINT: Final = "entry_point"
SWITCH: Final = "LEADLINE_ALLOW_CODE_EXECUTION"
"""Variable of the environment that allows a machine to run answers; 1 does."""


class CodeParams(Params):
    """Parameters of code_execution."""

    allow: Annotated[
        bool,
        Field(
            description="Run the answers as programs. Off by default; the machines that score must allow it too, by "
            f"the variable {SWITCH}=1."
        ),
    ] = False
    tests_in: Annotated[
        str,
        Field(
            pattern="^(metadata|expected_answer)$",
            description="Where a row's tests stand: metadata (under the key tests) or expected_answer.",
        ),
    ] = "metadata"
    timeout_s: Annotated[float, Field(gt=0, le=300, description="Seconds that an answer and its tests may run.")] = 5.0
    memory_mb: Annotated[int, Field(ge=32, le=16_384, description="Memory that they may take, in megabytes.")] = 512
    leave: Annotated[
        tuple[Literal["processes", "network", "files", "signals"], ...],
        Field(
            description="Rights that they may keep where this machine cannot take them away, as the network on macOS; "
            "without them such a machine runs nothing."
        ),
    ] = ()


@register
class CodeExecution(RowEvaluator):
    """Runs the answer, a program in Python, and its tests: pass@1. Off unless two switches are on.

    **Method.** The program is the answer's first fence of Markdown, or the whole answer. It is run, and behind it in
    the same namespace the row's tests, from the metadata's key ``tests`` or from the expected answer (``tests_in``).
    It passes if nothing raises. Where the metadata has an ``entry_point``, the tests' function ``check`` is called
    with it, as in HumanEval. The metric is the share of answers that pass; with one answer per case that is pass@1.

    **Switches.** ``--param code_execution.allow=true`` asks for it; the machine that scores allows it by
    ``LEADLINE_ALLOW_CODE_EXECUTION=1`` in its environment. Without the first, rows are not applicable; without the
    second, they are unscored.

    **The sandbox.** Each program runs in a process of its own: ``python -I -S`` (the standard library alone), an empty
    environment, an empty folder that is deleted, limits of processor time, wall-clock time, memory, file size (1 MB),
    bytes and files in all (16 MB, 1,000), open files (32), threads (256) and no further processes. On Linux its network
    is taken away by a namespace; files but Python's own and its folder by Landlock; sockets, shared memory, further
    processes, whatever sends others a signal or changes their limits, priority or processors, and the modes and owners
    of files by seccomp; root's powers by their capabilities. The evidence says what was taken. Where the machine
    cannot take one of these rights, rows are unscored unless ``leave`` names it.

    **What it does not protect from.** The process runs on the same kernel: a fault of the kernel is a way out. With
    ``leave=files`` a program reads all that its user can read; with ``leave=signals`` it can end other programs of its
    user. A program can cheat its tests, since it shares a process with them. Run code that you do not trust in a
    container or virtual machine that you can lose.

    **Edge cases.**

    * A row without tests is not applicable. Tests that do not compile leave it unscored.
    * A program that takes too long, too much memory or room, ends its process or forges its ending fails: 0.
    * What a program prints is dropped, and it has no input.

    **Source.** Chen et al., Evaluating Large Language Models Trained on Code (HumanEval, 2021).
    """

    spec = Spec(
        id="code_execution",
        name="Code Execution",
        family="code",
        origin="leadline",
        inputs=(RowField.ACTUAL_ANSWER,),
        also_reads=(RowField.EXPECTED_ANSWER, RowField.METADATA),
        metrics=(
            Metric.higher("pass_at_1", "Share of answers whose program passes its tests.", name="Pass@1", share=True),
        ),
        version="2",
        keywords=("python", "unit tests", "pass@1", "humaneval", "sandbox", "program"),
        source="Chen et al. 2021, https://arxiv.org/abs/2107.03374",
    )
    parameters = CodeParams
    params: CodeParams

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return all that a score's key covers: which Python runs the answers."""
        return super().identity(ctx) | {"python": platform.python_version()}

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Run the programs of rows, as many at a time as there are processors."""
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return list(pool.map(lambda row: self._guarded(row, ctx), rows))

    def score_row(self, row: Row, ctx: EvalContext) -> RowScore:
        """Run one program."""
        if not self.params.allow:
            return RowScore.not_applicable(self.row_metrics, "Answers are run only with code_execution.allow=true.")
        if os.environ.get(SWITCH) != "1":
            message = f"This machine does not allow running answers: set {SWITCH}=1 where rows are scored."
            return RowScore.unscored(self.row_metrics, Reason.EVALUATOR_ERROR, message)
        tests = (
            row.metadata.get(TESTS) if self.params.tests_in == "metadata" else next(iter(row.expected_answers), None)
        )
        if not isinstance(tests, str) or not tests.strip():
            return RowScore.not_applicable(self.row_metrics, "The row has no tests.")
        entry = row.metadata.get(ENTRY_POINT)
        answer = row.actual_answer or ""
        block = next(iter(fences(answer)), None)
        ending = run_sandboxed(
            block.content if block else answer,
            tests,
            entry if isinstance(entry, str) else "",
            seconds=self.params.timeout_s,
            memory_mb=self.params.memory_mb,
            leave=self.params.leave,
        )
        return self._scored(ending)

    def _scored(self, ending: Ending) -> RowScore:
        if ending.status == "refused":
            message = f"Answers are not run: {ending.message} (code_execution.leave runs them all the same)."
            return RowScore.unscored(self.row_metrics, Reason.EVALUATOR_ERROR, message)
        if ending.status == "no_tests":
            return RowScore.unscored(self.row_metrics, Reason.UNSCORABLE, f"The tests are no Python: {ending.message}")
        taken: list[Json] = [name for name, done in ending.isolation.items() if done]
        passed = ending.status == "passed"
        where = {"answer": "The program fails: ", "tests": "A test fails: "}.get(ending.where, "The program fails: ")
        message = "" if passed else f"{where}{ending.message}"
        return RowScore({"pass_at_1": float(passed)}, Evidence(message, data={"isolated_from": taken}))
