"""Runs in the store: finding, tagging, showing and querying them."""
