"""Step 3, score: rows of any origin are scored one way; those of a chunk become segments, here or on a worker."""
