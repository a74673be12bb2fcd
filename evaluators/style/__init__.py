"""Evaluators of style: length, readability, language, refusals."""
