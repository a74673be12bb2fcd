"""One Prefect server for all pages whose blocks run flows."""

from tests.flows.conftest import api, migrated

__all__ = ["api", "migrated"]
