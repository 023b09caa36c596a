"""What single calls promise, with the thread in either tier."""

import asyncio
import math
import random
from contextlib import AsyncExitStack
from typing import Any

import pytest
from langgraph.checkpoint.serde.types import ERROR, TASKS

from saver import InvalidThread, TierConfig, TieredSaver
from saver.archive import archive
from saver.connect import Tiers
from tests.builders import Thread, checkpoint_of
from tests.driven import MOVES
from tests.stock import rows, stock_saver


@pytest.fixture(params=MOVES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def values_of(saver: Any, thread: Thread, checkpoint_id: str) -> dict[str, Any]:
    found = await saver.aget_tuple(thread.config(checkpoint_id))
    assert found is not None
    return dict(found.checkpoint["channel_values"])


# ---- channels


async def test_untouched_channels_are_still_there(
    saver: TieredSaver, tiers: Tiers, thread: Thread, place: str, postgres_url: str, schema: str
) -> None:
    """API-01, lists."""
    first = await thread.put({"x": [1], "y": [2]})
    second = await thread.put({"x": [1], "y": [3]}, changed=["y"])

    await MOVES[place](tiers, thread.thread_id)

    newest = await thread.latest()
    assert newest is not None
    assert newest.checkpoint["channel_values"] == {"x": [1], "y": [3]}
    assert newest.parent_config == thread.config(first)
    assert await values_of(saver, thread, first) == {"x": [1], "y": [2]}
    await saver.demote(thread.thread_id)
    async with stock_saver(postgres_url, schema) as stock:
        assert await values_of(stock, thread, first) == {"x": [1], "y": [2]}
        assert await values_of(stock, thread, second) == {"x": [1], "y": [3]}


async def test_channel_without_a_value_is_absent(tiers: Tiers, thread: Thread, place: str) -> None:
    """API-01, plain values and a version without a value."""
    await thread.put({"s": "s", "y": 5})
    await thread.put({"s": "s", "y": 6}, changed=["y", "z"])

    await MOVES[place](tiers, thread.thread_id)

    assert await thread.values() == {"s": "s", "y": 6}


async def test_two_branches_keep_their_own_data(
    saver: TieredSaver, tiers: Tiers, thread: Thread, place: str, postgres_url: str, schema: str
) -> None:
    """API-04."""
    base = await thread.put({"x": ["base"]})
    versions = dict(thread.versions)
    left = await thread.put({"x": ["A"]})
    of_left = thread.versions["x"]
    thread.versions, thread.checkpoint_id = versions, base
    right = await thread.put({"x": ["B"]})

    await MOVES[place](tiers, thread.thread_id)

    assert of_left != thread.versions["x"]
    assert [await values_of(saver, thread, id_) for id_ in (left, right)] == [{"x": ["A"]}, {"x": ["B"]}]
    await saver.demote(thread.thread_id)
    async with stock_saver(postgres_url, schema) as stock:
        assert [await values_of(stock, thread, id_) for id_ in (left, right)] == [{"x": ["A"]}, {"x": ["B"]}]


@pytest.mark.parametrize("current", [None, 5, "00000000000000000000000000000005.0.123"])
def test_next_version_is_larger(config: TierConfig, current: Any) -> None:
    """API-04."""
    saver = TieredSaver(config)

    first, second = (saver.get_next_version(current, None) for _ in range(2))

    assert first != second
    assert min(first, second) > (f"{current:032}" if isinstance(current, int) else current or "")


async def test_row_put_again_has_its_last_metadata(
    saver: TieredSaver, tiers: Tiers, thread: Thread, place: str
) -> None:
    checkpoint_id = await thread.put({"x": [1]})
    await MOVES[place](tiers, thread.thread_id)

    again = checkpoint_of({"x": [1]}, thread.versions, checkpoint_id)
    await saver.aput(thread.config(), again, {"source": "loop", "step": 99}, {})

    await MOVES[place](tiers, thread.thread_id)
    found = await thread.latest()
    assert found is not None
    assert found.metadata["step"] == 99
    assert found.checkpoint["channel_values"] == {"x": [1]}
    assert await thread.ids() == [checkpoint_id]


# ---- writes


async def test_writes_before_their_checkpoint_wait_for_it(tiers: Tiers, thread: Thread, place: str) -> None:
    """CON-01, second part."""
    await thread.write(("x", "early"), checkpoint_id="5")
    await MOVES[place](tiers, thread.thread_id)
    assert await thread.latest() is None

    await thread.put({"x": ["v"]}, id_="5")
    await MOVES[place](tiers, thread.thread_id)

    found = await thread.latest()
    assert found is not None
    assert found.pending_writes == [("task", "x", "early")]


async def test_writes_to_an_old_checkpoint_join_those_in_cold(tiers: Tiers, thread: Thread, place: str) -> None:
    await thread.put({"x": [1]}, id_="1")
    await thread.write(("x", "first"), (ERROR, "old"), checkpoint_id="1")
    await thread.put({"x": [2]}, id_="2")
    await MOVES[place](tiers, thread.thread_id)

    await thread.write(("x", "late"), ("y", "new"), checkpoint_id="1")
    await thread.write((ERROR, "last"), checkpoint_id="1")

    found = await thread.saver.aget_tuple(thread.config("1"))
    assert found is not None
    assert found.pending_writes is not None
    assert sorted(found.pending_writes) == [("task", ERROR, "last"), ("task", "x", "first"), ("task", "y", "new")]


async def test_parallel_writes_lose_nothing_while_the_archiver_runs(
    config: TierConfig, tiers: Tiers, postgres_url: str, schema: str
) -> None:
    """CON-01: a hundred tasks over eight savers, each with connections of its own."""
    small = config.model_copy(update={"postgres_min_size": 0})
    expected = [(f"task-{n:03}", channel, value) for n in range(100) for channel, value in (("x", [n]), ("y", n))]
    async with AsyncExitStack() as stack:
        savers = [await stack.enter_async_context(TieredSaver(small)) for _ in range(8)]
        for number in range(20):
            threads = [Thread(saver, f"thread-{number}") for saver in savers]
            checkpoint_id = await threads[0].put({"x": [1]})

            work = [
                threads[n % 8].write(("x", [n]), ("y", n), task=f"task-{n:03}", checkpoint_id=checkpoint_id)
                for n in range(100)
            ]
            moves = [archive(tiers, [f"thread-{number}"]) for _ in range(5)]
            await asyncio.gather(*random.Random(number).sample([*work, *moves], 105))

            for place in ("hot", "evicted", "promoted"):
                await MOVES[place](tiers, f"thread-{number}")
                found = await threads[1].latest()
                assert found is not None
                assert found.pending_writes == expected
            assert len(rows(postgres_url, schema, f"thread-{number}")["checkpoint_writes"]) == 200


async def test_pending_writes_come_in_the_order_of_their_tasks(tiers: Tiers, thread: Thread, place: str) -> None:
    await thread.put({"x": [1]})
    for task, path in (("c", "~1"), ("a", "~2"), ("b", "~1"), ("z", "")):
        await thread.saver.aput_writes(thread.config(thread.checkpoint_id), [("x", task), ("y", task)], task, path)

    await MOVES[place](tiers, thread.thread_id)

    found = await thread.latest()
    assert found is not None
    wanted = [("z", "x"), ("z", "y"), ("b", "x"), ("b", "y"), ("c", "x"), ("c", "y"), ("a", "x"), ("a", "y")]
    assert [(task, channel) for task, channel, _ in found.pending_writes or []] == wanted


# ---- old formats


@pytest.mark.parametrize("version", [1, 3])
async def test_old_format_gets_the_sends_of_its_parent(
    saver: TieredSaver, tiers: Tiers, thread: Thread, place: str, version: int, postgres_url: str, schema: str
) -> None:
    parent, child = (checkpoint_of({"x": [n]}, {"x": f"{n}"}, f"{n}") for n in (1, 2))
    for checkpoint, config in ((parent, thread.config()), (child, thread.config("1"))):
        old: Any = checkpoint | {"v": version}
        await saver.aput(config, old, {}, {"x": old["id"]})
    await saver.aput_writes(thread.config("1"), [(TASKS, "send-1"), (TASKS, "send-2")], "task")

    await MOVES[place](tiers, thread.thread_id)
    found = await thread.latest()
    await saver.aprune([thread.thread_id])
    pruned = await thread.latest()

    assert found is not None
    assert found.checkpoint["channel_values"] == {"x": [2], TASKS: ["send-1", "send-2"]}
    assert found.checkpoint["channel_versions"] == {"x": "2", TASKS: "2"}
    assert pruned == found
    async with stock_saver(postgres_url, schema) as stock:
        assert await stock.aget_tuple(thread.config()) == found


# ---- metadata


@pytest.mark.parametrize("metadata", [{"x": math.nan}, {"x": {"y": math.inf}}, {"x": {1, 2}}])
async def test_metadata_that_json_cannot_hold_is_refused_at_put(
    saver: TieredSaver, thread: Thread, metadata: Any
) -> None:
    with pytest.raises(InvalidThread, match="metadata"):
        await saver.aput(thread.config(), checkpoint_of({}, {}), metadata, {})

    assert await thread.latest() is None


# ---- prune and its kind


async def test_prune_refuses_what_the_stock_saver_refuses(saver: TieredSaver, thread: Thread) -> None:
    await thread.put({"x": [1]})

    with pytest.raises(ValueError, match="strategy"):
        await saver.aprune([thread.thread_id], strategy="unknown")
    with pytest.raises(TypeError, match="sequence"):
        await saver.aprune(thread.thread_id)
    with pytest.raises(TypeError, match="sequence"):
        await saver.adelete_for_runs("run")

    assert await thread.values() == {"x": [1]}


async def test_prune_keeps_writes_whose_checkpoint_is_on_its_way(thread: Thread, place: str, tiers: Tiers) -> None:
    await thread.put({"x": [1]}, id_="1")
    await thread.put({"x": [2]}, id_="2")
    await thread.write(("x", "old"), checkpoint_id="1")
    await thread.write(("x", "early"), checkpoint_id="3")
    await MOVES[place](tiers, thread.thread_id)

    await thread.saver.aprune([thread.thread_id])
    await thread.put({"x": [3]}, id_="3")

    found = await thread.latest()
    assert found is not None
    assert found.pending_writes == [("task", "x", "early")]
    assert await thread.ids() == ["3", "2"]


async def test_prune_leaves_the_rows_of_the_stock_saver(
    saver: TieredSaver, thread: Thread, postgres_url: str, schema: str
) -> None:
    """The same thread pruned by either has the same rows."""
    await thread.put({"x": [1], "same": ["s"]})
    for number in range(5):
        await thread.put({"x": [number], "same": ["s"]}, changed=["x"])
        await thread.write(("x", number))
    await saver.acopy_thread(thread.thread_id, "twin")

    await saver.aprune([thread.thread_id])
    async with stock_saver(postgres_url, schema) as stock:
        await stock.aprune(["twin"])

    ours, theirs = (rows(postgres_url, schema, name) for name in (thread.thread_id, "twin"))
    assert {table: [row[1:] for row in ours[table]] for table in ours} == {
        table: [row[1:] for row in theirs[table]] for table in theirs
    }


async def test_copy_survives_the_deletion_of_its_source(saver: TieredSaver, tiers: Tiers, place: str) -> None:
    source, target = Thread(saver, "source"), Thread(saver, "target")
    await target.put({"old": ["gone"]})
    await saver.adelete_thread("target")
    ids = [await source.put({"x": [number]}) for number in range(3)]
    await MOVES[place](tiers, "source")

    await saver.acopy_thread("source", "target")
    await saver.adelete_thread("source")

    assert await target.ids() == ids[::-1]
    assert await target.values() == {"x": [2]}
    await target.put({"x": [9]})
    await MOVES[place](tiers, "target")
    assert await target.values() == {"x": [9]}
