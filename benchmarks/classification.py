"""Time Valor's classification against bare scikit-learn: 1,000,000 predictions with ROC AUC and curves.

scikit-learn gets the scores as a matrix, and computes ROC AUC one against all others, the ROC and the precision-recall
curve of every label, the confusion matrix and precision, recall and F1. Leadline gets the payloads of its rows, as it
reads them from the store, and computes the same, with Valor's precision-recall curves at 19 scores and their detailed
form with examples. Both are run in turn, and the best of each counts. Intervals by bootstrap are timed on their own.

    python -m benchmarks.classification [PREDICTIONS] [LABELS]
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.machine import describe, timed, verdict
from leadline.evaluators.classification._items import payload_of
from leadline.evaluators.classification.valor_classification import ValorClassification
from leadline.tasks.analyse.aggregate import resample

ROUNDS: Final = 3
LIMIT: Final = 3.0


def made(predictions: int, labels: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the true label of each item, and a score for every item and label; scores of an item add up to 1."""
    random = np.random.default_rng(0)
    n = predictions // labels
    truth = random.integers(0, labels, n)
    logits = random.normal(size=(n, labels))
    logits[np.arange(n), truth] += 1.0
    scores = np.exp(logits)
    return truth, scores / scores.sum(axis=1, keepdims=True)


def scikit_learn(truth: npt.NDArray[np.int64], scores: npt.NDArray[np.float64]) -> dict[str, float]:
    """Compute everything with scikit-learn."""
    from sklearn.metrics import (
        accuracy_score,
        confusion_matrix,
        precision_recall_curve,
        precision_recall_fscore_support,
        roc_auc_score,
        roc_curve,
    )

    best = scores.argmax(axis=1)
    for label in range(scores.shape[1]):
        roc_curve(truth == label, scores[:, label])
        precision_recall_curve(truth == label, scores[:, label])
    confusion_matrix(truth, best)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, _, f1, _ = precision_recall_fscore_support(truth, best, average="macro")
    return {
        "accuracy": float(accuracy_score(truth, best)),
        "f1": float(f1),
        "rocauc": float(np.mean([roc_auc_score(truth == label, column) for label, column in enumerate(scores.T)])),
    }


def leadline(payloads: list[Any], cases: list[str]) -> dict[str, float]:
    """Compute everything with Leadline, from payloads to details."""
    evaluator = ValorClassification()
    weights = np.ones(len(payloads))
    prepared = evaluator.prepare(payloads)
    values = evaluator.aggregate(prepared, weights[np.newaxis])
    evaluator.details(prepared, weights, cases)
    return {name: float(values[name][0]) for name in ("accuracy", "f1", "rocauc")}


def main() -> None:
    """Run both and print the times."""
    print(describe())
    sizes = [int(argument) for argument in sys.argv[1:]]
    predictions, labels = (*sizes, *(1_000_000, 10)[len(sizes) :])
    truth, scores = made(predictions, labels)
    names = [f"label {number}" for number in range(labels)]
    payloads = [
        payload_of([("class", names[true])], [("class", name, score) for name, score in zip(names, row, strict=True)])
        for true, row in zip(truth.tolist(), scores.tolist(), strict=True)
    ]
    cases = [str(number) for number in range(len(payloads))]
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for function, args in ((scikit_learn, (truth, scores)), (leadline, (payloads, cases))):
            with timed() as timing:
                values = function(*args)
            best[function.__name__] = min(timing.seconds, best.get(function.__name__, timing.seconds))
            print(f"{function.__name__:13} {timing.seconds:6.2f} s  {values}")
    evaluator = ValorClassification()
    prepared = evaluator.prepare(payloads)
    with timed() as timing:
        resample(evaluator, prepared, np.ones(len(payloads)), len(payloads))
    print(f"intervals     {timing.seconds:6.2f} s  ({evaluator.resamples(prepared)} resamples)")
    ratio = best["leadline"] / best["scikit_learn"]
    print(verdict(f"{predictions:,} predictions of {labels} labels, times scikit-learn", ratio, LIMIT, at_least=False))


if __name__ == "__main__":
    main()
