"""Model evaluators on ragged text: batched across rows against one row at a time, and the time outside the model.

    python benchmarks/models.py [--rows 48] [--threads 2] [--device auto] [--precision float32] [--only toxicity …]
    python benchmarks/models.py --real --rows 8 --repeats 1

Each evaluator runs a small random checkpoint of its architecture on the same rows: first all rows in one call, as a
chunk is scored, then each text alone through Transformers' own call, as the packages do that the methods come from. The
share outside the model is what tokenizing, windows, batches, sentences and evidence take of the batched time. At least
twice the speed and at most 15 % outside are wanted. On a CUDA device it prints the memory that was needed and the GPU's
utilisation besides.

The checkpoints are made of random numbers, so that nothing is fetched: 4 layers, 64 to 192 wide, 3,000 tokens, the
words of the texts among them, which gives the output layer the share of the work that it has in distilgpt2. In models
so small a run's fixed cost counts most, and batches save it.

With ``--real`` they have the sizes of toxic-bert, the bias model, HHEM, distilgpt2, opt-125m and flan-t5-base (opt and
T5 in the place of larger ones). A CPU is then busy multiplying matrices either way. The last column says how much of
what it can multiply at all the batched run does per second, measured with one large product in the same process; what
batches gain beyond that, they gain by reading shared contexts once. No speed-up is asked for there.

Figures from a machine with other work on it say little.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.embedding import WORDS, rag_rows
from benchmarks.machine import describe
from evaluators.base import Evaluator
from evaluators.models import classifiers, consistency, predictor, resident, runtime
from evaluators.models.language_models import Passage
from evaluators.registry import get
from evaluators.toolbox import Settings, Toolbox
from evaluators.types import Row
from tests.support.tiny_checkpoints import MAKERS, Size

CHECKPOINTS = {
    "toxicity": ("toxicity_model", "bert"),
    "fairness_bias": ("bias_model", "bias"),
    "hallucination": ("hallucination_model", "support-with-tokenizer"),
    "perplexity": ("perplexity_model", "gpt2"),
    "gptscore_machine_translation": ("gpt_score_model", "gpt2"),
    "gptscore_question_answering": ("gpt_score_model", "opt"),
    "gptscore_summarization_with_reference": ("gpt_score_model", "t5"),
    "gptscore_summarization_without_reference": ("gpt_score_model", "gpt2"),
}
_WORDS = [*WORDS, *(word.capitalize() for word in WORDS)]
SIZE = Size(layers=4, heads=4, vocabulary=3_000, positions=514, context=1024, words=tuple(_WORDS))
WIDTHS = {"bert": 192, "bias": 128}
REAL = {
    "bert": replace(SIZE, width=768, layers=12, heads=12, vocabulary=30_522),
    "bias": replace(SIZE, width=768, layers=6, heads=12, vocabulary=30_522),
    "support-with-tokenizer": replace(SIZE, width=768, layers=12, heads=12, vocabulary=32_128),
    "gpt2": replace(SIZE, width=768, layers=6, heads=12, vocabulary=50_257),
    "opt": replace(SIZE, width=768, layers=12, heads=12, vocabulary=50_272),
    "t5": replace(SIZE, width=768, layers=12, heads=12, vocabulary=32_128),
}
"""Sizes of the published models, by the name of their checkpoint."""
FASTER = 2.0
OUTSIDE = 0.15


@dataclass
class Clock:
    """Seconds spent inside models."""

    seconds: float = 0.0


@contextmanager
def watched(device: str) -> Iterator[Clock]:
    """Measure the time inside the models' forward calls."""
    import torch

    clock = Clock()
    kinds = (
        (classifiers.Classifier, "_forward"),
        (consistency.SupportModel, "_forward"),
        (predictor.Predictor, "forward"),
    )
    originals = [getattr(*each) for each in kinds]

    def timed(original: Any) -> Any:
        def forward(self: Any, batch: Any) -> Any:
            started = time.perf_counter()
            out = original(self, batch)
            if device.startswith("cuda"):
                torch.cuda.synchronize()
            clock.seconds += time.perf_counter() - started
            return out

        return forward

    for (kind, name), original in zip(kinds, originals, strict=True):
        setattr(kind, name, timed(original))
    try:
        yield clock
    finally:
        for (kind, name), original in zip(kinds, originals, strict=True):
            setattr(kind, name, original)


def run(evaluator: Evaluator, rows: Sequence[Row], tools: Toolbox) -> float:
    """Score the rows in one call and return the seconds that it took."""
    tools.forget()
    started = time.perf_counter()
    scores = evaluator.score(rows, tools)
    seconds = time.perf_counter() - started
    assert all(score.complete for score in scores)
    return seconds


