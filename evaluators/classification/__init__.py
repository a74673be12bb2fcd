"""Evaluators of the classification family."""
