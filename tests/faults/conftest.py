"""Servers that a test may break, proxies before them, and what an agent and a worker have on top of them."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio

from saver import TieredSaver
from saver.connect import Tiers, connect
from tests.builders import Thread
from tests.faults.world import FAMILIES, World
from tests.fix_proxy import Proxy
from worker.embedded import Embedded


@pytest.fixture(scope="package")
def breakable_servers() -> Iterator[Embedded]:
    """A Redis that keeps an append-only file and a Postgres, for the tests of this folder alone."""
    with Embedded(redis_settings={"appendonly": "yes"}, postgres_settings={"max_connections": 30}) as servers:
        yield servers


@pytest.fixture
def world(
    breakable_servers: Embedded, proxied: Callable[[str], Proxy], request: pytest.FixtureRequest
) -> Iterator[World]:
    """Both servers behind proxies, whole again after the test."""
    servers = breakable_servers
    opened = World(servers, proxied(servers.redis_url), proxied(servers.postgres_url))
    if request.node.get_closest_marker("patient"):
        opened.limits = {"redis_timeout": "5s", "postgres_timeout": "15s"}
    yield opened
    opened.mend()


@pytest_asyncio.fixture
async def agent(world: World) -> AsyncIterator[TieredSaver]:
    """An agent's saver, with the async methods."""
    async with TieredSaver(world.config) as opened:
        yield opened


@pytest_asyncio.fixture(params=FAMILIES)
async def either_family(world: World, request: pytest.FixtureRequest) -> AsyncIterator[TieredSaver]:
    """An agent's saver whose async methods are the real ones, or the blocking ones in threads."""
    async with FAMILIES[request.param](world.config) as opened:
        yield opened


@pytest_asyncio.fixture
async def worker(world: World) -> AsyncIterator[Tiers]:
    """Both tiers: what a worker has."""
    async with connect(world.config) as opened:
        yield opened


@pytest.fixture
def thread(agent: TieredSaver) -> Thread:
    return Thread(agent)