def run_plainly(evaluator: Any, rows: Sequence[Row], tools: Toolbox) -> float:
    """Put each text of each row through the model alone, as the packages do, and return the seconds that it took."""
    import torch

    ((loaded, _),) = resident._models.values()
    tools.forget()
    started = time.perf_counter()
    with torch.inference_mode():
        for row in rows:
            for request in evaluator.requests(row, tools):
                plainly(loaded, request)
    return time.perf_counter() - started


def plainly(loaded: Any, request: Any) -> float:
    """Return what Transformers itself computes for one text."""
    import torch

    model, tokenizer = loaded.model, loaded._tokenizer
    if isinstance(request, Passage):
        context = tokenizer(request.context)["input_ids"]
        target = tokenizer(request.target, add_special_tokens=False)["input_ids"]
        ids, labels = [*context, *target], [-100] * len(context) + target
        ids, labels = (context, target) if loaded._predictor.encodes else (ids, labels)
        inputs, wanted = (torch.tensor([each], device=model.device) for each in (ids, labels))
        return float(model(input_ids=inputs, labels=wanted).loss)
    text = (
        request if isinstance(request, str) else consistency._PROMPT.format(premise=request[0], hypothesis=request[1])
    )
    encoded = tokenizer(text, return_tensors="pt", truncation=isinstance(request, str), max_length=512)
    logits = model(
        input_ids=encoded["input_ids"].to(model.device), attention_mask=encoded["attention_mask"].to(model.device)
    ).logits
    return float(logits.flatten()[0])


def of_peak(evaluator: Evaluator, rows: Sequence[Row], tools: Toolbox, seconds: float, device: str) -> float:
    """Return the rate of a batched run's floating-point operations as a share of that of one large matrix product."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        run(evaluator, rows, tools)
    one, other = torch.rand(1024, 768, device=device), torch.rand(768, 3072, device=device)
    peak = 0.0
    for _ in range(20):
        started = time.perf_counter()
        (one @ other).sum().item()
        peak = max(peak, 2 * 1024 * 768 * 3072 / (time.perf_counter() - started))
    return counter.get_total_flops() / seconds / peak


def measure(evaluator: Evaluator, rows: Sequence[Row], tools: Toolbox, device: str, repeats: int, real: bool) -> str:
    """Return a line of the table; the best of some turns counts, since other work can only slow a turn down."""
    run(evaluator, rows[:4], tools)  # load and warm up
    turns = []
    for _ in range(repeats):
        with watched(device) as clock:
            turns.append((run(evaluator, rows, tools), clock))
    batched, clock = min(turns, key=lambda turn: turn[0])
    singly = min(run_plainly(evaluator, rows, tools) for _ in range(repeats))
    outside = 1 - clock.seconds / batched
    verdict = "met" if singly / batched >= FASTER and outside <= OUTSIDE else "MISSED"
    if real:
        verdict = f"{of_peak(evaluator, rows, tools, batched, device):.0%} of the peak"
    return (
        f"{evaluator.spec.id:42}{len(rows) / batched:10.1f}{len(rows) / singly:10.1f}"
        f"{singly / batched:9.2f}{outside:10.1%}  {verdict}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--width", type=int, default=0, help="Width of all models instead of their own.")
    parser.add_argument("--real", action="store_true", help="Models of the published sizes.")
    parser.add_argument("--threads", type=int, default=0, help="Threads of torch on a CPU; 0 leaves them alone.")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--only", nargs="*", default=sorted(CHECKPOINTS))
    options = parser.parse_args()

    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    settings = Settings(device=options.device, precision=options.precision, splitter="rules")
    device = runtime.device_for(settings)
    rows = rag_rows(options.rows)
    print(describe())
    print(f"{device}, {options.precision}, {len(rows)} rows; at least {FASTER:g} x and at most {OUTSIDE:.0%} wanted")
    print(f"{'evaluator':42}{'rows/s':>10}{'singly':>10}{'ratio':>9}{'outside':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            parameter, kind = CHECKPOINTS[name]
            path = Path(folder) / kind
            if not path.is_dir():
                size = REAL[kind] if options.real else replace(SIZE, width=options.width or WIDTHS.get(kind, 64))
                MAKERS[kind](path, size)
            evaluator = get(name)(get(name).parameters.build(name, {parameter: str(path)}))
            if device.startswith("cuda"):
                torch.cuda.reset_peak_memory_stats()
            line = measure(evaluator, rows, Toolbox(settings), device, options.repeats, options.real)
            if device.startswith("cuda"):
                line += f"  {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB, {torch.cuda.utilization()} % busy"
            print(line, flush=True)
            resident.unload()


if __name__ == "__main__":
    main()
