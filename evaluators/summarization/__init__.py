"""Evaluators of summaries: faithful, complete, coherent."""
