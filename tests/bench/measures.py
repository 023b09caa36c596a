"""What is measured: each measure returns milliseconds per call, or calls per second."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.base import BaseCheckpointSaver

from tests.bench.load import NODES, Thread, graph, message

TASKS = 16
TURNS = 4
LISTED = 10

Saver = BaseCheckpointSaver[Any]
Measure = Callable[[Saver, int, int], Awaitable[list[float]]]


async def _timed(call: Callable[[], Awaitable[Any]], times: list[float]) -> Any:
    start = time.perf_counter()
    result = await call()
    times.append((time.perf_counter() - start) * 1000)
    return result


async def grown(saver: Saver, messages: int, steps: int) -> Thread:
    """A thread of some steps: what is measured next does not pay for its beginning."""
    thread = Thread(saver, messages)
    for _ in range(steps):
        thread.stored(await saver.aput(*thread.next()))
        await saver.aput_writes(thread.config, thread.writes(), str(uuid4()))
    return thread


async def aput(saver: Saver, messages: int, count: int) -> list[float]:
    return await puts(await grown(saver, messages, 2), saver, count)


async def puts(thread: Thread, saver: Saver, count: int) -> list[float]:
    times: list[float] = []
    for _ in range(count):
        arguments = thread.next()
        thread.stored(await _timed(lambda arguments=arguments: saver.aput(*arguments), times))  # type: ignore[misc]
    return times


async def aput_writes(saver: Saver, messages: int, count: int) -> list[float]:
    thread = await grown(saver, messages, 2)
    times: list[float] = []
    for _ in range(count):
        writes, task = thread.writes(), str(uuid4())
        await _timed(lambda w=writes, t=task: saver.aput_writes(thread.config, w, t), times)  # type: ignore[misc]
    return times


async def aget(saver: Saver, messages: int, count: int) -> list[float]:
    return await gets(await grown(saver, messages, 3), saver, count)


async def gets(thread: Thread, saver: Saver, count: int) -> list[float]:
    times: list[float] = []
    for _ in range(count):
        found = await _timed(lambda: saver.aget_tuple(thread.latest), times)
        assert len(found.checkpoint["channel_values"]["messages"]) == len(thread.messages)
    return times


async def alist(saver: Saver, messages: int, count: int) -> list[float]:
    return await lists(await grown(saver, messages, 2 * LISTED), saver, count)


async def lists(thread: Thread, saver: Saver, count: int) -> list[float]:
    async def walk() -> int:
        return len([found async for found in saver.alist(thread.latest, limit=LISTED)])

    times: list[float] = []
    for _ in range(count):
        assert await _timed(walk, times) == LISTED
    return times


async def steps(saver: Saver, messages: int, count: int) -> list[float]:
    """put and put_writes of 16 tasks, each with a thread of its own."""
    threads = await asyncio.gather(*(grown(saver, messages, 1) for _ in range(TASKS)))

    async def run(thread: Thread) -> None:
        for _ in range(count):
            thread.stored(await saver.aput(*thread.next()))
            await saver.aput_writes(thread.config, thread.writes(), str(uuid4()))

    start = time.perf_counter()
    await asyncio.gather(*(run(thread) for thread in threads))
    return [TASKS * count / (time.perf_counter() - start)]


async def nodes(saver: Saver, messages: int, count: int) -> list[float]:
    """Node steps per second of a real graph, 16 conversations of some turns at once, every step awaited."""
    compiled = graph(saver)

    async def talk() -> None:
        config = {"configurable": {"thread_id": f"bench-{uuid4()}"}}
        for _ in range(TURNS * count):
            await compiled.ainvoke({"messages": [message(0)]}, config, durability="sync")

    start = time.perf_counter()
    await asyncio.gather(*(talk() for _ in range(TASKS)))
    return [TASKS * count * TURNS * NODES / (time.perf_counter() - start)]


def _blocking(saver: Saver, messages: int, count: int) -> list[float]:
    thread = Thread(saver, messages)
    times = []
    for _ in range(count + 2):
        arguments, task = thread.next(), str(uuid4())
        start = time.perf_counter()
        thread.stored(saver.put(*arguments))
        saver.put_writes(thread.config, thread.writes(), task)
        saver.get_tuple(thread.latest)
        times.append((time.perf_counter() - start) * 1000)
    return times[2:]


async def blocking_turn(saver: Saver, messages: int, count: int) -> list[float]:
    """put, put_writes and get_tuple, one after the other, by the blocking family in a thread of its own."""
    return await asyncio.to_thread(_blocking, saver, messages, count)


async def async_turn(saver: Saver, messages: int, count: int) -> list[float]:
    """The same by the async family."""
    thread = Thread(saver, messages)
    times = []
    for _ in range(count + 2):
        arguments, task = thread.next(), str(uuid4())
        start = time.perf_counter()
        thread.stored(await saver.aput(*arguments))
        await saver.aput_writes(thread.config, thread.writes(), task)
        await saver.aget_tuple(thread.latest)
        times.append((time.perf_counter() - start) * 1000)
    return times[2:]


MEASURES: dict[str, Measure] = {
    measure.__name__: measure for measure in (aput, aput_writes, aget, alist, steps, nodes, blocking_turn, async_turn)
}
RATES = {"steps", "nodes"}
