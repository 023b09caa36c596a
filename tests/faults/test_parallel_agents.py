"""Agents in several processes write one thread while it is moved: every write is there, once, in either tier."""

import asyncio
import random
from typing import Any

import pytest

from saver import TieredSaver
from saver.archive import archive
from saver.connect import Tiers
from saver.demote import demote
from saver.load import promote
from tests.builders import Thread
from tests.faults.caller import Call, Caller, StartCaller
from tests.faults.world import World
from tests.loads import load

pytestmark = [pytest.mark.patient, pytest.mark.slow]
PROCESSES, TASKS, ROUNDS = 8, 100, load(20, 8)
HELD_ROUNDS = 50


def write(thread: Thread, id_: str | None, number: int) -> Call:
    """The writes of one task: two, to two channels."""
    return ["write", thread.thread_id, id_, f"task-{number:03}", ["x", [number]], ["y", number]]


EXPECTED = [(f"task-{n:03}", channel, value) for n in range(TASKS) for channel, value in (("x", [n]), ("y", n))]


async def test_parallel_tasks_of_eight_processes_lose_no_write_while_the_archiver_runs(
    world: World, agent: TieredSaver, worker: Tiers, caller: StartCaller
) -> None:
    """CON-01."""
    callers = [caller(postgres_min_size="0") for _ in range(PROCESSES)]
    chance = random.Random(7)
    for number in range(ROUNDS):
        thread = Thread(agent, f"thread-{number}")
        head = await thread.put({"x": [1]})

        await asyncio.gather(write_all(callers, thread, head), archive_at_random(worker, thread, chance))

        assert await pending(thread) == EXPECTED
        await demote(worker, thread.thread_id)
        assert await pending(thread) == EXPECTED
        await promote(worker, thread.thread_id)
        assert await pending(thread) == EXPECTED
    assert world.postgres("select count(*) from checkpoint_writes") == [(len(EXPECTED) * ROUNDS,)]


async def write_all(callers: list[Caller], thread: Thread, head: str) -> None:
    calls = [[write(thread, head, task) for task in range(TASKS)][place::PROCESSES] for place in range(PROCESSES)]
    answers = await asyncio.gather(*(one.call(*mine) for one, mine in zip(callers, calls, strict=True)))
    assert [answer for part in answers for answer in part] == [None] * TASKS


async def archive_at_random(worker: Tiers, thread: Thread, chance: random.Random) -> None:
    for _ in range(5):
        await asyncio.wait({asyncio.create_task(archive(worker, [thread.thread_id]))}, timeout=chance.uniform(0, 0.03))


async def test_writes_of_many_processes_before_their_checkpoint_wait_for_it(
    agent: TieredSaver, worker: Tiers, caller: StartCaller
) -> None:
    """CON-01: the second checkpoint."""
    callers = [caller() for _ in range(2)]
    thread = Thread(agent)

    await asyncio.gather(*(one.call(write(thread, "5", n)) for n, one in enumerate(callers)))
    before = [await thread.latest(), await demote(worker, thread.thread_id), await thread.latest()]
    await thread.put({"x": ["v"]}, id_="5")

    assert before == [None, True, None]
    assert await pending(thread) == EXPECTED[:4]


async def test_writes_between_copy_and_purge_are_never_lost(
    world: World, agent: TieredSaver, worker: Tiers, caller: StartCaller
) -> None:
    """CON-02: the answer to the commit is held back while another process writes."""
    other, chance = caller(), random.Random(11)
    for number in range(HELD_ROUNDS):
        thread = Thread(agent, f"thread-{number}")
        ids = [await thread.put({"x": [n]}) for n in range(3)]
        kind = ("put", "writes", "writes to the old head")[number % 3]
        new = f"{ids[-1]}-4"

        moving = asyncio.create_task(demote(worker, thread.thread_id))
        await asyncio.wait({moving}, timeout=chance.uniform(0, 0.02))
        world.postgres_proxy.hold_replies()
        await asyncio.wait({moving}, timeout=chance.uniform(0, 0.05))
        writing = asyncio.create_task(other.call(*calls_of(kind, thread, ids[-1], new)))
        # Until it needs Postgres, or is done: the thread may have left Redis already.
        await asyncio.wait({writing}, timeout=0.2)
        world.postgres_proxy.release_replies()
        assert not [one for one in await writing if isinstance(one, str) and "Error" in one]
        await moving

        head, expected = (ids[-1], ids[::-1]) if kind == "writes" else (new, [new, *ids[::-1]])
        written = ids[-1] if kind == "writes to the old head" else head
        assert await thread.ids() == expected
        assert await pending(thread, written) == EXPECTED[:2]
        await demote(worker, thread.thread_id)
        assert await thread.ids() == world.cold_ids(thread.thread_id) == expected
        assert await pending(thread, written) == EXPECTED[:2]
    assert world.postgres("select count(*) from checkpoint_writes") == [(2 * HELD_ROUNDS,)]


def calls_of(kind: str, thread: Thread, old: str, new: str) -> list[Call]:
    put: Call = ["put", thread.thread_id, new, {"x": [4]}]
    match kind:
        case "put":
            return [put, write(thread, new, 0)]
        case "writes":
            return [write(thread, old, 0)]
        case _:
            return [put, write(thread, old, 0)]


async def pending(thread: Thread, checkpoint_id: str | None = None) -> list[Any]:
    found = await thread.saver.aget_tuple(thread.config(checkpoint_id))
    return sorted(found.pending_writes or ()) if found else []
