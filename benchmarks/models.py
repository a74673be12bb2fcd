"""Model evaluators on ragged text: batched across rows against one row at a time, and the time outside the model.

    python -m benchmarks.models [--rows 48] [--threads 2] [--device auto] [--precision float32] [--only toxicity …]
    python -m benchmarks.models --real --rows 8 --repeats 1

Each evaluator runs a small random checkpoint of its architecture on the same rows: first all rows in one call, as a
chunk is scored, then each text alone through Transformers' or sentence-transformers' own call, as the packages do that
the methods come from (:mod:`benchmarks.subjects`). The share outside the model is what tokenizing, windows, batches,
sentences and evidence take of the batched time. At least twice the speed and at most 15 % outside are wanted. On a CUDA
device it prints the memory that was needed and the GPU's utilisation besides.

The completeness of a summary is measured with UMAP, one row at a time, which is no model and takes the same either way.
Its share is printed, the columns before it include it, and the verdict is about the rest.

The checkpoints are made of random numbers, so that nothing is fetched: 4 layers, 64 to 192 wide, 3,000 tokens, the
words of the texts among them, which gives the output layer the share of the work that it has in distilgpt2. In models
so small a run's fixed cost counts most, and batches save it.

With ``--real`` they have the sizes of toxic-bert, the bias model, HHEM, distilgpt2, opt-125m, flan-t5-base,
stsb-roberta-base and all-MiniLM-L6-v2 (opt, T5 and an ALBERT of 12 layers in the place of larger ones). A CPU is then
busy multiplying matrices either way. The last column says how much of what it can multiply at all the batched run does
per second, measured with one large product in the same process; what batches gain beyond that, they gain by reading
shared contexts once. No speed-up is asked for there.

Figures from a machine with other work on it say little. With ``--processor-time`` and ``--threads 1`` they count what
the processor did for this process alone, which other work changes least.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from benchmarks.subjects import SUBJECTS, Subject
from leadline.evaluators.core import EvalContext, Evaluator
from leadline.evaluators.data import Row
from leadline.evaluators.models import classifiers, consistency, embedders, inference, language_models, runtime
from leadline.evaluators.settings import Settings
from leadline.evaluators.summarization import completeness_faithfulness

FASTER = 2.0
OUTSIDE = 0.15


@dataclass
class Clock:
    """Seconds of one turn.

    Attributes:
        now: Reads the time.
        total: The whole turn.
        models: Inside models.
        reduction: Inside UMAP.
    """

    now: Callable[[], float]
    total: float = 0.0
    models: float = 0.0
    reduction: float = 0.0

    @property
    def outside(self) -> float:
        """Share of the time that neither models nor UMAP took, of the time without UMAP."""
        return 1 - self.models / (self.total - self.reduction)


@contextmanager
def watched(clock: Clock, device: str) -> Iterator[None]:
    """Measure the time inside the models' forward calls and inside UMAP."""
    from sentence_transformers import CrossEncoder, SentenceTransformer

    kinds: tuple[tuple[Any, str, str], ...] = (
        (classifiers.Classifier, "_forward", "models"),
        (consistency.SupportModel, "_forward", "models"),
        (classifiers.PairClassifier, "_forward", "models"),
        (language_models.Predictor, "forward", "models"),
        (SentenceTransformer, "forward", "models"),
        (CrossEncoder, "forward", "models"),
        (completeness_faithfulness, "reduce", "reduction"),
    )

    def timed(original: Any, part: str) -> Any:
        @functools.wraps(original)
        def forward(*args: Any, **options: Any) -> Any:
            started = clock.now()
            out = original(*args, **options)
            if device.startswith("cuda"):
                torch.cuda.synchronize()
            setattr(clock, part, getattr(clock, part) + clock.now() - started)
            return out

        return forward

    import torch

    originals = [getattr(kind, name) for kind, name, _ in kinds]
    for (kind, name, part), original in zip(kinds, originals, strict=True):
        setattr(kind, name, timed(original, part))
    try:
        started = clock.now()
        yield
        clock.total = clock.now() - started
    finally:
        for (kind, name, _), original in zip(kinds, originals, strict=True):
            setattr(kind, name, original)


def forget(ctx: EvalContext) -> None:
    """Drop what was remembered of texts; loaded models stay."""
    ctx.forget()
    embedders.forget()


