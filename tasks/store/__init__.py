"""The store: where datasets, scores and runs live, and how files get into it."""
