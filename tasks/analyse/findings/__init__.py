"""Findings of a run: problems and insights, each a sentence with its numbers and rows."""
