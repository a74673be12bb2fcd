"""Evaluators of structured answers: JSON, its schema and its fields, and the form of Markdown."""
