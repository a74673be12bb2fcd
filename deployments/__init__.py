"""Serving the flows: deployments (``prefect.yaml``), containers, and the service as plain processes."""
