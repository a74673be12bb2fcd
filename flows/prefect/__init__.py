"""Prefect servers: which API a run talks to, the one kept in the background, and the one for a single run."""
