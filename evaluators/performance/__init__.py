"""Evaluators of time, money and tokens, from the columns of the dataset."""
