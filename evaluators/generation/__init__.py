"""Evaluators of what answers say: correct, relevant, grounded, like the reference."""
