"""TIER_POSTGRES_REPLICA_URL on a real streaming replica: used for listings, never for what decides."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import psycopg
import pytest
import pytest_asyncio

from saver import TierConfig, TieredSaver, survey
from saver.connect import Tiers, connect
from saver.demote import demote
from tests.builders import Thread
from tests.fix_nodes import PostgresNode
from tests.waiting import eventually, eventually_async


@dataclass
class Pair:
    """A primary and the replica that follows it."""

    primary: PostgresNode
    replica: PostgresNode

    def on(self, node: PostgresNode, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(node.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def stand_still(self) -> None:
        """The replica gets what the primary writes, and shows nothing of it."""
        self.on(self.replica, "select pg_wal_replay_pause()")
        eventually(lambda: self.on(self.replica, "select pg_get_wal_replay_pause_state()") == [("paused",)])


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        primary = PostgresNode()
        stack.callback(primary.remove)
        primary.make()
        primary.start()
        replica = PostgresNode()
        stack.callback(replica.remove)
        replica.password = primary.password
        replica.copy(primary.url)
        replica.start()
        yield Pair(primary, replica)


@pytest.fixture
def with_replica(pair: Pair, redis_url: str, prefix: str) -> Iterator[TierConfig]:
    yield TierConfig(
        redis_url=redis_url,
        postgres_url=pair.primary.url,
        postgres_replica_url=pair.replica.url,
        postgres_schema=prefix.replace("-", "_"),
        key_prefix=prefix,
        partitions=4,
        postgres_timeout="4s",
    )
    if not pair.replica.answers():
        pair.replica.start()
    pair.on(pair.replica, "select pg_wal_replay_resume()")


@pytest_asyncio.fixture
async def saver(with_replica: TierConfig) -> AsyncIterator[TieredSaver]:
    async with TieredSaver(with_replica) as opened:
        yield opened


@pytest_asyncio.fixture
async def tiers(with_replica: TierConfig) -> AsyncIterator[Tiers]:
    async with connect(with_replica) as opened:
        yield opened


async def archived(saver: TieredSaver) -> Thread:
    """A thread that is in Postgres alone."""
    thread = Thread(saver)
    await thread.put({"x": [1]}, metadata={"user_id": "u"})
    await saver.demote(thread.thread_id)
    return thread


async def test_listings_and_counts_come_from_the_replica(pair: Pair, saver: TieredSaver, tiers: Tiers) -> None:
    thread = await archived(saver)

    async def is_listed() -> bool:
        return [info.thread_id for info in await saver.list_threads({"user_id": "u"})] == [thread.thread_id]

    await eventually_async(is_listed)
    assert await saver.count_threads({"user_id": "u"}) == 1
    pair.stand_still()
    await archived(saver)
    assert await survey.cold_threads(tiers) == 1
    assert await saver.count_threads({"user_id": "u"}) == 1


async def test_what_decides_never_asks_the_replica(pair: Pair, saver: TieredSaver, tiers: Tiers) -> None:
    pair.stand_still()
    thread = await archived(saver)

    assert await thread.values() == {"x": [1]}
    first = thread.checkpoint_id
    second = await thread.put({"x": [2]})
    assert await saver.tier_of(thread.thread_id) == "hot"
    await demote(tiers, thread.thread_id)
    assert await thread.ids() == [second, first]
    await saver.adelete_thread(thread.thread_id)
    assert await thread.latest() is None
    assert [found async for found in saver.alist(thread.config())] == []


async def test_a_replica_that_lags_is_left_alone(pair: Pair, saver: TieredSaver, tiers: Tiers) -> None:
    await archived(saver)
    pair.stand_still()
    await archived(saver)
    tiers.replica.oldest_seconds = 0.2

    async def is_true() -> bool:
        return await survey.cold_threads(tiers) == 2

    await eventually_async(is_true)


async def test_a_replica_that_is_down_is_left_alone(pair: Pair, saver: TieredSaver, tiers: Tiers) -> None:
    thread = await archived(saver)

    pair.replica.stop()

    assert [info.thread_id for info in await saver.list_threads({"user_id": "u"})] == [thread.thread_id]
    assert await survey.cold_threads(tiers) == 1
    assert await saver.list_threads({"user_id": "nobody"}) == []


async def test_a_replica_without_our_tables_is_left_alone(
    pair: Pair, with_replica: TierConfig, postgres_url: str
) -> None:
    elsewhere = TierConfig(**{**with_replica.model_dump(), "postgres_replica_url": postgres_url})
    async with TieredSaver(elsewhere) as saver:
        thread = await archived(saver)

        assert [info.thread_id for info in await saver.list_threads({"user_id": "u"})] == [thread.thread_id]
