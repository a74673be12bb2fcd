"""Metrics for operators: figures of the store and of the ledger, for a Prometheus server to collect."""
