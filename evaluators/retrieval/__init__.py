"""Evaluators of what was retrieved: relevant, complete, in the right order."""
