"""Every evaluator that runs a model, end to end, beside the bare library with its best batch size.

    python -m benchmarks.bare_models [--rows 48] [--device auto|cpu|cuda] [--only toxicity …] [--real]
    python -m benchmarks.bare_models --only groundedness --checkpoint embedder=FOLDER
    python -m benchmarks.bare_models --texts 10000

What an evaluator asks of its models is recorded in one run, each different input once, and is then put through
``SentenceTransformer.encode``, ``CrossEncoder.predict`` or a model of Transformers, sorted by length, in batches of
each of :data:`SIZES`; the fastest size counts. Leadline's time is that of the whole evaluator: sentences, tokens,
windows, batches, scores and evidence, without UMAP's. At least 0.9 times the bare speed is wanted. The next column is
the largest difference of a score in 16 bits: float16 on a GPU, bfloat16 on a CPU.

Below the table stand tokens a second by size of an embedder, and how batches are halved when a GPU's memory runs out.
Without a GPU everything runs on the CPU, and the output says so. The checkpoints are those of ``benchmarks.models``,
made of random numbers, but the embedder is all-MiniLM-L6-v2 where its package is installed.

``--texts`` does nothing but compare the offline embedder with Sentence Transformers on so many texts of random length,
in several languages, blank and very long ones among them.
"""

from __future__ import annotations

import argparse
import logging
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from benchmarks.embedding import rag_rows
from benchmarks.machine import describe
from benchmarks.models import Clock, forget, run, watched
from benchmarks.subjects import REAL, SUBJECTS
from leadline.evaluators.core import EvalContext, Evaluator
from leadline.evaluators.data import Row
from leadline.evaluators.ground import OFFLINE, ModelRef
from leadline.evaluators.models import consistency, embedders, inference, runtime, weights
from leadline.evaluators.settings import Settings
from tests.support.models.tiny_models import make_embedder

SIZES: Final = (8, 32, 128)
WANTED: Final = 0.9
LIMIT: Final = 512
"""Tokens of a text that the bare classifiers read."""

LAYERS: Final = ((2, 128), (6, 384), (12, 768))
"""Layers and widths of the embedders whose tokens a second are told."""

HALVED: Final = 4
"""Rows that are scored in 16 bits too, which most CPUs only emulate."""

_SEAMS: Final = ("classify", "infer", "support", "likelihoods", "read")
_ALPHABETS: Final = (
    "harbour depth Lead-line ship's 9.5m https://a.b/c été naïve".split(),
    "мель гавань глубина якорь".split(),
    "漢字 港湾 水深 測量".split(),
    "مرحبا ميناء عمق".split(),
    "👩‍👧 ⚓ 🚢 🌊🌊🌊 🇫🇷".split(),
    "बंदरगाह गहराई नाव".split(),
)


@dataclass(frozen=True)
class Asked:
    """What an evaluator asked of one model.

    Attributes:
        how: The function of Leadline that was called.
        ref: The model.
        inputs: Different texts, pairs or passages.
    """

    how: str
    ref: ModelRef
    inputs: Sequence[Any]


