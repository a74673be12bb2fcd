"""A run's results in the layout of H2O Eval Studio: a folder per evaluator."""
