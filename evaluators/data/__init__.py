"""Values that evaluators read and return: rows, scores, evidence, annotations, details."""
