"""A configuration, both tiers and a saver of the test's own, on the shared servers."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from saver import TierConfig, TieredSaver
from saver.connect import Tiers, connect
from tests.builders import Thread

Open = Callable[[], Awaitable[Tiers]]


@pytest.fixture
def config(redis_url: str, postgres_url: str, prefix: str, schema: str) -> TierConfig:
    """Few partitions, otherwise the defaults."""
    return TierConfig(
        redis_url=redis_url, postgres_url=postgres_url, key_prefix=prefix, postgres_schema=schema, partitions=4
    )


@pytest_asyncio.fixture
async def tiers(config: TierConfig) -> AsyncIterator[Tiers]:
    """Both tiers, open: what a worker has."""
    async with connect(config) as opened:
        yield opened


@pytest_asyncio.fixture
async def saver(config: TierConfig) -> AsyncIterator[TieredSaver]:
    """An open saver: what an agent has."""
    async with TieredSaver(config) as opened:
        yield opened


@pytest_asyncio.fixture
async def another(config: TierConfig) -> AsyncIterator[Open]:
    """Opens the tiers once more: another worker."""
    async with AsyncExitStack() as stack:

        async def open_() -> Tiers:
            return await stack.enter_async_context(connect(config))

        yield open_


@pytest.fixture
def thread(saver: TieredSaver) -> Thread:
    """A new thread of the saver."""
    return Thread(saver)
