"""A Postgres whose disk is full: what needs no room goes on, nothing leaves Redis, and it heals by itself."""

import os

import pytest

from saver import ColdTierError, TieredSaver, hot
from saver.archive import archive
from saver.connect import Tiers
from saver.demote import demote
from saver.hot import Evicted
from tests.builders import Thread
from tests.faults.outages import postgres_disk_full
from tests.faults.world import World

DISK_FULL = "53100"


async def test_nothing_leaves_redis_and_all_of_it_is_archived_afterwards(
    world: World, agent: TieredSaver, worker: Tiers
) -> None:
    thread = Thread(agent)
    head = await thread.put({"x": os.urandom(1000)})
    await thread.write(("x", ["written"]))

    with postgres_disk_full(world):
        for _ in range(2):
            with pytest.raises(ColdTierError, match=DISK_FULL) as raised:
                await archive(worker, [thread.thread_id])
        assert not raised.value.is_refusal
        reply = await worker.hot.call(hot.evict(worker.keys.thread(thread.thread_id), thread.thread_id, 0))
        assert Evicted(reply) is Evicted.NOT_ARCHIVED
        second = await thread.put({"x": [2]})
        assert await thread.ids() == [second, head]

    await demote(worker, thread.thread_id)
    assert await thread.ids() == [second, head] == world.cold_ids(thread.thread_id)
    found = await agent.aget_tuple(thread.config(head))
    assert found is not None
    assert found.pending_writes == [("task", "x", ["written"])]


async def test_archived_threads_are_read_and_written(world: World, agent: TieredSaver, worker: Tiers) -> None:
    thread = Thread(agent)
    first = await thread.put({"x": [1]})
    await demote(worker, thread.thread_id)

    with postgres_disk_full(world):
        assert await thread.values() == {"x": [1]}
        second = await thread.put({"x": [2]})
        assert await thread.ids() == [second, first]
