"""Waiting for a condition, with a limit: the only place in the tests that sleeps."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

_PAUSE_SECONDS = 0.02


def eventually(check: Callable[[], T], *, within_seconds: float = 10) -> T:
    """Call `check` until what it returns is true, and return that. Fails the test at the limit."""
    deadline = time.monotonic() + within_seconds
    while not (result := check()):
        assert time.monotonic() < deadline, f"not within {within_seconds:g} seconds; the last answer was {result!r}"
        time.sleep(_PAUSE_SECONDS)
    return result


async def eventually_async(check: Callable[[], Awaitable[T]], *, within_seconds: float = 10) -> T:
    """The same for a coroutine function, without holding up the loop."""
    deadline = time.monotonic() + within_seconds
    while not (result := await check()):
        assert time.monotonic() < deadline, f"not within {within_seconds:g} seconds; the last answer was {result!r}"
        await asyncio.sleep(_PAUSE_SECONDS)
    return result


async def lasting(seconds: float) -> None:
    """Let a fault last, or an agent think: time passes, and nothing is expected of it."""
    await asyncio.sleep(seconds)
