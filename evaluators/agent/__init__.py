"""Evaluators of the agent family."""
