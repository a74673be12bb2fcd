"""Text-matching conditions: their grammar, the check, what a reader is told, and users' regular expressions."""
