"""Judges: the flow that checks whether they are still those that were enrolled, and certifying them by labels."""
