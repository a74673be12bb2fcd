"""Text utilities that several evaluators share: sentences, tokens, patterns."""
