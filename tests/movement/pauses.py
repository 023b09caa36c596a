"""Stop a mover at a named point of the protocol while the world goes on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from saver import hot
from saver.connect import Tiers
from tests.builders import Thread
from tests.waiting import eventually_async


class Pause:
    """Stops the first work that comes to a point, until it is told to go on."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, point: str) -> None:
        if point == self.point and not self.reached.is_set():
            self.reached.set()
            await self.go_on.wait()


@asynccontextmanager
async def stopped(tiers: Tiers, point: str, work: Awaitable[Any]) -> AsyncIterator["asyncio.Future[Any]"]:
    """Run `work` up to a point; the body runs meanwhile; then let it finish."""
    pause = tiers.pause = Pause(point)
    task = asyncio.ensure_future(work)
    reached = asyncio.ensure_future(pause.reached.wait())
    await asyncio.wait({task, reached}, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    assert pause.reached.is_set(), f"never came to {point!r}"
    try:
        yield task
    finally:
        pause.go_on.set()
        await asyncio.wait_for(task, 20)


async def done_or_waiting(tiers: Tiers, work: "asyncio.Future[Any]") -> None:
    """Wait until the work has ended, or waits for a lock in Postgres that somebody else holds."""
    url = tiers.config.postgres_url.get_secret_value()

    def waits() -> bool:
        with psycopg.connect(url) as connection:
            return connection.execute("select exists (select 1 from pg_locks where not granted)").fetchall() == [
                (True,)
            ]

    async def is_settled() -> bool:
        return work.done() or await asyncio.to_thread(waits)

    await eventually_async(is_settled)


_ANTEDATED = """
local incarnation, _, tail, count = cmsgpack.unpack(redis.call('HGET', KEYS[1], 's'))
redis.call('HSET', KEYS[1], 's', cmsgpack.pack(incarnation, 'another-history', tail, count))
"""


async def antedate(tiers: Tiers, thread: Thread) -> None:
    """Make the copy in Redis one from before a failover, as its state tells."""
    await tiers.hot.command("EVAL", _ANTEDATED, 1, tiers.keys.thread(thread.thread_id).thread)


async def cold_ids(tiers: Tiers, thread: Thread) -> list[str]:
    """Ids of the checkpoints in Postgres, newest first."""
    rows = await tiers.cold.read_newest(thread.thread_id, thread.namespace, 100)
    return sorted((row.checkpoint_id for row in rows.checkpoints), reverse=True)


async def trim(tiers: Tiers, thread: Thread, keep: int = 1) -> int:
    reply = await tiers.hot.call(hot.trim(tiers.keys.thread(thread.thread_id), thread.thread_id, keep))
    return int(reply)
