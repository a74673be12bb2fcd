"""Keeping a store in order: what it needs no more, copies of it, its integrity, and its format."""
