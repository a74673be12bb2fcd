"""Embeddings in the store: immutable segments, and an index over them."""
