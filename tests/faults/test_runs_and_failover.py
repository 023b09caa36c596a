"""A run of a graph whose state is made from its ancestors' writes, while Redis may have lost some of them."""

from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph

from saver import StaleRun, TieredSaver
from tests.faults.world import World
from tests.graphs import config_of

CONFIG = config_of("thread-1")


def joined(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(one for write in writes for one in write)]


class State(TypedDict):
    log: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=1000)]


def fail_over(world: World) -> None:
    """Redis gets another history, and may lack what was written last."""
    world.redis("REPLICAOF", "127.0.0.1", 1)
    world.redis("REPLICAOF", "NO", "ONE")


@pytest.mark.parametrize("is_lost", [False, True], ids=["kept", "lost"])
@pytest.mark.parametrize("place", ["graph", "subgraph"])
@pytest.mark.parametrize("turns_before", [0, 1])
async def test_run_from_before_is_refused_though_others_have_read_the_thread_since(
    world: World, agent: TieredSaver, turns_before: int, place: str, is_lost: bool
) -> None:
    """
    Its input is in Redis before the failover: with `durability="sync"` no step begins before the last one is stored.

    What was in Redis alone may be lost in the failover or not; the run cannot know.
    """
    failures = [world]

    async def answer(state: State) -> dict[str, Any]:
        if "fail" in state["log"] and failures:
            fail_over(failures.pop())
            if is_lost:
                world.redis("FLUSHALL")
            await graph.aget_state(CONFIG)  # somebody looks at the thread meanwhile
        return {"log": ["answer"]}

    inner = StateGraph(State).add_node("answer", answer).add_edge(START, "answer").compile(checkpointer=True)
    node: Any = inner if place == "subgraph" else answer
    graph: Any = StateGraph(State).add_node("node", node).add_edge(START, "node").compile(checkpointer=agent)
    for number in range(turns_before):
        await graph.ainvoke({"log": [f"turn {number}"]}, CONFIG)

    with pytest.raises(StaleRun):
        await graph.ainvoke({"log": ["fail"]}, CONFIG, durability="sync")

    again = await graph.ainvoke({"log": ["repeated"]}, CONFIG)
    assert again["log"][-2:] == ["repeated", "answer"]
