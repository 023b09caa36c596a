"""Copies of threads: into nothing, into a thread that is there, out of one that is not."""

from typing import Any
from uuid import UUID

import pytest
from langgraph.checkpoint.serde.types import ERROR

from saver import TieredSaver
from saver.connect import Tiers
from tests.builders import Thread
from tests.driven import MOVES


@pytest.fixture(params=MOVES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_copy_joins_what_its_target_has(saver: TieredSaver, tiers: Tiers, place: str) -> None:
    """Of one checkpoint in both, the row and special writes are those of the source, ordinary writes of the target."""
    source, target = Thread(saver, "source"), Thread(saver, "target")
    for thread in (source, target):
        await thread.put({"x": [thread.thread_id]}, id_="2", metadata={"of": thread.thread_id})
        await thread.write(("x", thread.thread_id), (ERROR, thread.thread_id))
    await source.put({"x": ["source 3"]}, id_="3")
    await Thread(saver, "source", "child").put({"y": [1]}, id_="1")
    await target.put({"x": ["target 5"]}, id_="5")
    await MOVES[place](tiers, "source")
    await MOVES[place](tiers, "target")
    before = [found async for found in saver.alist(source.config())]

    await saver.acopy_thread("source", "target")

    assert await target.ids() == ["5", "3", "2"]
    assert await target.values() == {"x": ["target 5"]}
    both = await saver.aget_tuple(target.config("2"))
    assert both is not None
    assert both.checkpoint["channel_values"] == {"x": ["source"]}
    assert both.metadata["of"] == "source"  # type: ignore[typeddict-item]
    assert both.pending_writes == [("task", ERROR, "source"), ("task", "x", "target")]
    assert await Thread(saver, "target", "child").values() == {"y": [1]}
    assert [found async for found in saver.alist(source.config())] == before


async def test_copy_to_itself_and_copy_of_nothing_change_nothing(
    saver: TieredSaver, tiers: Tiers, thread: Thread, place: str
) -> None:
    await thread.put({"x": [1]})
    await MOVES[place](tiers, thread.thread_id)
    before = await thread.latest()

    await saver.acopy_thread(thread.thread_id, thread.thread_id)
    await saver.acopy_thread("unknown", thread.thread_id)
    await saver.acopy_thread("unknown", "also unknown")

    assert await thread.latest() == before
    assert await saver.tier_of("also unknown") is None
    assert [info.thread_id for info in await saver.list_threads()] == [thread.thread_id]


@pytest.mark.parametrize("ids", [(1, 2), (UUID(int=1), UUID(int=2)), ("a b", "ü:'\"\\")])
async def test_threads_of_any_id_are_copied_pruned_and_deleted(saver: TieredSaver, ids: Any) -> None:
    source, target = (Thread(saver, one) for one in ids)
    for number in range(2):
        await source.put({"x": [number]}, metadata={"run_id": f"run-{number}"})

    await saver.acopy_thread(*ids)
    await saver.aprune([ids[0]])
    assert len(await source.ids()) == 1
    assert len(await target.ids()) == 2
    await saver.adelete_for_runs(["run-1"])
    assert await source.ids() == []
    assert await target.values() == {"x": [0]}
    await saver.adelete_thread(ids[1])

    assert await target.latest() is None
    assert await saver.tier_of(ids[1]) is None


async def test_one_thread_goes_on_after_the_copy_without_the_other(
    saver: TieredSaver, tiers: Tiers, place: str
) -> None:
    source, target = Thread(saver, "source"), Thread(saver, "target")
    await source.put({"x": ["both"]})
    await saver.acopy_thread("source", "target")
    target.versions, target.checkpoint_id = dict(source.versions), source.checkpoint_id

    await source.put({"x": ["source"]})
    await MOVES[place](tiers, "source")
    await target.put({"x": ["target"]})
    await MOVES[place](tiers, "target")

    assert await source.values() == {"x": ["source"]}
    assert await target.values() == {"x": ["target"]}
    assert len(await source.ids()) == len(await target.ids()) == 2
