"""An agent and a worker on a cluster, and what they do after an error of the hot tier."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from saver import TierConfig
from saver.errors import HotTierError
from tests.fix_cluster import Cluster
from tests.waiting import eventually_async

T = TypeVar("T")


@pytest.fixture
def on_cluster(cluster: Cluster, redis_url: str, postgres_url: str, prefix: str, schema: str) -> TierConfig:
    """A cluster for the threads, a Redis of its own for the queue, and few slots that matter."""
    return TierConfig(
        redis_url=cluster.url,
        queue_url=redis_url,
        postgres_url=postgres_url,
        key_prefix=prefix,
        postgres_schema=schema,
        partitions=16,
        archive_after="100ms",
        demote_after="200ms",
        redis_timeout="1s",
    )


async def until_it_works(call: Callable[[], Awaitable[T]], *, within_seconds: float = 30) -> T:
    """What an agent or a worker does after an error of the hot tier: the same again."""

    async def attempt() -> list[T]:
        try:
            return [await call()]
        except HotTierError:
            return []

    [result] = await eventually_async(attempt, within_seconds=within_seconds)
    return result
