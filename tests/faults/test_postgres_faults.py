"""Postgres down, hung, read-only, crowded or hasty: hot threads go on, cold ones say so in time, nothing is lost."""

import asyncio

import pytest

from saver import ColdTierError, TierConfig, TieredSaver, hot
from saver.archive import archive
from saver.connect import Tiers, connect
from saver.demote import demote
from saver.hot import Evicted
from tests.builders import Thread
from tests.faults.outages import Fault, postgres_crowded, postgres_hung, postgres_read_only, postgres_refused
from tests.faults.world import FAMILIES, POSTGRES_SECONDS, REDIS_SECONDS, World, within
from tests.fix_servers import StartServers
from tests.waiting import eventually_async

HEALING_SECONDS = 5


SILENT = pytest.mark.parametrize("fault", [postgres_refused, postgres_hung, postgres_crowded])
ANY = pytest.mark.parametrize("fault", [postgres_refused, postgres_hung, postgres_crowded, postgres_read_only])


async def heals(thread: Thread, values: dict[str, object]) -> bool:
    try:
        return await thread.values() == values
    except ColdTierError:
        return False


@SILENT
async def test_read_of_an_archived_thread_is_an_error_in_time_and_heals(
    world: World, either_family: TieredSaver, worker: Tiers, fault: Fault
) -> None:
    thread = Thread(either_family)
    await thread.put({"x": [1]})
    await demote(worker, thread.thread_id)

    with fault(world):
        for _ in range(2):
            with within(POSTGRES_SECONDS), pytest.raises(ColdTierError, match="Postgres"):
                await thread.latest()
        with within(POSTGRES_SECONDS), pytest.raises(ColdTierError, match="Postgres"):
            await thread.ids()

    await eventually_async(lambda: heals(thread, {"x": [1]}), within_seconds=HEALING_SECONDS)


@ANY
async def test_nothing_is_created_for_an_archived_thread(
    world: World, either_family: TieredSaver, worker: Tiers, fault: Fault
) -> None:
    thread = Thread(either_family)
    first = await thread.put({"x": [1]})
    await demote(worker, thread.thread_id)

    with fault(world):
        with within(POSTGRES_SECONDS), pytest.raises(ColdTierError, match="Postgres"):
            await thread.put({"x": ["a new conversation"]})
        assert not world.redis("EXISTS", worker.keys.thread(thread.thread_id).thread)

    await eventually_async(lambda: heals(thread, {"x": [1]}), within_seconds=HEALING_SECONDS)
    assert await thread.ids() == [first]


@ANY
async def test_hot_threads_go_on_and_nothing_leaves_redis_unarchived(
    world: World, either_family: TieredSaver, worker: Tiers, fault: Fault
) -> None:
    thread = Thread(either_family)
    ids = [await thread.put({"x": [0]})]

    with fault(world):
        moving = asyncio.create_task(demote(worker, thread.thread_id))
        for number in range(1, 4):
            with within(REDIS_SECONDS):
                ids.insert(0, await thread.put({"x": [number]}))
                assert await thread.values() == {"x": [number]}
        reply = await worker.hot.call(hot.evict(worker.keys.thread(thread.thread_id), thread.thread_id, 0))
        assert Evicted(reply) is Evicted.NOT_ARCHIVED

    await asyncio.wait({moving}, timeout=30)
    assert moving.cancelled() or moving.exception() is None or isinstance(moving.exception(), ColdTierError)
    await eventually_async(lambda: is_archived(worker, thread), within_seconds=HEALING_SECONDS)
    assert await thread.ids() == ids == world.cold_ids(thread.thread_id)


async def is_archived(worker: Tiers, thread: Thread) -> bool:
    try:
        return thread.thread_id in (await archive(worker, [thread.thread_id])).clean
    except ColdTierError:
        return False


@SILENT
async def test_calls_that_move_a_thread_are_errors_in_time(world: World, agent: TieredSaver, fault: Fault) -> None:
    thread = Thread(agent)
    head = await thread.put({"x": [1]})
    world.redis("REPLICAOF", "127.0.0.1", 1)
    world.redis("REPLICAOF", "NO", "ONE")  # another history: reading must archive first

    with fault(world):
        for call in (agent.demote, agent.adelete_thread, lambda _: thread.latest()):
            with within(POSTGRES_SECONDS), pytest.raises(ColdTierError, match="Postgres"):
                await call(thread.thread_id)

    await eventually_async(lambda: heals(thread, {"x": [1]}), within_seconds=HEALING_SECONDS)
    assert await thread.ids() == [head]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
async def test_restart_of_postgres_is_not_noticed(private_servers: StartServers, family: type[TieredSaver]) -> None:
    servers = private_servers(durable=True)
    config = TierConfig(redis_url=servers.redis_url, postgres_url=servers.postgres_url, partitions=4)
    async with family(config) as agent, connect(config) as worker:
        cold, hot_one = Thread(agent), Thread(agent)
        first = await cold.put({"x": [0]})
        await demote(worker, cold.thread_id)
        await hot_one.put({"x": [0]})

        servers.restart("postgres")

        assert await hot_one.values() == {"x": [0]}
        assert await cold.values() == {"x": [0]}
        second = await cold.put({"x": [1]})
        for thread in (cold, hot_one):
            await demote(worker, thread.thread_id)
        assert await cold.ids() == [second, first]


