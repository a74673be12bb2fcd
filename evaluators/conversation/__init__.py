"""Evaluators of conversations: their turns by what was said before, and what they come to as a whole."""
