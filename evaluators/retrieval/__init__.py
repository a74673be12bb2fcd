"""Evaluators of the retrieval family."""
