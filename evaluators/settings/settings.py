"""A run's choices, as evaluators see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from leadline.evaluators.settings.judge_config import JudgeConfig

Precision: TypeAlias = Literal["auto", "float32", "float16", "bfloat16"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Choices for a run that evaluators see.

    Attributes:
        language: Language of the texts, as an ISO 639-1 code.
        splitter: ``auto`` (punkt where its data is installed, else rules), ``punkt`` or ``rules``.
        embedder: Embedder for every evaluator instead of its own default: a Hugging Face id (optionally
            ``id@revision``), a directory, or ``offline``.
        offline_for: Default embedders, by Hugging Face id, in whose place ``offline`` is used since they are not on the
            machine that planned the run. A worker that has them uses ``offline`` as well: it is part of the keys.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
        precision: Number format of models; ``auto`` is float16 where ``device`` names CUDA and float32 otherwise.
        backend: Engine that runs embedders and cross-encoders: ``torch``, or ``onnx`` on a CPU.
        allow_download: Whether weights may be fetched while scoring.
        allow_pickle: Whether pickled weights may be loaded where a model has no safetensors; they can run any code.
        judges: The judges that can be asked, the default one first.
        evaluators_dir: Folder of the user's own judges as YAML files.
        evaluator_files: Python files with the user's own evaluators.
    """

    language: str = "en"
    splitter: Literal["auto", "punkt", "rules"] = "auto"
    embedder: str | None = None
    offline_for: tuple[str, ...] = ()
    device: str = "auto"
    precision: Precision = "auto"
    backend: Literal["torch", "onnx"] = "torch"
    allow_download: bool = False
    allow_pickle: bool = False
    judges: tuple[JudgeConfig, ...] = ()
    evaluators_dir: str | None = None
    evaluator_files: tuple[str, ...] = ()
