"""Evaluators of the performance family: time, money and tokens, from the columns of the dataset."""
