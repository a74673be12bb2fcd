"""The bridge to MLflow: :func:`log` logs a result as a run, :func:`scorer` makes scorers for ``mlflow.genai``."""

from leadline.bridges.mlflow_run import log as log
from leadline.bridges.mlflow_scorer import scorer as scorer

__all__ = ["log", "scorer"]
