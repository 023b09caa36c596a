"""Listings over the union of the tiers: nothing twice, nothing left out, the filter as Postgres has it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.types import ERROR

from saver import InvalidThread, TieredSaver
from saver.archive import archive
from saver.connect import Tiers
from tests.builders import Thread
from tests.driven import MOVES
from tests.stock import stock_saver

DEEP = {
    "labels": {"list": [1, "a", {"k": None}], "1": 2.5},
    "flag": True,
    "none": None,
    "score": 1,
    "text": "nul\0gone",
}


@pytest.fixture(params=MOVES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def listed(saver: Any, config: RunnableConfig | None, **options: Any) -> list[CheckpointTuple]:
    return [found async for found in saver.alist(config, **options)]


def ids(found: list[CheckpointTuple]) -> list[tuple[str, ...]]:
    return [
        tuple(one.config["configurable"][key] for key in ("thread_id", "checkpoint_ns", "checkpoint_id"))
        for one in found
    ]


@pytest_asyncio.fixture
async def scattered(saver: TieredSaver, tiers: Tiers) -> AsyncIterator[list[Thread]]:
    """
    Threads of more than one page, in every state: parts in cold alone, in both tiers, and in hot alone.

    Their ids and namespaces sort differently, and two threads are copies with equal checkpoint ids.
    """
    threads = [Thread(saver, name, namespace) for name in ("b", "A", "a-1") for namespace in ("", "child:1", "Child")]
    for number in range(70):
        for at, thread in enumerate(threads):
            await thread.put({"x": [number]}, metadata={"step": number, "half": number % 2, "at": at})
            if number % 9 == 0:
                await thread.write(("x", number))
        if number == 20:
            await MOVES["evicted"](tiers, "A")
            await MOVES["trimmed"](tiers, "b")
        if number == 50:
            await MOVES["trimmed"](tiers, "A")
            await archive(tiers, ["a-1"])
    await saver.acopy_thread("A", "copy")
    yield threads


@pytest.mark.slow
async def test_listings_of_scattered_threads_are_those_of_the_stock_saver(
    saver: TieredSaver, scattered: list[Thread], postgres_url: str, schema: str
) -> None:
    middle = scattered[4].checkpoint_id
    before: RunnableConfig = {"configurable": {"checkpoint_id": (await scattered[1].ids())[33]}}
    configs: list[RunnableConfig | None] = [None, {"configurable": {"thread_id": "A"}}]
    configs += [thread.config() for thread in scattered[3:6]]
    configs += [scattered[4].config(middle), {"configurable": {"thread_id": "A", "checkpoint_id": middle}}]
    options: list[dict[str, Any]] = [{}, {"before": before}, {"filter": {"half": 1}}, {"limit": 7}]
    options += [
        {"filter": {"half": 0, "at": 3}, "before": before, "limit": 9},
        {"limit": 150},
        {"filter": {"step": 99}},
    ]
    asked = [(config, option) for config in configs for option in options]

    ours = [await listed(saver, config, **option) for config, option in asked]
    for name in ("A", "a-1", "b"):
        await saver.demote(name)

    async with stock_saver(postgres_url, schema) as stock:
        for (config, option), found in zip(asked, ours, strict=True):
            all_of_it = await listed(stock, config, **{**option, "limit": None})
            in_order = sorted(all_of_it, key=order, reverse=True)[: option.get("limit")]
            assert ids(found) == ids(in_order), (config, option)
            assert found == in_order


def order(one: CheckpointTuple) -> tuple[str, ...]:
    thread_id, namespace, checkpoint_id = ids([one])[0]
    return checkpoint_id, thread_id, namespace


FILTERS: list[tuple[dict[str, Any], bool]] = [
    ({"labels": {"list": [1]}}, True),
    ({"labels": {"list": ["a", 1]}}, True),
    ({"labels": {"list": ({"k": None},)}}, True),
    ({"labels": {"list": [2]}}, False),
    ({"labels": {"list": 1}}, False),
    ({"labels": {1: 2.5}}, True),
    ({"labels": {}}, True),
    ({"labels": []}, False),
    ({"flag": True}, True),
    ({"flag": 1}, False),
    ({"score": 1.0}, True),
    ({"score": True}, False),
    ({"score": "1"}, False),
    ({"none": None}, True),
    ({"absent": None}, False),
    ({"text": "nulgone"}, True),
    ({"text": "nul\0gone"}, True),
    ({"score": 1, "flag": False}, False),
    ({}, True),
]


async def test_filter_asks_for_what_postgres_calls_containment(
    saver: TieredSaver, tiers: Tiers, thread: Thread, place: str
) -> None:
    await thread.put({"x": [1]}, metadata=DEEP)
    await MOVES[place](tiers, thread.thread_id)

    for filter_, is_met in FILTERS:
        assert bool(await listed(saver, thread.config(), filter=filter_)) == is_met, filter_
        assert bool(await listed(saver, None, filter=filter_)) == is_met, filter_


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"bytes", "\ud800"])
async def test_filter_that_no_metadata_meets_is_refused_in_every_place(
    saver: TieredSaver, tiers: Tiers, thread: Thread, place: str, value: Any
) -> None:
    await thread.put({"x": [1]})
    await MOVES[place](tiers, thread.thread_id)

    with pytest.raises(InvalidThread, match="filter"):
        await listed(saver, thread.config(), filter={"x": value})


async def test_late_writes_to_a_checkpoint_in_cold_are_listed(
    saver: TieredSaver, tiers: Tiers, thread: Thread, place: str
) -> None:
    """Found by the property test."""
    await thread.put({"x": [1]}, id_="1")
    await thread.write(("x", "first"), (ERROR, "old"))
    await thread.put({"x": [2]}, id_="2")
    await MOVES[place](tiers, thread.thread_id)

    await thread.write(("x", "late"), ("y", "new"), (ERROR, "last"), checkpoint_id="1")

    wanted = await saver.aget_tuple(thread.config("1"))
    assert wanted is not None
    assert wanted.pending_writes is not None
    assert len(wanted.pending_writes) == 3
    whole: RunnableConfig = {"configurable": {"thread_id": thread.thread_id}}
    for config in (thread.config(), whole, thread.config("1"), None):
        assert (await listed(saver, config))[-1] == wanted


async def test_early_writes_in_cold_join_a_checkpoint_that_comes_out_of_order(
    saver: TieredSaver, tiers: Tiers, thread: Thread, place: str
) -> None:
    """Found by the property test: the checkpoint is older than what hot begins with."""
    await thread.put({"x": [5]}, id_="5")
    await thread.put({"x": [9]}, id_="9")
    await thread.write(("x", "early"), checkpoint_id="7")
    await MOVES[place](tiers, thread.thread_id)

    thread.checkpoint_id = "5"
    await thread.put({"x": [7]}, id_="7")

    found = await saver.aget_tuple(thread.config("7"))
    assert found is not None
    assert found.pending_writes == [("task", "x", "early")]
    for config in (thread.config(), thread.config("7"), None):
        assert found in await listed(saver, config)
    thread.checkpoint_id = "7"
    await thread.put({}, id_="8", metadata={"counters_since_delta_snapshot": {"x": (1, 1)}})
    history = await saver.aget_delta_channel_history(config=thread.config("8"), channels=["x"])
    assert history["x"]["writes"] == found.pending_writes


async def test_old_checkpoint_with_new_metadata_is_listed_with_its_writes(
    saver: TieredSaver, tiers: Tiers, thread: Thread, place: str
) -> None:
    first = await thread.put({"x": [1]}, metadata={"step": 1})
    await thread.write(("x", "kept"))
    versions = dict(thread.versions)
    second = await thread.put({"x": [2]}, metadata={"step": 2})
    await MOVES[place](tiers, thread.thread_id)

    thread.versions, thread.checkpoint_id = versions, None
    await thread.put({"x": [1]}, changed=[], id_=first, metadata={"step": 7})

    for config in (thread.config(), None):
        [found] = await listed(saver, config, filter={"step": 7})
        assert found.pending_writes == [("task", "x", "kept")]
        assert await listed(saver, config, filter={"step": 1}) == []
    assert await thread.ids() == [second, first]


async def test_listing_may_be_left_in_the_middle(saver: TieredSaver, tiers: Tiers, thread: Thread) -> None:
    for number in range(5):
        await thread.put({"x": [number]})
    await MOVES["trimmed"](tiers, thread.thread_id)

    for _ in range(30):
        async for found in saver.alist(thread.config()):
            assert found.checkpoint["channel_values"] == {"x": [4]}
            break

    assert len(await thread.ids()) == 5


async def test_thread_that_is_moved_during_a_listing_is_listed_once(
    saver: TieredSaver, tiers: Tiers, thread: Thread
) -> None:
    wanted = [await thread.put({"x": [number]}) for number in range(230)][::-1]
    moves = ["trimmed", "evicted", "promoted", "hot"] * 60

    found = []
    async for one in saver.alist(thread.config()):
        found.append(one.checkpoint["id"])
        if len(found) % 45 == 0:
            await MOVES[moves.pop()](tiers, thread.thread_id)

    assert found == wanted
