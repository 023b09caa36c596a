"""Servers that a test may break, proxies before them, and what an agent and a worker have on top of them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from saver import TieredSaver
from saver.connect import Tiers, connect
from tests.builders import Thread
from tests.faults.world import BlockingFamily, World
from tests.fix_proxy import Proxy
from tests.fix_servers import StartServers

FAMILIES = {"async": TieredSaver, "blocking": BlockingFamily}


@pytest.fixture
def world(private_servers: StartServers, proxied: Callable[[str], Proxy]) -> World:
    """A Redis that keeps an append-only file and a Postgres, for this test alone, both behind proxies."""
    servers = private_servers(redis_settings={"appendonly": "yes"}, postgres_settings={"max_connections": 30})
    return World(servers, proxied(servers.redis_url), proxied(servers.postgres_url))


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
    """Both tiers, straight to the servers: what a worker has."""
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(connect(world.direct_config))


@pytest.fixture
def thread(agent: TieredSaver) -> Thread:
    return Thread(agent)
