"""Evaluators: one module per evaluator or small family, and the parts that they share."""
