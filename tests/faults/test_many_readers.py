"""Many who want the same archived thread at once, and many who want different ones, with a Postgres far away."""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

import pytest

from saver import TieredSaver, hot
from saver.archive import archive
from saver.connect import Tiers, connect
from saver.demote import demote
from saver.load import promote
from tests.builders import Thread
from tests.faults.caller import Caller, StartCaller, digest
from tests.faults.mover import StartMover
from tests.faults.world import FAMILIES, World
from tests.waiting import eventually_async

pytestmark = pytest.mark.patient
READERS, PROCESSES = 100, 4
READS_OF_PROCESS = 2
VALUE_BYTES = 2_000_000
POOL_SIZE = 10


async def archived(agent: TieredSaver, worker: Tiers, size_bytes: int, checkpoints: int) -> Thread:
    """A thread in Postgres alone, its size for the most part in its newest state."""
    thread = Thread(agent)
    large = [os.urandom(size_bytes // 2).hex()]
    for number in range(checkpoints):
        await thread.put({"large": large, "number": number}, changed=["number"] if number else None)
    await demote(worker, thread.thread_id)
    return thread


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_hundred_readers_of_one_thread_cause_a_handful_of_cold_reads(
    world: World, agent: TieredSaver, worker: Tiers, caller: StartCaller, family: str
) -> None:
    """PER-01: while one read of each process is under way, all the others wait for the next."""
    thread = await archived(agent, worker, VALUE_BYTES, 50)
    expected = digest(await thread.values())
    callers = await opened(caller, family)
    before, asked = world.postgres_proxy.reply_bytes_total, scripts_run(world)

    world.postgres_proxy.hold_replies()
    answers = asyncio.create_task(read_at_once(callers, thread))
    await eventually_async(lambda: have_asked_hot(world, asked + READERS))
    world.postgres_proxy.release_replies()

    assert await answers == [expected] * READERS
    reads = (world.postgres_proxy.reply_bytes_total - before) // VALUE_BYTES
    assert PROCESSES <= reads <= PROCESSES * READS_OF_PROCESS


async def test_a_hundred_readers_with_a_postgres_far_away_wait_for_few_reads(
    world: World, agent: TieredSaver, worker: Tiers, caller: StartCaller
) -> None:
    """PER-01, with 50 ms added to Postgres and replies as they come: nobody waits in vain for a connection."""
    thread = await archived(agent, worker, VALUE_BYTES, 50)
    expected = digest(await thread.values())
    callers = await opened(caller, "async")
    world.postgres_proxy.reply_delay_ms = 50
    before = world.postgres_proxy.reply_bytes_total

    assert await read_at_once(callers, thread) == [expected] * READERS

    # One more of a process than with replies held: the last readers may ask when its second read is under way.
    reads = (world.postgres_proxy.reply_bytes_total - before) // VALUE_BYTES
    assert PROCESSES <= reads <= PROCESSES * (READS_OF_PROCESS + 1)


async def opened(caller: StartCaller, family: str) -> list[Caller]:
    """Agent processes with small pools, connected to both tiers."""
    callers = [caller(family, postgres_max_size="5") for _ in range(PROCESSES)]
    await asyncio.gather(*(one.call(*[["digest", "unknown"]] * (READERS // PROCESSES)) for one in callers))
    return callers


async def read_at_once(callers: list[Caller], thread: Thread) -> list[Any]:
    calls = [["digest", thread.thread_id]] * (READERS // len(callers))
    return [answer for part in await asyncio.gather(*(one.call(*calls) for one in callers)) for answer in part]


def scripts_run(world: World) -> int:
    return int(world.redis("INFO", "commandstats").get("cmdstat_evalsha", {}).get("calls", 0))


async def have_asked_hot(world: World, count: int) -> bool:
    return scripts_run(world) >= count


async def test_readers_do_not_wait_for_a_promotion_that_dies(
    world: World, agent: TieredSaver, worker: Tiers, caller: StartCaller, mover: StartMover
) -> None:
    """PER-01, with the promoting process killed in the middle."""
    thread = await archived(agent, worker, VALUE_BYTES, 50)
    expected = digest(await thread.values())
    reader = caller()
    process = mover("promote", thread, "load: read")

    calls = [["digest", thread.thread_id]] * 25
    answers = asyncio.create_task(reader.call(*calls))
    process.kill()

    assert await answers == [expected] * 25
    assert await promote(worker, thread.thread_id)
    assert await agent.tier_of(thread.thread_id) == "hot"
    assert len(world.redis("KEYS", f"*:thread:{thread.thread_id}")) == 1


async def test_many_writers_of_one_archived_thread_load_it_once(
    world: World, agent: TieredSaver, worker: Tiers
) -> None:
    thread = await archived(agent, worker, VALUE_BYTES, 3)
    before = world.postgres_proxy.reply_bytes_total

    await asyncio.gather(*(thread.write(("x", number), task=f"task-{number}") for number in range(100)))

    assert (world.postgres_proxy.reply_bytes_total - before) // VALUE_BYTES == 1
    found = await thread.latest()
    assert found is not None
    assert len(found.pending_writes or ()) == 100


async def test_reader_sees_what_was_committed_before_it_asked(
    world: World, either_family: TieredSaver, thread: Thread, worker: Tiers
) -> None:
    """The read of an earlier one is still on its way then; its answer is too old for whoever asks now."""
    await thread.put({"x": [1]})
    await demote(worker, thread.thread_id)
    reader = Thread(either_family, thread.thread_id)
    async with TieredSaver(world.direct_config) as elsewhere:
        world.postgres_proxy.hold_replies()
        early = asyncio.create_task(reader.values())
        await eventually_async(lambda: are_waiting(world, 1))
        other = Thread(elsewhere, thread.thread_id, versions=dict(thread.versions))
        await other.put({"x": [2]})
        assert await elsewhere.demote(thread.thread_id)

        late = asyncio.create_task(reader.values())
        await asyncio.wait({late}, timeout=0.1)
        world.postgres_proxy.release_replies()

    assert await early in ({"x": [1]}, {"x": [2]})
    assert await late == {"x": [2]}


async def are_waiting(world: World, connections: int) -> bool:
    return world.postgres_proxy.connections_waiting >= connections


@pytest.mark.parametrize("kind", ["promotions", "reads"])
async def test_cold_work_runs_in_parallel_up_to_the_pool_size(
    world: World, agent: TieredSaver, worker: Tiers, kind: str
) -> None:
    """PER-03: as many threads as the pool has connections are under way at once, and the others wait their turn."""
    threads = [Thread(agent) for _ in range(2 * POOL_SIZE)]
    await asyncio.gather(*(thread.put({"x": [number]}) for number, thread in enumerate(threads)))
    await archive_and_evict(worker, threads)

    others = world.postgres_proxy.connections
    filled = world.config.model_copy(update={"postgres_min_size": POOL_SIZE, "postgres_max_size": POOL_SIZE})
    async with TieredSaver(filled) as reader, connect(filled) as promoter:
        await reader.aget_tuple(Thread(reader).config())
        await eventually_async(lambda: are_open(world, others + 2 * POOL_SIZE))
        world.postgres_proxy.hold_replies()
        answers = asyncio.gather(*(work(reader, promoter, thread, kind) for thread in threads))
        await eventually_async(lambda: are_waiting(world, POOL_SIZE))
        world.postgres_proxy.release_replies()

        expected = [True if kind == "promotions" else {"x": [number]} for number in range(2 * POOL_SIZE)]
        assert await answers == expected


async def are_open(world: World, connections: int) -> bool:
    return world.postgres_proxy.connections >= connections


async def archive_and_evict(worker: Tiers, threads: list[Thread]) -> None:
    await archive(worker, [thread.thread_id for thread in threads])
    for thread in threads:
        await worker.hot.call(hot.evict(worker.keys.thread(thread.thread_id), thread.thread_id, 0))


def work(reader: TieredSaver, promoter: Tiers, thread: Thread, kind: str) -> Coroutine[Any, Any, Any]:
    return promote(promoter, thread.thread_id) if kind == "promotions" else Thread(reader, thread.thread_id).values()
