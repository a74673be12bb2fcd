"""Evaluators of the privacy family."""