@pytest.mark.patient
async def test_sessions_closed_by_the_server_are_not_noticed(
    world: World, either_family: TieredSaver, worker: Tiers
) -> None:
    """CRA-07: sessions of Postgres and connections of Redis, three times."""
    cold, hot_one = Thread(either_family), Thread(either_family)
    await cold.put({"x": [0]})
    await hot_one.put({"x": [0]})

    for number in range(1, 4):
        await demote(worker, cold.thread_id)
        world.end_sessions()
        world.redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert await cold.values() == {"x": [number - 1]}
        world.end_sessions()
        world.redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await cold.put({"x": [number]})
        await hot_one.put({"x": [number]})
        world.end_sessions()
        await archive(worker, [hot_one.thread_id])

    assert len(await cold.ids()) == len(await hot_one.ids()) == len(world.cold_ids(hot_one.thread_id)) == 4


@pytest.mark.patient
async def test_many_reads_over_dead_sessions_all_succeed(world: World, agent: TieredSaver, worker: Tiers) -> None:
    threads = [Thread(agent) for _ in range(30)]
    await asyncio.gather(*(thread.put({"x": thread.thread_id}) for thread in threads))
    await asyncio.gather(*(demote(worker, thread.thread_id) for thread in threads))
    await asyncio.gather(*(thread.latest() for thread in threads))

    for _ in range(3):
        world.end_sessions()
        found = await asyncio.gather(*(thread.values() for thread in threads))
        assert found == [{"x": thread.thread_id} for thread in threads]


async def test_work_that_was_given_up_is_not_done_later(world: World, agent: TieredSaver, worker: Tiers) -> None:
    threads = [Thread(agent) for _ in range(12)]
    for thread in threads:
        await thread.put({"x": [1]})
        await demote(worker, thread.thread_id)

    with postgres_hung(world):
        results = await asyncio.gather(*(thread.latest() for thread in threads), return_exceptions=True)
    assert {type(result) for result in results} == {ColdTierError}

    with within(HEALING_SECONDS):
        await eventually_async(lambda: heals(threads[0], {"x": [1]}), within_seconds=HEALING_SECONDS)
        await eventually_async(lambda: is_at_rest(agent), within_seconds=HEALING_SECONDS)


async def is_at_rest(saver: TieredSaver) -> bool:
    """No work goes on in the cold tier, and its pool has every connection it counts."""
    cold = saver._runtime.tiers.cold
    stats = cold._pool.get_stats()
    return not cold._running and stats["pool_available"] == stats["pool_size"] and not stats["requests_waiting"]


async def test_long_outage_heals_as_fast_as_a_short_one(world: World, agent: TieredSaver, worker: Tiers) -> None:
    thread = Thread(agent)
    await thread.put({"x": [1]})
    await demote(worker, thread.thread_id)

    with postgres_refused(world):
        for _ in range(9):  # each waits for its limit
            with pytest.raises(ColdTierError):
                await thread.latest()

    await eventually_async(lambda: heals(thread, {"x": [1]}), within_seconds=3)


async def test_a_hasty_server_limit_does_not_stop_archiving(world: World, agent: TieredSaver, worker: Tiers) -> None:
    world.postgres("alter system set statement_timeout = '250ms'")
    world.postgres("select pg_reload_conf()")
    threads = [Thread(agent) for _ in range(50)]
    await asyncio.gather(*(thread.put({"x": "x" * 100_000}) for thread in threads))

    result = await archive(worker, [thread.thread_id for thread in threads])

    assert result.threads == len(result.clean) == 50
    await agent.setup()
    await agent.adelete_thread(threads[0].thread_id)
    assert await threads[0].latest() is None


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
async def test_connection_cut_around_the_commit_neither_loses_nor_doubles(
    world: World, agent: TieredSaver, worker: Tiers, moment: str
) -> None:
    thread = Thread(agent)
    ids = [await thread.put({"x": [1]})]
    await thread.write(("x", [2]))
    cuts = iter([world.postgres_proxy.cut if moment == "before the commit" else world.postgres_proxy.drop_next_reply])

    async def cut_once(point: str) -> None:
        if point == "archive: rows sent" and (cut := next(cuts, None)):
            cut()

    worker.pause = cut_once
    await archive(worker, [thread.thread_id])

    assert world.cold_ids(thread.thread_id) == ids
    assert not world.redis("EXISTS", worker.keys.thread(thread.thread_id).log)
    assert world.postgres("select count(*) from checkpoint_writes") == [(1,)]


async def test_writes_while_the_answer_to_the_commit_is_held_are_kept(
    world: World, agent: TieredSaver, worker: Tiers
) -> None:
    thread = Thread(agent)
    head = await thread.put({"x": [0]})
    for number in range(1, 13):
        moving = asyncio.create_task(archive(worker, [thread.thread_id]))
        world.postgres_proxy.hold_replies()
        await asyncio.wait({moving}, timeout=number / 100)
        await thread.write(("x", number), task=f"task-{number}", checkpoint_id=head)
        if number % 3 == 0:
            head = await thread.put({"x": [number]})
        world.postgres_proxy.release_replies()
        await moving

    await demote(worker, thread.thread_id)
    assert len(await thread.ids()) == len(world.cold_ids(thread.thread_id)) == 5
    assert world.postgres("select count(*) from checkpoint_writes") == [(12,)]
