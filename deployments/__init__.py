"""How the flows are served: what is deployed (``prefect.yaml``), containers, and the service as plain processes."""
