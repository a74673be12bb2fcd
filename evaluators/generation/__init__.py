"""Evaluators of the generation family."""
