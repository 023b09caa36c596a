"""Movers that die or freeze at any step of the protocol, and agents that stop waiting for an answer."""

import asyncio
import random
import signal
from contextlib import suppress

import pytest

from saver import ColdTierError, TieredSaver
from saver.carriers import AsyncHot
from saver.connect import Tiers
from saver.demote import demote
from tests.builders import Thread
from tests.faults.mover import StartMover
from tests.faults.world import World, frozen
from tests.waiting import eventually, eventually_async

MOST_REPLIES = 25
# Round trips of a put and two writes together: a load asks Postgres once.
LEAST_REPLIES = {("redis", "hot"): 2, ("redis", "archived"): 2, ("postgres", "hot"): 0, ("postgres", "archived"): 1}
IDLE_SECONDS = 1.5  # three times TIER_REDIS_TIMEOUT: how long a frozen transaction keeps its locks
STEPS = {
    "archive": ["archive: locked", "archive: log read", "archive: rows sent", "archive: committed"],
    "demote": ["archive: locked", "archive: committed"],
    "delete": ["destroy: locked", "destroy: evicted", "destroy: changed"],
    "promote": ["load: read"],
}
ALL = [(verb, point) for verb, points in STEPS.items() for point in points]


@pytest.mark.patient
@pytest.mark.parametrize(("verb", "point"), ALL)
async def test_killed_mover_loses_and_doubles_nothing(
    world: World, agent: TieredSaver, worker: Tiers, mover: StartMover, verb: str, point: str
) -> None:
    thread = Thread(agent)
    ids = [await thread.put({"x": [1]})]
    if verb == "promote":
        await demote(worker, thread.thread_id)
    process = mover(verb, thread, point)

    process.kill()
    process.wait()

    ids.insert(0, await thread.put({"x": [2]}))
    await thread.write(("x", ["pending"]))
    await demote(worker, thread.thread_id)
    assert await thread.ids() == ids == world.cold_ids(thread.thread_id)
    assert await thread.values() == {"x": [2]}
    assert world.postgres("select count(*) from checkpoint_writes") == [(1,)]


async def test_frozen_deleter_is_overtaken_and_has_deleted_only_if_it_says_so(
    world: World, agent: TieredSaver, worker: Tiers, mover: StartMover
) -> None:
    thread = Thread(agent)
    ids = [await thread.put({"x": [1]})]
    process = mover("delete", thread, "destroy: changed")

    with frozen(process.pid):
        await eventually_async(lambda: is_put(thread, ids), within_seconds=IDLE_SECONDS * 4)
        assert await thread.ids() == ids
    process.communicate(timeout=20)

    # The freeze was longer than its time limit, so as a rule it says that it failed.
    assert await thread.ids() == ([] if process.returncode == 0 else ids)


async def is_put(thread: Thread, ids: list[str]) -> bool:
    try:
        ids.insert(0, await thread.put({"x": [2]}))
    except ColdTierError:
        return False
    return True


async def test_mover_told_to_end_in_the_middle_leaves_the_thread_whole(
    world: World, agent: TieredSaver, worker: Tiers, mover: StartMover
) -> None:
    thread = Thread(agent)
    first = await thread.put({"x": [1]})
    process = mover("archive", thread, "archive: rows sent")

    process.send_signal(signal.SIGINT)
    process.stdin.close()  # type: ignore[union-attr]
    process.wait(20)

    eventually(lambda: world.postgres("select count(*) from pg_locks where locktype = 'advisory'") == [(0,)])
    await demote(worker, thread.thread_id)
    assert await thread.ids() == [first] == world.cold_ids(thread.thread_id)


@pytest.mark.patient
async def test_cancelled_calls_cross_no_answers_and_leak_no_connections(
    world: World, agent: TieredSaver, worker: Tiers
) -> None:
    """CON-05: hot and archived threads behind 50 ms, calls cancelled within 100 ms."""
    threads = [Thread(agent) for _ in range(200)]
    await asyncio.gather(*(thread.put({"marker": thread.thread_id}) for thread in threads))
    await asyncio.gather(*(demote(worker, thread.thread_id) for thread in threads[::2]))
    world.redis_proxy.reply_delay_ms = world.postgres_proxy.reply_delay_ms = 50

    chance = random.Random(7)
    await asyncio.gather(*(cancelled_call(chance.choice(threads), chance) for _ in range(400)))

    world.redis_proxy.reply_delay_ms = world.postgres_proxy.reply_delay_ms = 0
    for thread in threads:
        assert await thread.values() == {"marker": thread.thread_id}
    await eventually_async(lambda: is_at_rest(agent))
    found = await asyncio.gather(*(thread.values() for thread in threads[:20]))
    assert found == [{"marker": thread.thread_id} for thread in threads[:20]]


async def cancelled_call(thread: Thread, chance: random.Random) -> None:
    """A call of any kind that nobody waits for after a moment."""
    again = Thread(thread.saver, thread.thread_id, checkpoint_id=thread.checkpoint_id, versions=dict(thread.versions))
    calls = (thread.latest, lambda: again.put({"marker": thread.thread_id}), lambda: again.write(("marker", 1)))
    call = asyncio.ensure_future(chance.choice(calls)())
    await asyncio.wait({call}, timeout=chance.uniform(0, 0.1))
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call


async def is_at_rest(saver: TieredSaver) -> bool:
    """Nothing waits for an answer, and the pool has every connection it counts."""
    tiers = saver._runtime.tiers
    stats = tiers.cold._pool.get_stats()
    assert isinstance(tiers.hot, AsyncHot)
    is_hot_idle = all(wire is None or wire.load == 0 for wire in tiers.hot._wires)
    return is_hot_idle and not tiers.cold._running and stats["pool_available"] == stats["pool_size"]


@pytest.mark.patient
@pytest.mark.parametrize("place", ["hot", "archived"])
@pytest.mark.parametrize("tier", ["redis", "postgres"])
async def test_each_reply_of_a_put_may_be_lost(
    world: World, either_family: TieredSaver, worker: Tiers, tier: str, place: str
) -> None:
    """CON-05: the replies to all commands of one put and of its writes, one after the other."""
    proxy = world.redis_proxy if tier == "redis" else world.postgres_proxy
    thread = Thread(either_family)
    ids = [await thread.put({"x": [0]})]

    for number in range(MOST_REPLIES):
        if place == "archived":
            await demote(worker, thread.thread_id)
        proxy.drop_next_reply(after=number)
        ids.insert(0, await thread.put({"x": [number]}))
        for _ in range(2):
            await thread.write(("x", number), task=f"task-{number}")
        if proxy.is_reply_to_be_lost:
            break

    assert number >= LEAST_REPLIES[tier, place]
    proxy.drop_next_reply(after=MOST_REPLIES * 100)
    assert await thread.ids() == ids
    await demote(worker, thread.thread_id)
    assert await thread.ids() == ids == world.cold_ids(thread.thread_id)
    assert world.postgres("select count(*) from checkpoint_writes") == [(number + 1,)]