def run(evaluator: Evaluator, rows: Sequence[Row], ctx: EvalContext) -> None:
    """Score the rows in one call."""
    forget(ctx)
    scores = evaluator.score(rows, ctx)
    assert all(score.complete for score in scores)


def run_plainly(subject: Subject, evaluator: Evaluator, rows: Sequence[Row], ctx: EvalContext) -> None:
    """Put each text of each row through the model alone, as the packages do."""
    forget(ctx)
    for row in rows:
        subject.plainly(evaluator, row, ctx)


def of_peak(evaluator: Evaluator, rows: Sequence[Row], ctx: EvalContext, seconds: float, device: str) -> float:
    """Return the rate of a batched run's floating-point operations as a share of that of one large matrix product."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        run(evaluator, rows, ctx)
    one, other = torch.rand(1024, 768, device=device), torch.rand(768, 3072, device=device)
    peak = 0.0
    for _ in range(20):
        started = time.perf_counter()
        (one @ other).sum().item()
        peak = max(peak, 2 * 1024 * 768 * 3072 / (time.perf_counter() - started))
    return float(counter.get_total_flops()) / seconds / peak


def measure(subject: Subject, evaluator: Evaluator, ctx: EvalContext, device: str, options: argparse.Namespace) -> str:
    """Return a line of the table; the best of some turns counts, since other work can only slow a turn down."""
    rows = subject.rows(options.rows)
    run(evaluator, rows[:4], ctx)  # load and warm up
    run_plainly(subject, evaluator, rows[:1], ctx)
    turns: dict[str, list[Clock]] = {"batched": [], "singly": []}
    for _ in range(options.repeats):
        for way, clocks in turns.items():
            clock = Clock(time.process_time if options.processor_time else time.perf_counter)
            with watched(clock, device):
                if way == "batched":
                    run(evaluator, rows, ctx)
                else:
                    run_plainly(subject, evaluator, rows, ctx)
            clocks.append(clock)
    batched, singly = (min(clocks, key=lambda clock: clock.total) for clocks in turns.values())
    line = (
        f"{evaluator.spec.id:42}{len(rows) / batched.total:10.1f}{len(rows) / singly.total:10.1f}"
        f"{singly.total / batched.total:9.2f}{1 - batched.models / batched.total:10.1%}  "
    )
    if options.real:
        return line + f"{of_peak(evaluator, rows, ctx, batched.total, device):.0%} of the peak"
    return line + verdict(batched, singly)


def verdict(batched: Clock, singly: Clock) -> str:
    """Return whether batches gain what is wanted, where both ways need UMAP besides what UMAP takes."""
    ratio = (singly.total - singly.reduction) / (batched.total - batched.reduction)
    found = "met" if ratio >= FASTER and batched.outside <= OUTSIDE else "MISSED"
    if not batched.reduction:
        return found
    share = batched.reduction / batched.total
    return f"{found}: UMAP takes {share:.1%}; without it {ratio:.2f} x, {batched.outside:.1%} outside"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--width", type=int, default=0, help="Width of all models instead of their own.")
    parser.add_argument("--real", action="store_true", help="Models of the published sizes.")
    parser.add_argument("--threads", type=int, default=0, help="Threads of torch on a CPU; 0 leaves them alone.")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--processor-time", action="store_true", help="Count the processor's time, not the clock's.")
    parser.add_argument("--only", nargs="*", default=sorted(SUBJECTS), choices=sorted(SUBJECTS))
    options = parser.parse_args()

    settings = Settings(device=options.device, precision=options.precision, splitter="rules")
    device = runtime.device_for(settings)
    import torch  # after the product has set how torch's threads wait

    if options.threads:
        torch.set_num_threads(options.threads)
    print(describe())
    print(f"{device}, {options.precision}, {options.rows} rows; at least {FASTER:g} x and at most {OUTSIDE:.0%} wanted")
    print(f"{'evaluator':42}{'rows/s':>10}{'singly':>10}{'ratio':>9}{'outside':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            subject = SUBJECTS[name]
            evaluator = subject.evaluator(name, Path(folder), options.real, options.width)
            if device.startswith("cuda"):
                torch.cuda.reset_peak_memory_stats()
            line = measure(subject, evaluator, EvalContext(settings), device, options)
            if device.startswith("cuda"):
                line += f"  {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB, {torch.cuda.utilization()} % busy"
            print(line, flush=True)
            for module in (inference, embedders):
                module.unload()


if __name__ == "__main__":
    main()
