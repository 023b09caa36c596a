"""Moves on request, in both families, and what a saver inherits from LangGraph's base class."""

from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from saver import TierConfig, TieredSaver
from tests.builders import Thread, checkpoint_of


async def test_async_saver_moves_threads_on_request(saver: TieredSaver, thread: Thread) -> None:
    name = thread.thread_id
    assert await saver.tier_of(name) is None
    await thread.put({"x": [1]})
    assert await saver.tier_of(name) == "hot"

    assert await saver.demote(name) is True
    assert await saver.tier_of(name) == "cold"
    assert await thread.values() == {"x": [1]}
    assert await saver.tier_of(name) == "cold"
    assert [await saver.promote(name), await saver.promote(name)] == [True, False]
    assert await saver.tier_of(name) == "hot"
    await saver.setup()
    await saver.adelete_thread(name)

    assert await saver.tier_of(name) is None


def test_blocking_saver_moves_threads_on_request(config: TierConfig) -> None:
    where: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    with TieredSaver(config) as saver:
        assert saver.tier_of("t") is None
        saver.put(where, checkpoint_of({"x": [1]}, {"x": "1"}), {}, {"x": "1"})
        assert [saver.tier_of("t"), saver.demote("t"), saver.tier_of("t")] == ["hot", True, "cold"]
        assert [saver.promote("t"), saver.promote("t"), saver.tier_of("t")] == [True, False, "hot"]
        saver.setup()
        saver.delete_thread("t")

        assert saver.tier_of("t") is None


async def test_what_the_base_class_gives_is_there(saver: TieredSaver, thread: Thread) -> None:
    await thread.put({"x": [1]})

    found = await saver.aget(thread.config())

    assert found is not None
    assert found["channel_values"] == {"x": [1]}
    assert await saver.aget({"configurable": {"thread_id": "unknown", "checkpoint_ns": ""}}) is None
    assert saver.config_specs == InMemorySaver().config_specs
