"""Chunks scored on a Dask cluster."""
