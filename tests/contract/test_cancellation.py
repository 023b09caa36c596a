"""A call that is cancelled at any moment was made as a whole or not at all, and leaves the pools whole."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any

import pytest

from saver import TieredSaver
from tests.builders import Thread, checkpoint_of
from tests.properties.oracle import shown
from tests.waiting import eventually_async

MOMENTS = 14  # at which each call is cancelled, from its first line to after its end

Call = Callable[[TieredSaver, str], Awaitable[Any]]


def where(name: str, checkpoint_id: str | None = None) -> Any:
    configurable = {"thread_id": name, "checkpoint_ns": ""}
    return {"configurable": configurable | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


async def put(saver: TieredSaver, name: str) -> None:
    await saver.aput(
        where(name, "2"), checkpoint_of({"x": [3], "y": [3]}, {"x": "3", "y": "3"}, "3"), {}, {"x": "3", "y": "3"}
    )


async def put_writes(saver: TieredSaver, name: str) -> None:
    await saver.aput_writes(where(name, "2"), [("x", 1), ("y", [2])], "late")


async def listed(saver: TieredSaver, name: str) -> list[Any]:
    return [found async for found in saver.alist({"configurable": {"thread_id": name}})]


async def history(saver: TieredSaver, name: str) -> Any:
    return await saver.aget_delta_channel_history(config=where(name), channels=["x"])


CALLS: dict[str, Call] = {
    "get_tuple": lambda saver, name: saver.aget_tuple(where(name)),
    "list": listed,
    "get_delta_channel_history": history,
    "put": put,
    "put_writes": put_writes,
    "delete_thread": lambda saver, name: saver.adelete_thread(name),
    "delete_for_runs": lambda saver, name: saver.adelete_for_runs([f"run-{name}"]),
    "prune": lambda saver, name: saver.aprune([name]),
    "copy_thread": lambda saver, name: saver.acopy_thread(name, f"{name}-copy"),
    "demote": lambda saver, name: saver.demote(name),
    "promote": lambda saver, name: saver.promote(name),
}


async def made(saver: TieredSaver, name: str, tier: str) -> None:
    """A thread of two checkpoints, the older one of a run that is to be deleted."""
    thread = Thread(saver, name)
    await thread.put({"x": [1]}, id_="1", metadata={"run_id": f"run-{name}"})
    await thread.write(("x", "old"))
    await thread.put({"x": [2]}, id_="2")
    await thread.write(("x", "new"))
    if tier == "cold":
        await saver.demote(name)


async def seen(saver: TieredSaver, name: str) -> list[str]:
    """All that can be told of the thread and its copy, whoever is called what."""
    await saver.demote(name)  # waits for what still goes on in Postgres
    found = await listed(saver, name) + await listed(saver, f"{name}-copy")
    return [str(shown(one)).replace(name, "t") for one in found]


@pytest.fixture
def names() -> Iterator[str]:
    return (f"t{number:03}" for number in count())


@pytest.mark.parametrize("tier", ["hot", "cold"])
@pytest.mark.parametrize("call", CALLS)
async def test_cancelled_call_is_made_as_a_whole_or_not_at_all(
    saver: TieredSaver, names: Iterator[str], call: str, tier: str
) -> None:
    name = next(names)
    await made(saver, name, tier)
    before = versionless(await seen(saver, name))
    name = next(names)
    await made(saver, name, tier)
    start = time.monotonic()
    await CALLS[call](saver, name)
    took = time.monotonic() - start
    after = versionless(await seen(saver, name))

    for moment in range(MOMENTS):
        name = next(names)
        await made(saver, name, tier)
        task = asyncio.ensure_future(CALLS[call](saver, name))
        await asyncio.wait({task}, timeout=took * 1.2 * moment / MOMENTS)
        task.cancel()
        await asyncio.wait({task})

        assert versionless(await seen(saver, name)) in (before, after)

    await eventually_async(lambda: is_whole(saver))


def versionless(shown_: list[str]) -> list[str]:
    return [re.sub(r"'0{31}\d\.[\d.e-]+'", "version", text) for text in shown_]


async def is_whole(saver: TieredSaver) -> bool:
    """Every connection is back in the pool of Postgres, and those to Redis answer."""
    tiers = saver._runtime.tiers
    stats = tiers.cold._pool.get_stats()
    assert await tiers.hot.command("PING") == b"PONG"
    return stats["pool_available"] == stats["pool_size"] and not stats.get("requests_waiting")
