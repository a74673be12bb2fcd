"""The bridge to inspect_ai: :func:`scorer` makes scorers of Leadline's evaluators."""

from leadline.flows.bridges.inspect_scorer import scorer as scorer

__all__ = ["scorer"]
