"""States of an older schema_version are brought up when they are read, in either tier."""

from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph

from saver import ConfigError, TierConfig, TieredSaver
from tests.builders import Thread

State = dict[str, Any]


def rename(state: State) -> State:
    return {"words": state["text"].split(), **{k: v for k, v in state.items() if k != "text"}}


def count(state: State) -> State:
    return {**state, "count": len(state["words"])}


@pytest.mark.parametrize("tier", ["hot", "cold"])
async def test_old_state_reads_as_the_current_one(config: TierConfig, tier: str) -> None:
    async with TieredSaver(config) as old:
        thread = Thread(old, "t")
        await thread.put({"text": "a b", "kept": [1]})
        if tier == "cold":
            await old.demote("t")

    async with TieredSaver(config) as new:
        new.migrations.register(2)(rename)
        new.migrations.register(3)(count)

        assert await Thread(new, "t").values() == {"words": ["a", "b"], "kept": [1], "count": 2}


async def test_next_put_writes_the_new_state_back(config: TierConfig) -> None:
    async with TieredSaver(config) as old:
        await Thread(old, "t").put({"text": "a b"})

    async with TieredSaver(config) as new:
        new.migrations.register(2)(rename)
        found = await Thread(new, "t").latest()
        assert found is not None
        checkpoint = {**found.checkpoint, "id": "ffffffff-0000-6000-8000-000000000000"}
        await new.aput(found.config, checkpoint, {"source": "loop", "step": 2}, {})  # type: ignore[arg-type]
        await new.demote("t")

    async with TieredSaver(config) as plain:
        stored = await Thread(plain, "t").latest()

    assert stored is not None
    assert stored.checkpoint["channel_values"] == {"words": ["a", "b"]}
    assert stored.metadata["schema_version"] == 2  # type: ignore[typeddict-item]


async def test_migrated_thread_does_not_run_its_nodes_again(config: TierConfig) -> None:
    ran: list[str] = []

    class Now(TypedDict):
        text: str
        seen: int

    def node(state: Now) -> dict[str, Any]:
        ran.append(state["text"])
        return {"seen": len(ran)}

    builder = StateGraph(Now).add_node("node", node).add_edge(START, "node").add_edge("node", END)
    where: Any = {"configurable": {"thread_id": "t"}}
    async with TieredSaver(config) as old:
        first: Any = builder.compile(checkpointer=old)
        await first.ainvoke({"text": "a"}, where)

    async with TieredSaver(config) as new:
        new.migrations.register(2)(lambda state: {**state, "text": state["text"].upper()})
        graph: Any = builder.compile(checkpointer=new)
        state = await graph.aget_state(where)

        assert state.values == {"text": "A", "seen": 1}
        assert state.next == ()
        assert await graph.ainvoke(None, where) == {"text": "A", "seen": 1}
        assert ran == ["a"]


def test_versions_are_registered_once_and_from_two_on(config: TierConfig) -> None:
    migrations = TieredSaver(config).migrations
    migrations.register(2)(rename)

    for version in (1, 2):
        with pytest.raises(ConfigError):
            migrations.register(version)
