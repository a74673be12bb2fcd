"""The bridge to inspect_ai: :func:`scorer` makes scorers of Leadline's evaluators."""

from leadline.bridges.inspect_scorer import scorer as scorer

__all__ = ["scorer"]
