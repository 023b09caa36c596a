"""A configuration, both tiers and a saver of the test's own, on the shared servers."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from saver import TierConfig, TieredSaver
from saver.connect import Tiers, connect


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
