"""Completeness and faithfulness of a summary, measured without a reference summary.

Completeness is geometric: how much of the area of a document's sentences the sentences of its summary cover.
"""

from __future__ import annotations

import importlib.metadata
import logging
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Final

import numpy as np
from pydantic import Field

from leadline.evaluators.core import DataKind, Evaluator, Metric, Spec, register
from leadline.evaluators.core.model_evaluator import EmbeddingParams, quote, with_pull_command
from leadline.evaluators.data import Evidence, Json, Reason, Row, RowField, RowScore, clip
from leadline.evaluators.ground import ErrorCode, LeadlineError, ModelKind, ModelRef, ModelUnavailable
from leadline.evaluators.models import weights
from leadline.evaluators.models.catalogue import SUMMAC_CONV, VITAMINC_NLI
from leadline.evaluators.models.embedders import embed_apart
from leadline.evaluators.models.weights import BGE_SMALL_EN_V15
from leadline.evaluators.summarization._summac import (
    CONV,
    ZERO_SHOT,
    SummaC,
    SummaryPart,
    Texts,
    ZeroShot,
    counting,
    failed,
    without,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.core import EvalContext

DIMENSIONS: Final = 5
NEIGHBOURS: Final = 10
PERCENTILE: Final = 50.0

FEWEST_SENTENCES: Final = 3
"""Sentences of a document below which nothing can be reduced."""

MOST_SENTENCES: Final = 5_000
"""Sentences of a document above which the matrix of their distances is too large."""

_alone: Final = threading.Lock()
"""Numba's threads end the process when two threads of ours use them at once."""


@dataclass(frozen=True)
class Plane:
    """A document's sentences in the reduced space.

    Attributes:
        points: Their places, float64 of shape ``(n, dimensions)``.
        distances: Euclidean distances between them, of shape ``(n, n)``.
        near: Distance up to which a summary sentence counts as close: half of the distances between two different
            points are not greater.
        length: Three segment distance of the points.
    """

    points: npt.NDArray[np.float64]
    distances: npt.NDArray[np.float64]
    near: float
    length: float


@dataclass(frozen=True)
class TopicCoverage:
    """The coverage of a document by its summary.

    Attributes:
        value: Ratio of the three segment distances, in [0, 1]; ``None`` when the document's points are all one.
        closest: For each summary sentence the document sentence that it stands for, or ``None`` when it is close to
            none and was left out.
        dimensions: Of the reduced space.
    """

    value: float | None
    closest: tuple[int | None, ...]
    dimensions: int


def cover(document: npt.NDArray[np.float32], summary: npt.NDArray[np.float32], *, seed: int) -> TopicCoverage:
    """Return the coverage of a document by the sentences of its summary.

    Args:
        document: Embeddings of the document's distinct sentences, from :data:`FEWEST_SENTENCES` to
            :data:`MOST_SENTENCES` of them.
        summary: Embeddings of the summary's sentences.
        seed: Equal seeds and equal embeddings give equal bits on the same machine.

    Raises:
        ModelUnavailable: UMAP is not installed.
    """
    points, moved = reduce(document, summary, seed)
    plane = plane_of(points)
    closest = snap(moved, plane)
    kept = sorted({place for place in closest if place is not None})
    dimensions = points.shape[1]
    if not plane.length:
        return TopicCoverage(None, closest, dimensions)
    covered = three_segments(plane.distances[kept][:, kept])
    return TopicCoverage(clip(covered / plane.length, 0.0, 1.0), closest, dimensions)


def reduce(
    document: npt.NDArray[np.float32], summary: npt.NDArray[np.float32], seed: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Train UMAP on the document's embeddings and return both in the reduced space.

    The parameters are those of the reference: 10 neighbours, no least distance, the cosine. The start is the
    principal components instead of UMAP's spectral embedding, which is drawn at random for some small documents,
    whatever the seed.

    Raises:
        ModelUnavailable: UMAP is not installed.
    """
    count = len(document)
    with _alone, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that TensorFlow is missing, that a small graph is not connected
        try:
            import umap.umap_
        except ImportError:
            raise ModelUnavailable(
                "UMAP, which completeness is measured with, is not installed.",
                hint="Install the extra 'summarization' (the package umap-learn).",
                code=ErrorCode.CONFIG_PACKAGE,
            ) from None
        for module in (umap.layouts, umap.umap_):
            _keep_compiled(module)
        model = umap.umap_.UMAP(
            n_components=min(DIMENSIONS, count - 2),
            n_neighbors=min(NEIGHBOURS, count - 1),
            min_dist=0.0,
            metric="cosine",
            init="pca",
            random_state=seed,
            transform_seed=seed,
            n_jobs=1,
        )
        points = np.asarray(model.fit_transform(document), dtype=np.float64)
        moved = np.asarray(model.transform(summary), dtype=np.float64)
    return points, moved


@cache
def _keep_compiled(module: ModuleType) -> None:
    """Have numba keep on disk what it compiles: for UMAP that takes half a minute, which each process would wait."""
    for each in vars(module).values():
        if hasattr(each, "enable_caching"):
            each.enable_caching()


def _distances(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the distance of each point from each of the others, of shape ``(n, m)``."""
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(one, other))


def plane_of(points: npt.NDArray[np.float64]) -> Plane:
    """Measure a document's points, at least two."""
    distances = _distances(points, points)
    between = distances[np.triu_indices(len(points), k=1)]
    return Plane(points, distances, float(np.percentile(between, PERCENTILE)), three_segments(distances))


def snap(summary: npt.NDArray[np.float64], plane: Plane) -> tuple[int | None, ...]:
    """Return for each summary point the closest document point, or ``None`` when it is not close to it."""
    distances = _distances(summary, plane.points)
    closest = distances.argmin(axis=1)
    return tuple(
        int(place) if distances[row, place] <= plane.near else None for row, place in enumerate(closest.tolist())
    )


def three_segments(distances: npt.NDArray[np.float64]) -> float:
    """Return the longest segment between two points and the longest further segment at each of its ends.

    Two points have the one segment between them; fewer have none.

    Args:
        distances: Distances between the points, of shape ``(n, n)``.
    """
    count = len(distances)
    if count < 2:
        return 0.0
    first, last = divmod(int(distances.argmax()), count)
    length = float(distances[first, last])
    if count == 2:
        return length
    others = np.ones(count, dtype=bool)
    others[[first, last]] = False
    return length + float(distances[first, others].max()) + float(distances[last, others].max())


log = logging.getLogger("leadline.evaluators")

COMPLETENESS: Final = "completeness"

LEFT_OUT: Final = 20
"""Summary sentences that stand for no document sentence, and are quoted, at most."""


class SummaryParams(EmbeddingParams):
    """Parameters of :class:`CompletenessFaithfulness`."""

    nli_model: str | None = Field(
        None,
        description="Model for natural language inference: a Hugging Face id, optionally ID@REVISION, or a "
        "directory. By default tals/albert-xlarge-vitaminc-mnli, for which SummaC Conv was trained.",
    )
    conv_weights: str | None = Field(
        None,
        description="Weights of SummaC Conv: a Hugging Face id, or a directory with "
        "summac_conv_vitc_sent_perc_e.bin or the same as model.safetensors. By default those of tingofurro/summac.",
    )
    zero_shot: ZeroShot = Field(
        "difference",
        description="What SummaC ZS takes from the document for each summary sentence: the greatest difference of "
        "entailment and contradiction in one sentence, the greatest entailment less the greatest contradiction "
        "in any sentence as the package summac does ('package'), or the greatest entailment alone.",
    )
    seed: int = Field(42, ge=0, le=2**32 - 1, description="Seed of the dimensionality reduction.")
    max_pairs: int = Field(
        20_000,
        ge=1,
        description="Pairs of a document's and a summary's sentences that are compared for one row, at most; a row "
        "with more has no faithfulness.",
    )


@register
class CompletenessFaithfulness(Evaluator):
    """Measures a summary (the answer) against the text that was to be summarized (the question), by sentences.

    **Completeness** (geometric). The distinct sentences of both are embedded. UMAP, trained on the document's, reduces
    them to ``min(5, sentences - 2)`` dimensions. Each summary point moves to the closest document point if its
    Euclidean distance is at most the 50th percentile of the distances between document points, and is thrown out
    otherwise. ``completeness = L(summary points) / L(document points)``, where ``L``, the three segment distance, is
    the longest segment between two points and the longest further segment at each of its ends. A set of points has
    each point once; the ratio is cut at 1, since a subset can have the longer ends. With equal seeds it is equal to
    the last bit on the same machine: the sentences of a row are embedded apart from all others, as the reduction turns
    a change of 1e-7 into another picture.

    **Faithfulness (SummaC ZS)**. ``mean over summary sentences of (max over document sentences of (E - C))``, where
    ``E`` and ``C`` are the probabilities that the document's sentence entails and contradicts it; a negative mean
    counts as 0, the end of the range. Sources differ: the package ``summac`` subtracts the greatest ``C`` from the
    greatest ``E``, H2O Sonar leaves ``C`` out; the parameter ``zero_shot`` selects their ways.

    **Faithfulness (SummaC Conv)**. The published layer on histograms of ``E``: see
    :mod:`leadline.evaluators.models.summac_conv`.

    **Edge cases.**

    * Sentences of up to 10 characters do not count while there are longer ones, as in the package.
    * A sentence that is longer than half of what the model reads is cut into parts that fit and count as sentences.
    * A document of fewer than 3 distinct sentences or a summary of fewer than 2 spans no area: completeness is
      unscored. Where all but one sentence of the summary were thrown out it is 0.
    * A document or a summary without a sentence: unscored, and a problem.
    * More than ``max_pairs`` pairs: faithfulness is unscored; more than 5,000 sentences: completeness is unscored.
    * Each metric has instruments of its own: without UMAP or the weights of one, the others are still measured.
    """

    spec = Spec(
        id="summarization_completeness_faithfulness",
        name="Summarization (Completeness and Faithfulness) Evaluator",
        origin="h2o",
        inputs=(RowField.QUESTION, RowField.ACTUAL_ANSWER),
        metrics=(
            Metric.higher(
                COMPLETENESS,
                "Part of the area of the document's sentences that the summary's grounded sentences cover.",
                name="Completeness",
                primary=True,
            ),
            Metric.higher(
                CONV,
                "How well the summary preserves the meaning and the facts of the document: a learned layer "
                "over the distribution of entailment between their sentences.",
                name="Faithfulness (SummaC Conv)",
            ),
            Metric.higher(
                ZERO_SHOT,
                "How well the summary preserves the meaning and the facts of the document: the mean over "
                "its sentences of the best support that one of the document's gives.",
                name="Faithfulness (SummaC ZS)",
            ),
        ),
        gpu=False,
        lane="gpu",
        sentences=True,
        insight_type="summarization",
        problem_type="summarization",
        keywords=("summarization", "NLI", "faithfulness", "completeness", "UMAP"),
        suits=(DataKind.DOCUMENTS,),
        source="H2O Sonar evaluator reference: Summarization (Completeness and Faithfulness) Evaluator; "
        "https://arxiv.org/abs/2111.09525",
    )
    parameters = SummaryParams
    params: SummaryParams

    def nli(self, ctx: EvalContext) -> ModelRef:
        """Return the weights for natural language inference."""
        return _named(self.params.nli_model, "nli", ctx) or VITAMINC_NLI

    def conv(self, ctx: EvalContext) -> ModelRef:
        """Return the weights of SummaC Conv."""
        return _named(self.params.conv_weights, "summac_conv", ctx) or SUMMAC_CONV

    def embedder(self, ctx: EvalContext) -> ModelRef:
        """Return the embedder: the evaluator's parameter, else the run's setting, else the reference's."""
        return weights.embedder(self.params.embedding_model, BGE_SMALL_EN_V15, ctx.settings)

    def models(self, ctx: EvalContext) -> tuple[ModelRef, ...]:
        """Return all three."""
        return (self.embedder(ctx), self.nli(ctx), self.conv(ctx))

    def identity(self, ctx: EvalContext) -> dict[str, Json]:
        """Return what keys cover: weights by what they are, and UMAP's version."""
        out = super().identity(ctx)
        names = ("embedding_model", "nli_model", "conv_weights")
        out["params"] = {name: value for name, value in self.params.identity().items() if name not in names}
        return out | {"reduction": _umap_version()}

    def score(self, rows: Sequence[Row], ctx: EvalContext) -> list[RowScore]:
        """Score rows, completeness one by one and faithfulness in one pass over all rows' pairs."""
        texts = [
            Texts(counting(ctx.sentences(row.question or "")), counting(ctx.sentences(row.actual_answer or "")))
            for row in rows
        ]
        explain = partial(with_pull_command, evaluator=self, ctx=ctx)
        complete = self._complete(rows, texts, ctx, explain)
        faithful = SummaC(
            self.nli(ctx), self.conv(ctx), self.params.zero_shot, self.params.max_pairs, ctx.settings, explain
        ).of(texts)
        return [_joined(one, *parts) for one, *parts in zip(texts, complete, faithful, strict=True)]

    def _complete(
        self,
        rows: Sequence[Row],
        texts: Sequence[Texts],
        ctx: EvalContext,
        explain: Callable[[LeadlineError], LeadlineError],
    ) -> list[SummaryPart]:
        """Measure completeness; an instrument that is not here is looked for once, since that can mean fetching it."""
        missing: SummaryPart | None = None
        out = []
        for row, one in zip(rows, texts, strict=True):
            part = _unmeasured(one) or missing
            if part is None:
                try:
                    part = self._completeness(one, ctx)
                except ModelUnavailable as error:
                    part = missing = failed([COMPLETENESS], error, explain)
                except Exception as error:
                    if not isinstance(error, LeadlineError):
                        log.exception("%s failed on case %r of model %r", self.spec.id, row.case, row.model)
                    part = failed([COMPLETENESS], error)
            out.append(part)
        return out

    def _completeness(self, texts: Texts, ctx: EvalContext) -> SummaryPart:
        document, summary = _distinct(texts)
        ref = self.embedder(ctx)
        found = cover(
            embed_apart(ref, document, settings=ctx.settings),
            embed_apart(ref, summary, settings=ctx.settings),
            seed=self.params.seed,
        )
        if found.value is None:
            message = "The document's sentences are all the same to the embedder, and span no area."
            return without([COMPLETENESS], Reason.UNSCORABLE, message, flag=True)
        left_out = [text for text, place in zip(summary, found.closest, strict=True) if place is None]
        return SummaryPart(
            {COMPLETENESS: found.value},
            {
                "dimensions": found.dimensions,
                "document_sentences": len(document),
                "covered_sentences": len({place for place in found.closest if place is not None}),
                "left_out": [quote(text) for text in left_out[:LEFT_OUT]],
            },
        )


def _named(name: str | None, kind: ModelKind, ctx: EvalContext) -> ModelRef | None:
    return weights.chosen(name, kind, ctx.settings) if name else None


def _umap_version() -> str | None:
    try:
        return f"umap-learn@{importlib.metadata.version('umap-learn')}"
    except importlib.metadata.PackageNotFoundError:
        return None


def _distinct(texts: Texts) -> tuple[list[str], list[str]]:
    document, summary = (dict.fromkeys(each.text for each in some) for some in (texts.document, texts.summary))
    return list(document), list(summary)


def _unmeasured(texts: Texts) -> SummaryPart | None:
    """Return the part of a row whose completeness cannot be measured."""
    if texts.missing:
        return without([COMPLETENESS], Reason.UNSCORABLE, texts.missing)
    document, summary = map(len, _distinct(texts))
    if document < FEWEST_SENTENCES:
        message = f"The document has fewer than {FEWEST_SENTENCES} different sentences, which span no area."
    elif document > MOST_SENTENCES or summary > MOST_SENTENCES:
        message = (
            f"Completeness is measured up to {MOST_SENTENCES} different sentences of the document and of the summary."
        )
    elif summary < 2:
        message = "The summary has fewer than 2 different sentences, which span no area."
    else:
        return None
    return without([COMPLETENESS], Reason.UNSCORABLE, message, flag=True)


def _joined(texts: Texts, complete: SummaryPart, faithful: SummaryPart) -> RowScore:
    parts = {"completeness": complete.data, "faithfulness": faithful.data}
    return RowScore(
        complete.values | faithful.values,
        Evidence(
            f"{len(texts.summary)} sentences summarize {len(texts.document)}.",
            faithful.spans,
            {name: data for name, data in parts.items() if data},
        ),
        complete.flags + faithful.flags,
    )
