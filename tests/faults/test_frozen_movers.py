"""A mover that is frozen at any of its steps for longer than every limit, while the world goes on, and then goes on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from saver import ColdTierError, HotTierError, TieredSaver
from saver.archive import archive
from saver.connect import Tiers
from saver.demote import demote
from saver.load import promote
from tests.builders import Thread
from tests.faults.mover import StartMover
from tests.faults.world import World, frozen
from tests.waiting import eventually_async

LONGER_THAN_EVERY_LIMIT = 15  # seconds; a frozen transaction loses its locks after three times TIER_REDIS_TIMEOUT
STEPS = {
    "archive": ["archive: begins", "archive: locked", "archive: log read", "archive: rows sent", "archive: committed"],
    "demote": ["archive: rows sent", "archive: committed"],
    "demote idle": ["demote: found"],
    "promote": ["load: begins", "load: read"],
    "trim": ["trim: begins"],
    "retain": ["retain: found", "retain: locked", "retain: absent", "retain: deleted"],
    "delete": ["destroy: locked", "destroy: evicted", "destroy: changed"],
    "prune": ["destroy: changed"],
    "copy": ["copy: archived", "destroy: changed"],
}
SETTINGS = {
    "demote idle": {"demote_after": "1s", "archive_after": "500ms"},
    "retain": {"retain_for": "1d"},
    "trim": {"hot_checkpoints": "1"},
}
REMOVING = ("retain", "delete", "prune")
ALL = [(verb, point) for verb, points in STEPS.items() for point in points]


@pytest.mark.parametrize(("verb", "point"), ALL)
async def test_nothing_is_lost_and_nothing_comes_back(
    world: World, agent: TieredSaver, worker: Tiers, mover: StartMover, verb: str, point: str
) -> None:
    thread = Thread(agent)
    before = [await thread.put({"x": [number], "same": ["kept"]}) for number in range(3)]
    await prepare(world, worker, thread, verb)
    process = mover(verb, thread, point, **SETTINGS.get(verb, {}))

    with frozen(process.pid):
        await eventually_async(lambda: write_on(thread, 1), within_seconds=LONGER_THAN_EVERY_LIMIT)
        await overtaken(world, worker, thread)
        await write_on(thread, 2)
    # What it had begun may fail by now; it must not take effect.
    await asyncio.to_thread(process.communicate, timeout=20)

    await write_on(thread, 3)
    await demote(worker, thread.thread_id)
    ids = await thread.ids()
    assert await thread.values() == {"x": ["while frozen", 3], "same": ["kept"]}
    assert ids == world.cold_ids(thread.thread_id)
    written = [one for one in ids if one not in before]
    assert len(written) == 3 if verb not in REMOVING else written
    assert set(ids) >= set(before) or verb in REMOVING


async def prepare(world: World, worker: Tiers, thread: Thread, verb: str) -> None:
    """Put a thread where its mover would find it."""
    if verb in ("promote", "retain"):
        await demote(worker, thread.thread_id)
    if verb == "trim":
        await archive(worker, [thread.thread_id])
    if verb == "retain":
        world.postgres(f"update {world.name}.tier_threads set last_activity = now() - interval '1 year'")
    if verb == "demote idle":
        idle = worker.keys.thread(thread.thread_id).idle
        world.redis("ZADD", idle, 1, thread.thread_id)
        await archive(worker, [thread.thread_id])


async def write_on(thread: Thread, number: int) -> bool:
    """Put a checkpoint that shares a value with those before. False while the thread is held."""
    try:
        await thread.put({"x": ["while frozen", number], "same": ["kept"]}, changed=["x"])
    except (ColdTierError, HotTierError):
        return False
    return True


async def overtaken(world: World, worker: Tiers, thread: Thread) -> None:
    """Others do all there is to do with the thread meanwhile; its load token may be anybody's by now."""
    world.redis("DEL", worker.keys.thread(thread.thread_id).token)
    for move in (demote, promote, demote, promote):
        await eventually_async(lambda move=move: _is_done(move, worker, thread), within_seconds=LONGER_THAN_EVERY_LIMIT)  # type: ignore[misc]


async def _is_done(move: Callable[[Tiers, str], Awaitable[Any]], worker: Tiers, thread: Thread) -> bool:
    try:
        await move(worker, thread.thread_id)
    except ColdTierError:
        return False
    return True
