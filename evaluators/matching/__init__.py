"""Evaluators that compare the answer with what it should say, by exact rules: equal, contained, matched, near."""
