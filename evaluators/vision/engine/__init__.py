"""Geometry, matching and curves that the vision evaluators share."""
