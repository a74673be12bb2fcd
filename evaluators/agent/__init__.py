"""Databricks' judges of answers and of retrieved chunks."""
