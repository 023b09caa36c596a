"""
What many ask for at once is done once.

An answer may be as old as the moment its question was sent. So a reader shares a question that was not sent yet, never
one that was: it sees everything that was there when it asked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from copy import copy
from typing import Any, TypeVar

from saver.errors import TierError

T = TypeVar("T")


class Sharing:
    """
    Work by key: one piece under way, and at most one that waits for its turn.

    Work must end by itself. It goes on when those who wait for it are cancelled, and what it raises reaches each.
    Raises TierError when it is closed meanwhile.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, asyncio.Task[Any]] = {}
        self._under_way: dict[Hashable, asyncio.Task[Any]] = {}

    async def close(self) -> None:
        """End what goes on."""
        tasks = {*self._under_way.values(), *self._waiting.values()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._waiting.clear()

    async def next(self, key: Hashable, work: Callable[[], Awaitable[T]], limit: float) -> T:
        """The result of work that begins after this call. Raises TimeoutError when it is not there within the limit."""
        return await _result_of(self._waiting.get(key) or self._queue(key, work), limit)

    async def current(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """The result of the work that is under way, whenever it began."""
        task = self._under_way.get(key) or self._waiting.get(key) or self._queue(key, work)
        return await _result_of(task, None)

    def _queue(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> "asyncio.Task[T]":
        task = asyncio.ensure_future(self._take_turn(key, work))
        self._waiting[key] = task
        task.add_done_callback(_heard)
        return task

    async def _take_turn(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        await asyncio.sleep(0)  # also where tasks begin eagerly, the callers of this turn of the loop share
        before = self._under_way.get(key)
        if before is not None:
            await asyncio.wait({before})
        self._under_way[key] = self._waiting.pop(key)
        try:
            return await work()
        finally:
            del self._under_way[key]


async def _result_of(task: "asyncio.Task[T]", limit: float | None) -> T:
    done, _ = await asyncio.wait({task}, timeout=limit)
    if not done:
        raise TimeoutError
    if task.cancelled():
        raise TierError("the saver was closed meanwhile")
    error = task.exception()
    if error is not None:
        raise copy(error) from error.__cause__  # one to each: an error collects where it went
    return task.result()


def _heard(task: "asyncio.Task[Any]") -> None:
    """Everybody who waited may have been cancelled: then nobody else looks at its failure."""
    if not task.cancelled():
        task.exception()
