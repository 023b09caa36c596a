"""Redis down, hung, read-only, empty, full, or gone and back: an error that names it in time, then on without hands."""

import asyncio
import os
import signal

import pytest

from saver import HotTierError, TieredSaver
from saver.archive import archive
from saver.connect import Tiers
from saver.demote import demote
from tests.builders import Thread
from tests.faults.outages import Fault, fill_redis, redis_full, redis_hung, redis_read_only, redis_refused
from tests.faults.world import FAMILIES, REDIS_SECONDS, World, within
from tests.waiting import eventually_async

FAULTS = {
    "refused": (redis_refused, "cannot be reached"),
    "hung": (redis_hung, "did not answer within TIER_REDIS_TIMEOUT"),
    "read-only": (redis_read_only, "read-only replica"),
}


@pytest.mark.parametrize(("fault", "reason"), FAULTS.values(), ids=FAULTS)
async def test_calls_fail_in_time_naming_redis_and_work_again_afterwards(
    world: World, either_family: TieredSaver, fault: Fault, reason: str
) -> None:
    thread = Thread(either_family)
    first = await thread.put({"x": [1]})

    with fault(world):
        for call in (lambda: thread.put({"x": [2]}), lambda: thread.write(("x", 2)), thread.latest):
            with within(REDIS_SECONDS), pytest.raises(HotTierError, match=reason):
                await call()

    before = await thread.ids()
    assert before[-1] == first
    assert len(before) == 1 or fault is redis_hung  # what waited in its queue may have been done
    second = await thread.put({"x": [3]})
    assert await thread.ids() == [second, *before]
    assert await thread.values() == {"x": [3]}


async def test_many_calls_on_a_hung_redis_all_fail_in_time(world: World, agent: TieredSaver) -> None:
    threads = [Thread(agent) for _ in range(20)]
    await asyncio.gather(*(thread.put({"x": [1]}) for thread in threads))

    with redis_hung(world):
        for _ in range(2):  # the second time, no connection is open any more
            with within(REDIS_SECONDS * 2):
                results = await asyncio.gather(*(t.put({"x": [2]}) for t in threads), return_exceptions=True)
            assert {type(result) for result in results} == {HotTierError}

    await asyncio.gather(*(thread.put({"x": [3]}) for thread in threads))


async def test_a_write_refused_by_a_replica_is_nowhere(world: World, either_family: TieredSaver, worker: Tiers) -> None:
    thread = Thread(either_family)
    first = await thread.put({"x": [1]})

    with redis_read_only(world):
        for _ in range(4):
            with pytest.raises(HotTierError):
                await thread.put({"x": ["lost"]})

    await demote(worker, thread.thread_id)
    assert await thread.ids() == [first] == world.cold_ids(thread.thread_id)


async def test_a_replica_is_not_read_from(world: World, either_family: TieredSaver) -> None:
    thread = Thread(either_family)
    await thread.put({"x": [1]})

    with redis_read_only(world), pytest.raises(HotTierError, match="read-only replica"):
        await thread.ids()
    with redis_read_only(world), pytest.raises(HotTierError, match="read-only replica"):
        await thread.latest()

    assert await thread.values() == {"x": [1]}


async def test_restart_with_data_loses_nothing(world: World, either_family: TieredSaver, worker: Tiers) -> None:
    thread = Thread(either_family)
    first = await thread.put({"x": [1]})
    await thread.write(("x", ["pending"]))

    world.servers.restart("redis")

    found = await thread.latest()
    assert found is not None
    assert found.pending_writes == [("task", "x", ["pending"])]
    second = await thread.put({"x": [2]})
    await demote(worker, thread.thread_id)
    assert await thread.ids() == [second, first]


async def test_killed_redis_that_comes_back_empty_serves_what_was_archived(
    world: World, either_family: TieredSaver, worker: Tiers
) -> None:
    archived, hot_only = Thread(either_family), Thread(either_family)
    first = await archived.put({"x": [1]})
    await archive(worker, [archived.thread_id])
    await archived.put({"x": [2]})
    await hot_only.put({"x": [1]})

    world.redis("FLUSHALL")
    os.kill(world.servers.redis_pid, signal.SIGKILL)
    world.servers.restart("redis")

    assert await archived.ids() == [first]
    assert await hot_only.latest() is None
    third = await archived.put({"x": [3]})
    assert await archived.ids() == [third, first]


@pytest.mark.patient
async def test_killed_connections_are_not_noticed(world: World, either_family: TieredSaver, worker: Tiers) -> None:
    thread = Thread(either_family)
    ids: list[str] = []

    for number in range(3):
        world.redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        ids.insert(0, await thread.put({"x": [number]}))
        world.redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert await thread.values() == {"x": [number]}
        world.redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await archive(worker, [thread.thread_id])

    assert await thread.ids() == ids == world.cold_ids(thread.thread_id)


async def test_full_redis_refuses_puts_and_archiving_frees_it(
    world: World, either_family: TieredSaver, worker: Tiers
) -> None:
    threads = [Thread(either_family) for _ in range(30)]
    heads = [await thread.put({"x": os.urandom(50_000)}) for thread in threads]
    fill_redis(world)

    with within(REDIS_SECONDS), pytest.raises(HotTierError, match="full"):
        await threads[0].put({"x": os.urandom(50_000)})
    with pytest.raises(HotTierError, match="full"):
        await threads[0].write(("x", 1))
    assert await threads[0].ids() == heads[:1]

    for thread in threads[1:]:
        assert await demote(worker, thread.thread_id)
    await eventually_async(lambda: _is_put(threads[0]))
    assert await threads[0].values() == {"x": "room again"}
    assert [await thread.ids() for thread in threads[1:]] == [[head] for head in heads[1:]]


async def test_full_redis_is_read_from_and_deleted_from(
    world: World, either_family: TieredSaver, worker: Tiers
) -> None:
    archived, hot, dirty = [Thread(either_family) for _ in range(3)]
    for thread in (archived, hot, dirty):
        await thread.put({"x": os.urandom(50_000)})
    await demote(worker, archived.thread_id)
    await archive(worker, [hot.thread_id])

    with redis_full(world):
        assert await archived.values() is not None
        assert await hot.values() is not None
        for thread in (archived, hot, dirty):
            await either_family.adelete_thread(thread.thread_id)
            assert await thread.latest() is None
            assert world.cold_ids(thread.thread_id) == []
        assert not world.redis("EXISTS", *worker.keys.thread(dirty.thread_id)[:3])


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "noeviction"])
async def test_an_agent_is_warned_of_a_redis_that_evicts(
    world: World, caplog: pytest.LogCaptureFixture, policy: str
) -> None:
    world.redis("CONFIG", "SET", "maxmemory-policy", policy)
    try:
        for family in FAMILIES.values():
            async with family(world.config):
                pass
    finally:
        world.redis("CONFIG", "SET", "maxmemory-policy", "noeviction")

    warned = [record for record in caplog.records if "maxmemory-policy" in record.getMessage()]
    assert [record.levelname for record in warned] == ([] if policy == "noeviction" else ["CRITICAL"] * len(FAMILIES))


async def _is_put(thread: Thread) -> bool:
    try:
        await thread.put({"x": "room again"})
    except HotTierError:
        return False
    return True
