"""The exporter of metrics: figures of store, ledger and Prefect's API over HTTP."""
