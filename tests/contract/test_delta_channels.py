"""A delta channel has its value right after every move, although no checkpoint stores it."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from saver import StaleRun, TieredSaver
from saver.connect import Tiers
from tests import graphs
from tests.builders import Thread
from tests.driven import MOVES
from tests.graphs import config_of
from tests.stock import rows, stock_saver

CONFIG = config_of("thread-1")
THREE_TURNS = ["i0", "o", "i1", "o", "i2", "o"]


async def turn(graph: Any, *inputs: str, config: Any = CONFIG) -> list[str]:
    """Some turns of the chat; returns its log, which must be the same in both channels."""
    values: Any = None
    for one in inputs:
        values = await graph.ainvoke({"log": [one], "plain": [one]}, config)
    assert values["log"] == values["plain"]
    return list(values["log"])


async def log_of(graph: Any, config: Any = CONFIG) -> list[str]:
    values = (await graph.aget_state(config)).values
    assert values["log"] == values["plain"]
    return list(values["log"])


@pytest.mark.parametrize("frequency", [2, 1000])
@pytest.mark.parametrize("place", MOVES)
async def test_every_state_of_the_history_is_right_after_a_move(
    saver: TieredSaver, tiers: Tiers, place: str, frequency: int
) -> None:
    graph, oracle = graphs.log(saver, frequency), graphs.log(InMemorySaver(), frequency)
    await turn(graph, "i0", "i1", "i2")
    await turn(oracle, "i0", "i1", "i2")

    await MOVES[place](tiers, "thread-1")

    found = [state.values async for state in graph.aget_state_history(CONFIG)]
    assert found == [state.values async for state in oracle.aget_state_history(CONFIG)]
    assert await turn(graph, "i3") == [*THREE_TURNS, "i3", "o"]


@pytest.mark.parametrize("frequency", [1, 2, 3, 1000])
async def test_keep_latest_keeps_what_the_value_is_rebuilt_from(
    saver: TieredSaver, tiers: Tiers, postgres_url: str, schema: str, frequency: int
) -> None:
    """RET-03."""
    graph = graphs.log(saver, frequency)
    await turn(graph, "i0", "i1", "i2")

    await saver.aprune(["thread-1"])
    await MOVES["trimmed"](tiers, "thread-1")

    assert await log_of(graph) == THREE_TURNS
    async with stock_saver(postgres_url, schema) as stock:
        assert await log_of(graphs.log(stock, frequency)) == THREE_TURNS
    assert await turn(graph, "i3") == [*THREE_TURNS, "i3", "o"]
    await MOVES["evicted"](tiers, "thread-1")
    assert await log_of(graph) == [*THREE_TURNS, "i3", "o"]


async def test_keep_latest_drops_what_a_snapshot_stands_for(saver: TieredSaver, postgres_url: str, schema: str) -> None:
    graph = graphs.log(saver, 2)
    await turn(graph, *(f"i{number}" for number in range(10)))
    before = await log_of(graph)

    await saver.aprune(["thread-1"])

    left = rows(postgres_url, schema, "thread-1")
    assert await log_of(graph) == before
    assert len(left["checkpoints"]) <= 3
    assert {row[2] for row in left["checkpoint_writes"]} <= {row[2] for row in left["checkpoints"]}


async def test_fork_keeps_its_own_past_through_keep_latest(saver: TieredSaver, tiers: Tiers) -> None:
    """RET-03, with a fork from the second turn."""
    graph = graphs.log(saver)
    await turn(graph, "i0", "i1")
    second = (await graph.aget_state(CONFIG)).config
    await turn(graph, "i2")
    forked = await turn(graph, "F", config=second)

    await MOVES["evicted"](tiers, "thread-1")
    await saver.aprune(["thread-1"])

    assert forked == ["i0", "o", "i1", "o", "F", "o"]
    assert await log_of(graph) == forked
    assert await turn(graph, "i3") == [*forked, "i3", "o"]


async def test_copy_has_the_value_without_its_source(saver: TieredSaver) -> None:
    graph = graphs.log(saver)
    await turn(graph, "i0", "i1", "i2")

    await saver.acopy_thread("thread-1", "thread-2")
    await saver.adelete_thread("thread-1")

    assert await log_of(graph, config_of("thread-2")) == THREE_TURNS
    assert await turn(graph, "i3", config=config_of("thread-2")) == [*THREE_TURNS, "i3", "o"]


async def test_run_that_later_state_is_rebuilt_from_is_not_deleted(saver: TieredSaver) -> None:
    graph = graphs.log(saver)
    for number in range(3):
        await turn(graph, f"i{number}", config=config_of("thread-1", run_id=f"run-{number}"))

    await saver.adelete_for_runs(["run-0"])

    assert await log_of(graph) == THREE_TURNS


async def test_history_asks_each_tier_at_most_once(saver: TieredSaver, tiers: Tiers) -> None:
    graph = graphs.log(saver)
    await turn(graph, "i0", "i1", "i2")
    await MOVES["trimmed"](tiers, "thread-1")
    calls: list[str] = []
    carrier, cold = saver._runtime.tiers.hot, saver._runtime.tiers.cold
    carrier.call = counted(calls, "hot", carrier.call)  # type: ignore[method-assign]
    cold.fetch = counted(calls, "cold", cold.fetch)  # type: ignore[method-assign]

    found = await saver.aget_delta_channel_history(config=CONFIG, channels=["log"])

    assert [value for _, _, values in found["log"]["writes"] for value in values] == THREE_TURNS
    assert calls == ["hot", "cold"]


def counted(calls: list[str], name: str, call: Any) -> Any:
    async def count(*arguments: Any) -> Any:
        calls.append(name)
        return await call(*arguments)

    return count


async def test_fork_from_a_checkpoint_that_was_pruned_is_refused(saver: TieredSaver) -> None:
    """Nothing could rebuild its value: the error comes at once, and not as an empty state later."""
    graph = graphs.log(saver, 2)
    await turn(graph, "i0")
    old = (await graph.aget_state(CONFIG)).config
    await turn(graph, "i1", "i2", "i3", "i4")
    before = await log_of(graph)
    thread = Thread(saver, "thread-1", checkpoint_id=old["configurable"]["checkpoint_id"], versions={"log": "1"})

    await saver.aprune(["thread-1"])

    with pytest.raises(StaleRun):
        await thread.put({}, changed=["log"], metadata={"counters_since_delta_snapshot": {"log": (1, 1)}})
    assert await log_of(graph) == before


@pytest.mark.parametrize("place", MOVES)
async def test_fork_from_a_checkpoint_in_cold_has_its_snapshots(saver: TieredSaver, tiers: Tiers, place: str) -> None:
    thread, counters = Thread(saver), {"counters_since_delta_snapshot": {"log": (0, 1)}}
    first = await thread.put({"log": _DeltaSnapshot(["a"])})
    versions = dict(thread.versions)
    await thread.put({"log": _DeltaSnapshot(["b"])})
    await MOVES[place](tiers, thread.thread_id)

    thread.checkpoint_id, thread.versions = first, versions
    await thread.put({}, metadata=counters)

    assert await thread.values() == {"log": _DeltaSnapshot(["a"])}


@pytest.mark.parametrize("place", MOVES)
async def test_fork_that_brings_all_its_values_keeps_its_snapshots(
    saver: TieredSaver, tiers: Tiers, place: str
) -> None:
    """Found by the property test: Redis lacks a plain value of the old parent too."""
    thread, counters = Thread(saver), {"counters_since_delta_snapshot": {"log": (0, 1)}}
    first = await thread.put({"log": _DeltaSnapshot(["a"]), "x": ["old"]})
    versions = dict(thread.versions)
    await thread.put({"log": _DeltaSnapshot(["b"]), "x": ["new"]})
    await MOVES[place](tiers, thread.thread_id)

    thread.checkpoint_id, thread.versions = first, versions
    await thread.put({"x": ["old"]}, changed=[], metadata=counters)

    assert await thread.values() == {"log": _DeltaSnapshot(["a"]), "x": ["old"]}
