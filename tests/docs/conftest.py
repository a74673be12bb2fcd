"""One Prefect server for all pages whose blocks run flows."""

from tests.flows.conftest import api

__all__ = ["api"]
