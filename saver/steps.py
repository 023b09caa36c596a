"""
One description of an operation, two ways to run it.

An operation is a generator that yields what it needs and receives what came back: a `Request` is one round trip to
Redis, `Slow` is everything else, an async function of the tiers. The async runner awaits both; the blocking runner
makes the round trip itself and leaves the rest to the saver's background event loop.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, TypeVar

from saver.connect import Tiers
from saver.hot import Request

T = TypeVar("T")


class Slow(NamedTuple):
    """Work beyond one round trip to Redis: `await function(tiers, *arguments)`."""

    function: Callable[..., Awaitable[Any]]
    arguments: tuple[Any, ...]


Steps = Generator[Request | Slow, Any, T]


async def run_async(steps: Steps[T], tiers: Tiers) -> T:
    call = tiers.hot.call
    try:
        step = next(steps)
        while True:
            if isinstance(step, Request):
                result = await call(step)
            else:
                result = await step.function(tiers, *step.arguments)
            step = steps.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


def run_blocking(steps: Steps[T], call: Callable[[Request], Any], slow: Callable[[Slow], Any]) -> T:
    try:
        step = next(steps)
        while True:
            step = steps.send(call(step) if isinstance(step, Request) else slow(step))
    except StopIteration as stop:
        value: T = stop.value
        return value
