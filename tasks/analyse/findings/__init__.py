"""What a run found: problems and insights, each a sentence with the numbers and rows behind it."""
