"""Evaluators of fairness: toxicity and bias."""
