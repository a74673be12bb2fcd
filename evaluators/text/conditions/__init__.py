"""Text-matching conditions: their grammar, the check with its evidence, and users' regular expressions."""