def recorded(evaluator: Evaluator, rows: Sequence[Row], ctx: EvalContext) -> list[Asked]:
    """Return what an evaluator asks of its models about some rows."""
    found: dict[tuple[str, ModelRef], dict[Any, None]] = {}

    def noting(how: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(ref: ModelRef, *rest: Any, **options: Any) -> Any:
            inputs = rest[1] if how == "support" else rest[0]
            found.setdefault((how, ref), {}).update(dict.fromkeys(inputs))
            return original(ref, *rest, **options)

        return call

    with ExitStack() as stack:
        for how in _SEAMS:
            stack.enter_context(patch.object(inference, how, noting(how, getattr(inference, how))))
        for how in ("embed", "embed_apart"):
            stack.enter_context(patch.object(embedders, how, noting("embed", getattr(embedders, how))))
        run(evaluator, rows, ctx)
    return [Asked(how, ref, list(inputs)) for (how, ref), inputs in found.items()]


def bare(asked: Asked, size: int, ctx: EvalContext) -> None:
    """Put inputs through the bare library in batches of a size."""
    import torch

    if asked.how == "embed":
        model: Any = embedders._loaded(asked.ref, ctx.settings).encoder
        model.model.encode(list(asked.inputs), batch_size=size, show_progress_bar=False, normalize_embeddings=True)
        return
    if asked.how == "read":
        reader = inference.pair_reader(asked.ref, ctx.settings).model
        reader.predict(list(asked.inputs), batch_size=size, show_progress_bar=False)
        return
    loaded = next(model for (ref, *_), (model, _) in runtime._models.items() if ref == asked.ref)
    ordered = sorted(asked.inputs, key=lambda each: -len(each if isinstance(each, str) else "".join(map(str, each))))
    with torch.inference_mode():
        for start in range(0, len(ordered), size):
            batch = ordered[start : start + size]
            if asked.how == "likelihoods":
                loaded.model(**_with_labels(batch, loaded)).loss.item()
            else:
                loaded.model(**_tokens(asked.how, batch, loaded)).logits.cpu()


def _tokens(how: str, batch: Sequence[Any], loaded: Any) -> Any:
    texts: list[Any] = [list(batch)]
    if how == "support":
        texts = [[consistency._PROMPT.format(premise=one, hypothesis=other) for one, other in batch]]
    elif how == "infer":
        texts = [list(side) for side in zip(*batch, strict=True)]
    encoded = loaded._tokenizer(*texts, return_tensors="pt", padding=True, truncation=True, max_length=LIMIT)
    return encoded.to(loaded.model.device)


def _with_labels(batch: Sequence[Any], loaded: Any) -> dict[str, Any]:
    """Return what a language model needs for the loss of the targets, filled up on the right."""
    import torch

    sides = [
        (
            loaded._tokenizer(each.context)["input_ids"],
            loaded._tokenizer(each.target, add_special_tokens=False)["input_ids"],
        )
        for each in batch
    ]
    if loaded._predictor.encodes:
        inputs, labels = [context for context, _ in sides], [target for _, target in sides]
    else:
        inputs = [[*context, *target] for context, target in sides]
        labels = [[-100] * len(context) + target for context, target in sides]

    def filled(lines: Sequence[list[int]], filling: int) -> torch.Tensor:
        width = max(map(len, lines))
        return torch.tensor([[*line, *[filling] * (width - len(line))] for line in lines], device=loaded.model.device)

    mask = filled([[1] * len(line) for line in inputs], 0)
    return {"input_ids": filled(inputs, 0), "attention_mask": mask, "labels": filled(labels, -100)}


def measure(name: str, root: Path, device: str, options: argparse.Namespace) -> str:
    """Return a line of the table; the best of some turns counts, since other work can only slow a turn down."""
    subject = SUBJECTS[name]
    evaluator = subject.evaluator(name, root, options.real, 0)
    ctx = EvalContext(Settings(device=options.device, precision="float32", splitter="rules"))
    rows = subject.rows(options.rows)
    asked = recorded(evaluator, rows, ctx)
    now = time.process_time if options.processor_time else time.perf_counter
    ours: list[float] = []
    theirs: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(options.repeats):
        clock = Clock(now)
        with watched(clock, device):
            run(evaluator, rows, ctx)
        ours.append(clock.total - clock.reduction)
        for size, seconds in theirs.items():
            began = now()
            for each in asked:
                bare(each, size, ctx)
            seconds.append(now() - began)
    size = min(SIZES, key=lambda size: min(theirs[size]))
    ratio = min(theirs[size]) / min(ours)
    found = "" if ratio >= WANTED else "  MISSED"
    precision = "float16" if device.startswith("cuda") else "bfloat16"
    half = EvalContext(replace(ctx.settings, precision=precision))
    line = f"{name:42}{min(ours):9.2f}{min(theirs[size]):9.2f}{size:7}{ratio:8.2f}"
    return f"{line}{difference(evaluator, rows[:HALVED], ctx, half):11.4f}{found}"


def difference(evaluator: Evaluator, rows: Sequence[Row], one: EvalContext, other: EvalContext) -> float:
    """Return by how much a score differs at most between two ways to run the models; NaN where a row has none."""
    found = []
    for ctx in (one, other):
        forget(ctx)
        scores = evaluator.score(rows, ctx)
        found.append(
            [value if isinstance(value, float) else np.nan for each in scores for value in each.values.values()]
        )
    differences = np.abs(np.subtract(*found))
    return float(np.nanmax(differences)) if np.isfinite(differences).any() else float("nan")


def tokens_a_second(root: Path, device: str, options: argparse.Namespace) -> Iterator[str]:
    """Tell tokens a second for embedders of several sizes."""
    settings = Settings(device=options.device, precision="float32")
    texts = [chunk.content for row in rag_rows(options.rows, seed=3) for chunk in row.retrieved_context]
    texts = list(dict.fromkeys(texts))
    for layers, width in LAYERS:
        size = replace(REAL["embedder"], layers=layers, width=width, heads=width // 32)
        ref = ModelRef("embedder", str(make_embedder(root / f"{layers}x{width}", size=size)))
        encoder: Any = embedders._loaded(ref, settings).encoder
        embedders.embed(ref, texts[:8], settings=settings)
        embedders.forget()
        wall, processor = time.perf_counter(), time.process_time()
        embedders.embed(ref, texts, settings=settings)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        tokens, parameters = sum(encoder.token_counts(texts)), sum(each.numel() for each in encoder.model.parameters())
        yield (
            f"{layers} layers, {width} wide, {parameters / 1e6:.0f} million parameters, {device}: "
            f"{tokens / wall:,.0f} tokens/s, {tokens / processor:,.0f} per second of processor"
        )


def halving(root: Path, device: str) -> str:
    """Tell how batches become smaller when a GPU has too little memory for them."""
    if not device.startswith("cuda"):
        return "there is no GPU: that batches are halved when its memory runs out was not measured"
    import torch

    settings = Settings(device=device, precision="float32")
    ref = ModelRef("embedder", str(make_embedder(root / "large", size=replace(REAL["embedder"], width=768, layers=12))))
    embedders.embed(ref, ["warm up"], settings=settings)
    torch.cuda.empty_cache()
    spare = torch.cuda.memory_allocated() + 256 * 2**20
    torch.cuda.set_per_process_memory_fraction(spare / torch.cuda.get_device_properties(device).total_memory)
    try:
        with heard() as said:
            vectors = embedders.embed(ref, [f"{number} harbour" * 200 for number in range(512)], settings=settings)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    return f"with 256 MiB of memory {len(vectors)} texts were embedded: {' '.join(said) or 'no batch was halved'}"


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect what is logged of models within the block."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("leadline.models")
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)


def odd_texts(count: int) -> list[str]:
    """Return different texts of random length in several languages; one in a hundred is blank, and one very long."""
    draw = random.Random(5)
    texts = []
    for number in range(count):
        words = 2_000 if number % 100 == 1 else 1 + int(draw.lognormvariate(2.5, 0.9))
        some = draw.choice(_ALPHABETS) if draw.random() < 0.8 else [word for each in _ALPHABETS for word in each]
        texts.append(
            " " * (number // 100) if number % 100 == 0 else f"{number} " + " ".join(draw.choices(some, k=words))
        )
    return texts


def compare_offline(count: int) -> str:
    """Tell by how much the offline embedder's vectors differ from those of Sentence Transformers.

    Texts that fit the model are put to ``encode`` itself; of longer ones, which ``encode`` would cut off, Sentence
    Transformers runs the same windows. Blank texts have the zero vector in both.
    """
    ref, settings = ModelRef("embedder", OFFLINE), Settings(device="cpu")
    texts = odd_texts(count)
    began = time.process_time()
    ours = embedders.embed(ref, texts, settings=settings)
    seconds = time.process_time() - began
    by_torch = replace(settings, backend="torch")
    loaded = embedders._loaded(ref, by_torch)
    fits = np.array(
        [bool(text.strip()) and len(pieces) == 1 for text, pieces in zip(texts, loaded.windows(texts), strict=True)]
    )
    began = time.process_time()
    model: Any = loaded.encoder
    theirs = np.zeros_like(ours)
    fitting = [text for text, fit in zip(texts, fits, strict=True) if fit]
    theirs[fits] = model.model.encode(fitting, show_progress_bar=False, normalize_embeddings=True)
    rest = [text for text, fit in zip(texts, fits, strict=True) if not fit]
    theirs[~fits] = embedders.embed(ref, rest, settings=by_torch)
    apart = np.abs(ours - theirs)
    return (
        f"{count:,} texts: greatest difference {apart[fits].max():.1e}, of the {len(rest)} that are blank or too long "
        f"to be read at once {apart[~fits].max():.1e}\nseconds of processor: {seconds:.0f} by ONNX Runtime, "
        f"{time.process_time() - began:.0f} by Sentence Transformers"
    )


def main() -> None:
    """Measure, and print as it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--real", action="store_true", help="Models of the published sizes.")
    parser.add_argument("--threads", type=int, default=0, help="Threads of torch on a CPU; 0 leaves them alone.")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--processor-time", action="store_true", help="Count the processor's time, not the clock's.")
    parser.add_argument("--only", nargs="*", default=sorted(SUBJECTS), choices=sorted(SUBJECTS))
    parser.add_argument("--checkpoint", nargs="*", default=[], metavar="KIND=FOLDER", help="A local model to use.")
    parser.add_argument("--texts", type=int, default=0, help="Compare the offline embedder on so many texts instead.")
    options = parser.parse_args()
    print(describe())
    if options.texts:
        print(compare_offline(options.texts))
        return
    device = runtime.device_for(Settings(device=options.device))
    import torch  # after the product has set how torch's threads wait

    if options.threads:
        torch.set_num_threads(options.threads)
    clock = "processor" if options.processor_time else "wall"
    print(f"{device}{'' if device != 'cpu' else ' (there is no GPU, or none was asked for)'}; {clock} time, "
          f"{options.rows} rows; at least {WANTED:g} times the bare speed wanted")  # fmt: skip
    print(f"{'evaluator':42}{'ours, s':>9}{'bare, s':>9}{'batch':>7}{'ratio':>8}{'16 bits':>11}")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        given = dict(each.split("=", 1) for each in options.checkpoint)
        offline = ModelRef("embedder", OFFLINE)
        if weights.is_here(offline):
            given.setdefault("embedder", str(weights.locate(offline, Settings())))
        for kind, place in given.items():
            (root / kind).symlink_to(Path(place).resolve())
        for name in options.only:
            print(measure(name, root, device, options), flush=True)
            for module in (inference, embedders):
                module.unload()
        for line in tokens_a_second(root, device, options):
            print(line, flush=True)
        print(halving(root, device))


if __name__ == "__main__":
    main()
