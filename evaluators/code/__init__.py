"""Evaluators of answers that are code: queries in SQL, and programs, run where they can do no harm."""
