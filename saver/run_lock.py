"""
Run lock: runs on one thread come one after the other, and one that lost its lock cannot write.

The lock stands in Redis beside its thread. A put shows the token of its run, and the script that stores it compares the
two in the same step: no clock and no pause between check and write lets two runs in. Who takes no lock needs none.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar, Token
from datetime import timedelta
from secrets import token_hex
from types import TracebackType
from typing import NamedTuple, Self

from saver.connect import Tiers
from saver.errors import HotTierError, RunLockLost, RunLockTaken
from saver.hot import Request
from saver.keys import Keys
from saver.runtime import Runtime
from saver.scripts import script
from saver.steps import Slow, Steps

LIFETIME = timedelta(seconds=30)
PATIENCE = timedelta(minutes=1)
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.01, 0.2
RENEWALS = 3  # within the lifetime of a lock


class Fence(NamedTuple):
    """What a put shows of its run: the key of the lock, and the token that must stand there."""

    key: str
    token: str


_held: ContextVar[Mapping[tuple[int, str], Fence]] = ContextVar("tier_run_locks", default={})  # noqa: B039 - never changed


def fence_of(keys: Keys, thread_id: str) -> Fence | None:
    """The lock that the calling run holds on a thread of these keys. Tasks and threads of a run inherit it."""
    held = _held.get()
    return held.get((id(keys), thread_id)) if held else None


def lost() -> RunLockLost:
    return RunLockLost("this run lost the lock of its thread, so nothing was written; read the thread and run again")


class RunLock:
    """
    The lock of one run, as a context manager of both families; made by `TieredSaver.run_lock`.

    Renewed while it is held. Raises RunLockTaken when another run keeps it for longer than `wait`; puts and writes of
    the body raise RunLockLost once it is lost.
    """

    def __init__(self, runtime: Runtime, thread_id: str, wait: timedelta, lifetime: timedelta) -> None:
        self.is_lost = False
        self._runtime = runtime
        self._thread_id = thread_id
        self._wait_seconds = wait.total_seconds()
        self._lifetime_ms = round(lifetime.total_seconds() * 1000)
        self._fence = Fence(runtime.keys.run_lock(thread_id), token_hex(16))
        self._reset: Token[Mapping[tuple[int, str], Fence]] | None = None
        self._stop: Callable[[], object] = bool

    async def __aenter__(self) -> Self:
        await self._runtime.run(self._take())
        task = asyncio.create_task(self._renew(self._runtime.tiers))
        self._begin(task.cancel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        await self._runtime.run(self._release())

    def __enter__(self) -> Self:
        self._runtime.run_blocking(self._take())
        self._begin(self._runtime.beside(self._renew).cancel)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._runtime.run_blocking(self._release())

    def _begin(self, stop: Callable[[], object]) -> None:
        self._stop = stop
        self._reset = _held.set({**_held.get(), (id(self._runtime.keys), self._thread_id): self._fence})

    def _end(self) -> None:
        self._stop()
        if self._reset is not None:
            _held.reset(self._reset)
            self._reset = None

    def _take(self) -> Steps[None]:
        if fence_of(self._runtime.keys, self._thread_id) is not None:
            raise RunLockTaken("this run holds the lock of the thread already; take it once")
        request = Request(
            script("lock_take"), [self._fence.key], (self._thread_id, self._fence.token, self._lifetime_ms)
        )
        deadline, pause = time.monotonic() + self._wait_seconds, FIRST_PAUSE_SECONDS
        while (yield request) != 1:
            if time.monotonic() >= deadline:
                raise RunLockTaken("another run on this thread goes on; wait for it, or give run_lock a longer wait")
            yield Slow(_sleep, (pause,))
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)

    async def _renew(self, tiers: Tiers) -> None:
        """Until it is lost or given back. A Redis that does not answer is asked again: the lock may still be ours."""
        while True:
            await asyncio.sleep(self._lifetime_ms / 1000 / RENEWALS)
            with suppress(HotTierError):
                if await tiers.hot.call(self._hold(self._lifetime_ms)) == 0:
                    self.is_lost = True
                    return

    def _release(self) -> Steps[None]:
        if (yield self._hold(0)) == 0:
            self.is_lost = True

    def _hold(self, lifetime_ms: int) -> Request:
        return Request(script("lock_hold"), [self._fence.key], (self._thread_id, self._fence.token, lifetime_ms))


async def _sleep(_: Tiers, seconds: float) -> None:
    await asyncio.sleep(seconds)
