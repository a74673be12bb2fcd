"""SummaC Conv: the published layer that turns a sentence's entailment scores into one number.

Of each summary sentence it sees how many of the document's sentences entail it how strongly: a histogram of the
entailment probabilities over :data:`BINS`. A linear layer makes one number of it, the sentences' numbers are averaged,
a second linear layer makes two logits of the average, and the score is the softmax's second part. See section 3 of
https://arxiv.org/abs/2111.09525 and ``SummaCConv`` of https://github.com/tingofurro/summac with
``bins="percentile", nli_labels="e", agg="mean"``, for which the published weights were trained.

They are published in PyTorch's archive format: a zip file with a pickled description, and one entry of plain
little-endian numbers per tensor. The four tensors differ in size, so the numbers are read as they are, and nothing is
unpickled.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from leadline.evaluators.ground import ErrorCode, ModelRef, ModelUnavailable
from leadline.evaluators.models import weight_files
from leadline.evaluators.models.runtime import model_settings
from leadline.evaluators.models.tokens import windows
from leadline.evaluators.models.weights import locate

if TYPE_CHECKING:
    import numpy.typing as npt

    from leadline.evaluators.settings import Settings

BINS: Final = (
    *(0.0, 0.01, 0.02, 0.03, 0.04, 0.07, 0.13, 0.37),
    *(0.90, 0.91, 0.92, 0.93, 0.94, 0.95, 0.955, 0.96, 0.965, 0.97, 0.975, 0.98, 0.985, 0.99, 0.995, 1.0),
)
"""Edges of the histogram's bins; the last bin includes its upper edge."""

DOCUMENT: Final = 100
"""Sentences of a document in one histogram, at most: as many as the weights were trained with."""

_SHAPES: Final = {
    "mlp.weight": (1, len(BINS) - 1),
    "mlp.bias": (1,),
    "layer_final.weight": (2, 3),
    "layer_final.bias": (2,),
}
_FLOAT: Final = 4


@dataclass(frozen=True)
class SummaCConv:
    """The two layers, float64.

    Attributes:
        weight: First layer's weights, of shape ``(bins,)``.
        last_weight: Second layer's weights, of shape ``(2, 3)``.
        last_bias: Its bias, of shape ``(2,)``.
    """

    weight: npt.NDArray[np.float64]
    bias: float
    last_weight: npt.NDArray[np.float64]
    last_bias: npt.NDArray[np.float64]

    def sentence(self, entailment: npt.NDArray[np.float64]) -> float:
        """Return the first layer's number for a summary sentence.

        A document of more than :data:`DOCUMENT` sentences is read in parts of about equal size, and only the part
        with the sentence that entails most counts; the published code drops what is beyond the first 100.

        Args:
            entailment: Probability that each of the document's sentences entails it, of shape ``(sentences,)``.
        """
        best = int(entailment.argmax())
        start, end = next(part for part in windows(len(entailment), DOCUMENT) if part[0] <= best < part[1])
        counts, _ = np.histogram(entailment[start:end], bins=np.array(BINS))
        return float(counts @ self.weight) + self.bias

    def score(self, entailment: npt.NDArray[np.float64]) -> float:
        """Return the score of a summary, from 0 to 1.

        All sentences of the summary count; the published code averages over the first 10.

        Args:
            entailment: Probabilities of shape ``(document sentences, summary sentences)``, at least one of each.
        """
        mean = sum(self.sentence(column) for column in entailment.T) / entailment.shape[1]
        logits = self.last_weight.sum(axis=1) * mean + self.last_bias
        return float(1.0 / (1.0 + np.exp(np.clip(logits[0] - logits[1], -700.0, 700.0))))


def layer(ref: ModelRef, *, settings: Settings) -> SummaCConv:
    """Return the layer of some weights.

    Args:
        settings: The run's choices: whether weights may be fetched.

    Raises:
        ModelUnavailable: They are not here, or are not those of SummaC Conv.
    """
    return _load(ref, model_settings(settings))


@lru_cache(maxsize=2)
def _load(ref: ModelRef, settings: Settings) -> SummaCConv:
    folder = locate(ref, settings)
    tensors = _tensors(ref, folder)
    if {name: value.shape for name, value in tensors.items()} != _SHAPES:
        raise _other_weights(ref)
    return SummaCConv(
        weight=tensors["mlp.weight"][0],
        bias=float(tensors["mlp.bias"][0]),
        last_weight=tensors["layer_final.weight"],
        last_bias=tensors["layer_final.bias"],
    )


def _tensors(ref: ModelRef, folder: Path) -> Mapping[str, npt.NDArray[np.float64]]:
    path = folder / weight_files.SUMMAC_CONV
    try:
        if (folder / weight_files.WEIGHTS).is_file():
            from safetensors.numpy import load_file

            return {name: value.astype("float64") for name, value in load_file(folder / weight_files.WEIGHTS).items()}
        if zipfile.is_zipfile(path):
            return _from_archive(path)
        import torch

        state = torch.load(
            path, map_location="cpu", weights_only=True
        )  # only with the user's consent: see weight_files.defect
        return {name: value.double().numpy() for name, value in state.items()}
    except Exception as error:
        raise _other_weights(ref) from error


def _from_archive(path: Path) -> dict[str, npt.NDArray[np.float64]]:
    """Return the tensors of an archive by their sizes; its checksums are verified."""
    names = {_FLOAT * int(np.prod(shape)): name for name, shape in _SHAPES.items()}
    out = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            folder, _, last = entry.filename.rpartition("/")
            if folder.endswith("/data") and last.isdigit() and entry.file_size in names:
                name = names[entry.file_size]
                values = np.frombuffer(archive.read(entry), dtype="<f4").astype("float64")
                out[name] = values.reshape(_SHAPES[name])
    return out


def _other_weights(ref: ModelRef) -> ModelUnavailable:
    return ModelUnavailable(
        f"{ref} does not hold the weights of SummaC Conv.",
        hint=f"Choose tingofurro/summac, or a directory with {weight_files.SUMMAC_CONV} or the same in safetensors.",
        code=ErrorCode.MODEL_WRONG_KIND,
    )
