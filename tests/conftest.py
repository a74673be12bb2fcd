"""Servers and databases that the tests of any room may ask for; a server is started by the first test that does."""

from tests.support.ledgers import place
from tests.support.postgres import postgres_server, postgres_url
from tests.support.s3 import s3, s3_server

__all__ = ["place", "postgres_server", "postgres_url", "s3", "s3_server"]
