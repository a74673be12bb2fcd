"""A run's scores as the tables of Databricks' agent evaluation."""
