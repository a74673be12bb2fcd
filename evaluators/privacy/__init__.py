"""Evaluators of leaks: personal data, secrets, encoded texts."""
