"""Step 3, score: a chunk of rows becomes segments of scores, on this machine or on a worker."""
