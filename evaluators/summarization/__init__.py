"""Evaluators of the summarization family."""
