"""Evaluators of the style family: length, readability, language, refusals."""
