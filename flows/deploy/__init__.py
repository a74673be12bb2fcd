"""Deploying: what is served on a Prefect server, and bringing the server to that state."""
