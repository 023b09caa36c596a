"""
A real Redis and a real Postgres for every test.

TEST_REDIS_URL and TEST_POSTGRES_URL choose servers that run already; else one pair from wheels serves the session.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

import psycopg
import pytest
import redis
from psycopg import sql

from worker.embedded import Embedded


class StartServers(Protocol):
    """Starts a pair of servers of the test's own, to kill, freeze or fill; it ends with the test."""

    def __call__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        durable: bool | None = None,
        redis_settings: dict[str, object] | None = None,
        postgres_settings: dict[str, object] | None = None,
    ) -> Embedded: ...


@pytest.fixture(scope="session", autouse=True)
def _clean_environment() -> Iterator[None]:
    """The tests see no TIER_ variable of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("TIER_")]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def shared_servers() -> Iterator[Embedded]:
    """The pair from wheels that the session shares: not durable, so fast."""
    with Embedded() as servers:
        yield servers


@pytest.fixture(scope="session")
def redis_url(request: pytest.FixtureRequest) -> str:
    """A Redis that other tests use too: stay within `prefix`."""
    chosen = os.environ.get("TEST_REDIS_URL")
    return chosen or str(request.getfixturevalue("shared_servers").redis_url)


@pytest.fixture(scope="session")
def postgres_url(request: pytest.FixtureRequest) -> str:
    """A Postgres that other tests use too: stay within `schema`."""
    chosen = os.environ.get("TEST_POSTGRES_URL")
    return chosen or str(request.getfixturevalue("shared_servers").postgres_url)


@pytest.fixture
def prefix(redis_url: str) -> Iterator[str]:
    """A TIER_KEY_PREFIX of the test's own; what it left is removed."""
    name = f"test-{secrets.token_hex(6)}"
    yield name
    with redis.Redis.from_url(redis_url) as client:
        for key in client.scan_iter(match=f"{name}*", count=1000):
            client.unlink(key)


@pytest.fixture
def schema(postgres_url: str) -> Iterator[str]:
    """An empty TIER_POSTGRES_SCHEMA of the test's own, dropped afterwards."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
    yield name
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        # A transaction that the test left open would hold this up for ever.
        connection.execute("set lock_timeout = '10s'")
        connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))


@pytest.fixture
def private_servers() -> Iterator[StartServers]:
    """A function that starts servers which only this test uses."""
    with ExitStack() as stack:

        def start(
            data_dir: str | os.PathLike[str] | None = None,
            *,
            durable: bool | None = None,
            redis_settings: dict[str, object] | None = None,
            postgres_settings: dict[str, object] | None = None,
        ) -> Embedded:
            servers = Embedded(
                data_dir, durable=durable, redis_settings=redis_settings, postgres_settings=postgres_settings
            )
            return stack.enter_context(servers)

        yield start
