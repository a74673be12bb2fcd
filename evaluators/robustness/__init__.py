"""Evaluators of robustness: perplexity, attacks, answers that stay what they were."""
