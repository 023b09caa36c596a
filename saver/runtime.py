"""
The connections behind a saver: one side for the event loop it was entered in, one for blocking calls.

Shallow copies of a saver (LangGraph makes them) share one Runtime. The blocking side makes round trips to Redis itself
and leaves everything else to a background event loop.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from threading import Lock, Thread
from typing import Any, TypeVar
from weakref import WeakSet

from saver.config import TierConfig
from saver.connect import Tiers, connect
from saver.errors import ColdTierError, TierError
from saver.keys import Keys
from saver.queue import Hints
from saver.routes import BlockingRoute, hot_for_threads
from saver.steps import Slow, Steps, run_async, run_blocking
from saver.survey import warn_of_eviction

T = TypeVar("T")
PATIENCE = 4  # the background loop bounds its own work; this only ends a wait for a loop that died


@asynccontextmanager
async def _opened(config: TierConfig) -> AsyncIterator[Tiers]:
    async with connect(config) as tiers:
        await warn_of_eviction(tiers)
        yield tiers


class Background:
    """Both tiers in an event loop on a thread of its own."""

    def __init__(self, config: TierConfig) -> None:
        self._config = config
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="tier-background", daemon=True)
        self._stack = AsyncExitStack()
        self.tiers: Tiers

    def open(self) -> None:
        self._thread.start()
        try:
            self.tiers = self.run(lambda: self._stack.enter_async_context(_opened(self._config)))
        except BaseException:
            self.close()
            raise

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        limit = self._config.postgres_timeout.total_seconds() * PATIENCE + 60
        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result(limit)
        except TimeoutError as error:
            future.cancel()
            raise ColdTierError(
                "the saver's background loop does not answer; close the saver and open it again"
            ) from error

    def start(self, work: Callable[[Tiers], Coroutine[Any, Any, None]]) -> "Future[None]":
        """Let work go on beside the blocking calls, until it ends or is cancelled."""
        return asyncio.run_coroutine_threadsafe(work(self.tiers), self._loop)

    def close(self) -> None:
        if self._thread.is_alive():
            self.run(self._stack.aclose)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()


class Runtime:
    """Opens what is needed when it is needed, once."""

    def __init__(self, config: TierConfig) -> None:
        self.config = config
        self.keys = Keys(config.key_prefix, config.partitions)
        self.hints = Hints(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tiers: Tiers | None = None
        self._stack = AsyncExitStack()
        self._opening = Lock()
        self._blocking: tuple[BlockingRoute, Background] | None = None
        _open_here.add(self)

    def leave_to_parent(self) -> None:
        """
        In a process that was forked: forget what the parent opened, so that the next call opens its own.

        Nothing is closed. The sockets and the selectors are the parent's too, and a farewell would end its connections.
        """
        _of_parent.append((self._stack, self._tiers, self._loop, self._blocking))
        self._stack, self._tiers, self._loop, self._blocking = AsyncExitStack(), None, None, None
        self._opening = Lock()
        self.hints.leave_to_parent()

    # ---- for the event loop

    async def open_async(self) -> None:
        if self._tiers is not None:
            raise TierError("this saver is open already; enter it once and share it")
        self._tiers = await self._stack.enter_async_context(_opened(self.config))
        self._loop = asyncio.get_running_loop()

    async def close_async(self) -> None:
        self._tiers = None
        await self._stack.aclose()
        await asyncio.to_thread(self.close_blocking)

    @property
    def is_here(self) -> bool:
        """Whether the caller runs in the event loop that the saver was entered in."""
        return self._loop is not None and asyncio._get_running_loop() is self._loop

    @property
    def tiers(self) -> Tiers:
        """Both tiers in the running event loop. Raises TierError unless the saver was entered there."""
        if self._tiers is None or asyncio.get_running_loop() is not self._loop:
            raise TierError("the async methods need `async with TieredSaver...` in the event loop that calls them")
        return self._tiers

    def run(self, steps: Steps[T]) -> Coroutine[Any, Any, T]:
        return run_async(steps, self.tiers)

    # ---- for threads

    def open_blocking(self) -> tuple[BlockingRoute, Background]:
        with self._opening:
            if self._blocking is None:
                background = Background(self.config)
                background.open()
                self._blocking = (hot_for_threads(self.config), background)
            return self._blocking

    def close_blocking(self) -> None:
        with self._opening:
            blocking, self._blocking = self._blocking, None
        self.hints.close()
        if blocking is not None:
            blocking[0].close()
            blocking[1].close()

    def beside(self, work: Callable[[Tiers], Coroutine[Any, Any, None]]) -> "Future[None]":
        """Let work go on in the background loop; whoever starts it cancels it."""
        _, background = self._blocking or self.open_blocking()
        return background.start(work)

    def run_blocking(self, steps: Steps[T]) -> T:
        hot, background = self._blocking or self.open_blocking()

        def slow(step: Slow) -> Any:
            async def work() -> Any:
                return await step.function(background.tiers, *step.arguments)

            return background.run(work)

        return run_blocking(steps, hot.call, slow)


_open_here: WeakSet[Runtime] = WeakSet()
_of_parent: list[Any] = []  # kept: what is collected says goodbye


def _leave_to_parent() -> None:
    for runtime in list(_open_here):
        runtime.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)
