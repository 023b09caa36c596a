"""Real graphs give the same results, with the same nodes run, wherever their threads are between two calls."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, StateSnapshot

from saver import TierConfig, TieredSaver
from saver.connect import Tiers
from tests import graphs
from tests.driven import MOVES, Driven
from tests.graphs import config_of
from tests.stock import rows, stock_saver

CONFIG = config_of("thread-1")


@pytest.fixture(params=[*(("async", place) for place in MOVES), ("blocking", "evicted")], ids="-".join)
def driven(request: pytest.FixtureRequest, saver: TieredSaver, tiers: Tiers) -> Driven:
    """A saver whose threads move between every two calls of the graph."""
    family, place = request.param
    return Driven(saver, tiers, family, MOVES[place])


async def test_second_question_is_still_open_after_a_move(driven: Driven) -> None:
    """SER-04, graph 1."""
    graph = graphs.approval(driven, [])

    await graph.ainvoke({}, CONFIG)
    await graph.ainvoke(Command(resume="A"), CONFIG)
    between = await graph.aget_state(CONFIG)
    last = await graph.ainvoke(Command(resume="B"), CONFIG)

    assert between.next == ("n",)
    assert [one.value for one in between.interrupts] == ["q2"]
    assert last["out"] == ["A", "B"]


async def test_finished_parallel_tasks_do_not_run_again(driven: Driven) -> None:
    """SER-04, graph 2."""
    runs: list[int] = []
    graph = graphs.fan_out(driven, runs)

    await graph.ainvoke({}, CONFIG)
    last = await graph.ainvoke(Command(resume="yes"), CONFIG)

    assert last["done"] == ["1", "2:yes", "3"]
    assert sorted(runs[:3]) == [1, 2, 3]
    assert runs[3:] == [2]


async def test_thread_that_waits_for_a_person_survives_keep_latest(saver: TieredSaver) -> None:
    """RET-05: archived while it waits, then pruned."""
    runs: list[int] = []
    graph = graphs.fan_out(saver, runs)
    await graph.ainvoke({}, CONFIG)
    await saver.demote("thread-1")

    await saver.aprune(["thread-1"])
    last = await graph.ainvoke(Command(resume="yes"), CONFIG)

    assert last["done"] == ["1", "2:yes", "3"]
    assert sorted(runs) == [1, 2, 2, 3]


async def test_pause_in_a_subgraph_is_resumed_after_a_move(driven: Driven) -> None:
    """API-06."""
    runs: list[str] = []
    graph = graphs.nested(driven, runs)

    await graph.ainvoke({"x": ["in"]}, CONFIG)
    last = await graph.ainvoke(Command(resume="R"), CONFIG)

    assert last["x"] == ["in", "in", "k", "in", "in", "k", "leaf:R"]
    assert runs == ["k", "leaf", "leaf"]


async def test_all_namespaces_travel_are_pruned_and_deleted_together(
    saver: TieredSaver, tiers: Tiers, postgres_url: str, schema: str
) -> None:
    """API-06."""
    graph = graphs.nested(saver, [])
    await graph.ainvoke({"x": ["in"]}, CONFIG)
    await saver.demote("thread-1")
    archived = namespaces(postgres_url, schema)
    await graph.ainvoke(Command(resume="R"), CONFIG)
    await graph.ainvoke({"x": ["again"]}, CONFIG)
    await graph.ainvoke(Command(resume="S"), CONFIG)
    before = await saver.aget_tuple(config_of("thread-1", checkpoint_ns="keep"))

    await saver.aprune(["thread-1"])
    kept, after = namespaces(postgres_url, schema), await saver.aget_tuple(config_of("thread-1", checkpoint_ns="keep"))
    await saver.adelete_thread("thread-1")

    assert {name.split(":")[0] for name in archived} == {"", "keep", "sub"}
    assert before is not None
    assert after is not None
    assert after == before._replace(parent_config=None)
    assert kept == {"", "keep"}
    assert not any(rows(postgres_url, schema, "thread-1").values())
    keys = tiers.keys.thread("thread-1")
    assert await tiers.hot.command("EXISTS", keys.thread, keys.log, keys.token) == 0


def namespaces(postgres_url: str, schema: str) -> set[str]:
    return {row[1] for row in rows(postgres_url, schema, "thread-1")["checkpoints"]}


async def test_interrupted_run_is_resumed_in_another_process(config: TierConfig, saver: TieredSaver) -> None:
    """The thread is archived and evicted between its two halves."""
    await graphs.approval(saver, []).ainvoke({}, CONFIG)
    await saver.demote("thread-1")

    first = await elsewhere(config, "A")
    await saver.demote("thread-1")
    second = await elsewhere(config, "B")

    assert first == {"out": None, "runs": ["n"]}
    assert second == {"out": ["A", "B"], "runs": ["n"]}
    assert (await graphs.approval(saver, []).aget_state(CONFIG)).values == {"out": ["A", "B"]}


async def elsewhere(config: TierConfig, answer: str) -> Any:
    """Resume the approval graph in a new process."""
    environment = {
        "TIER_REDIS_URL": config.redis_url.get_secret_value(),
        "TIER_POSTGRES_URL": config.postgres_url.get_secret_value(),
        "TIER_KEY_PREFIX": config.key_prefix,
        "TIER_POSTGRES_SCHEMA": config.postgres_schema,
        "TIER_PARTITIONS": str(config.partitions),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.graphs", "thread-1", answer),
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(output)


async def test_stock_saver_reads_state_and_history_of_a_graph(
    saver: TieredSaver, postgres_url: str, schema: str
) -> None:
    graph = graphs.nested(saver, [])
    await graph.ainvoke({"x": ["in"]}, CONFIG)
    await saver.demote("thread-1")

    async with stock_saver(postgres_url, schema) as stock:
        theirs = graphs.nested(stock, [])
        states = [await one.aget_state(CONFIG, subgraphs=True) for one in (graph, theirs)]
        histories = [[state async for state in one.aget_state_history(CONFIG)] for one in (graph, theirs)]
        listings = [[found async for found in one.alist(CONFIG)] for one in (saver, stock)]

    assert states[0] == states[1]
    assert histories[0] == histories[1]
    assert sorted(map(repr, listings[0])) == sorted(map(repr, listings[1]))


async def test_thread_of_the_stock_saver_is_continued_at_once(
    config: TierConfig, postgres_url: str, schema: str
) -> None:
    """The database was written by the stock saver alone: no table of ours is there."""
    async with stock_saver(postgres_url, schema) as stock:
        await graphs.fan_out(stock, []).ainvoke({}, CONFIG)
        history = [state async for state in graphs.fan_out(stock, []).aget_state_history(CONFIG)]
    runs: list[int] = []

    async with TieredSaver(config) as saver:
        graph = graphs.fan_out(saver, runs)
        seen = [state async for state in graph.aget_state_history(CONFIG)]
        last = await graph.ainvoke(Command(resume="yes"), CONFIG)

    assert seen == history
    assert last["done"] == ["1", "2:yes", "3"]
    assert runs == [2]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_every_durability_gives_the_states_of_the_memory_saver(driven: Driven, durability: Any) -> None:
    seen = []
    for saver in (InMemorySaver(), driven):
        graph = graphs.log(saver, 3)
        for turn in ("i0", "i1", "i2"):
            await graph.ainvoke({"log": [turn], "plain": [turn]}, CONFIG, durability=durability)
        await graph.aupdate_state(CONFIG, {"log": ["u"], "plain": ["u"]})
        seen.append([(state.values, state.next) async for state in graph.aget_state_history(CONFIG)])

    assert seen[1] == seen[0]
    assert seen[1][0][0]["log"] == seen[1][0][0]["plain"] == ["i0", "o", "i1", "o", "i2", "o", "u"]


async def conversation(saver: Any, runs: list[Any]) -> list[Any]:
    """Time travel, a fork by update_state, a replay, and a subgraph's own history; all that can be seen of it."""
    nested, chat = graphs.nested(saver, runs), graphs.fan_out(saver, runs)
    await chat.ainvoke({"done": ["start"]}, config_of("chat"))
    asked = await chat.aget_state(config_of("chat"))
    await chat.ainvoke(Command(resume="first"), config_of("chat"))
    await chat.aupdate_state(asked.config, {"done": ["forked"]}, as_node="work")
    await chat.ainvoke(None, asked.config)
    await nested.ainvoke({"x": ["in"]}, CONFIG, durability="exit")
    [task] = (await nested.aget_state(CONFIG, subgraphs=True)).tasks
    await nested.ainvoke(Command(resume="R"), CONFIG)
    seen: list[Any] = [task.name, task.state.values, task.state.next]
    for graph, config in ((chat, config_of("chat")), (nested, CONFIG)):
        async for state in graph.aget_state_history(config):
            facts = {key: state.metadata.get(key) for key in ("source", "step")}
            seen.append((state.values, state.next, facts, [one.name for one in state.tasks]))
    return seen


async def test_time_travel_and_forks_look_as_in_memory(driven: Driven) -> None:
    runs: list[Any] = []
    expected: list[Any] = []

    seen = await conversation(driven, runs)

    assert seen == await conversation(InMemorySaver(), expected)
    assert sorted(map(str, runs)) == sorted(map(str, expected))


KINDS: dict[str, tuple[Any, Any, list[Any]]] = {  # the graph, its first input, the answers to its questions
    "deep": (graphs.deep, {"x": ["in"]}, [Command(resume="D")]),
    "calls": (graphs.calls, {"x": ["in"]}, [{"a": "A", "b": "B", "c": "C"}]),
    "failing": (graphs.failing, {"x": ["in"]}, [None]),
    "workflow": (graphs.workflow, 3, [Command(resume="F"), 4, Command(resume="G")]),
}


async def told(saver: Any, kind: str, runs: list[Any]) -> list[Any]:
    """A whole conversation with a graph: every result, every state and every history."""
    make, first, answers = KINDS[kind]
    graph = make(saver, runs)
    seen = [await result_of(graph, first)]
    for answer in answers:
        state = await graph.aget_state(CONFIG, subgraphs=True)
        if isinstance(answer, dict):
            answer = Command(resume={one.id: answer[one.value] for one in state.interrupts})
        seen += [shown(state), [shown(one) async for one in graph.aget_state_history(CONFIG)]]
        seen.append(await result_of(graph, answer))
    return [
        *seen,
        shown(await graph.aget_state(CONFIG)),
        [shown(one) async for one in graph.aget_state_history(CONFIG)],
    ]


async def result_of(graph: Any, given: Any) -> Any:
    """What an invocation gives, without the order in which parallel tasks paused."""
    try:
        found = await graph.ainvoke(given, CONFIG)
    except ValueError as error:
        return str(error)
    return {key: value for key, value in found.items() if key != "__interrupt__"} if isinstance(found, dict) else found


def shown(state: StateSnapshot) -> Any:
    """All that can be told from a state and its tasks, theirs included."""
    tasks = [
        (
            one.name,
            str(one.error),
            [ask.value for ask in one.interrupts],
            shown(one.state) if isinstance(one.state, StateSnapshot) else None,
        )
        for one in state.tasks
    ]
    facts = {key: (state.metadata or {}).get(key) for key in ("source", "step")}
    return state.values, state.next, facts, tasks


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_graph_runs_as_in_memory(driven: Driven, kind: str) -> None:
    runs: list[Any] = []
    expected: list[Any] = []

    seen = await told(driven, kind, runs)

    assert seen == await told(InMemorySaver(), kind, expected)
    assert sorted(map(str, runs)) == sorted(map(str, expected))


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", ["deep", "failing"])
def test_blocking_graphs_run_as_in_memory(config: TierConfig, kind: str, durability: Any) -> None:
    make, first, answers = KINDS[kind]

    def talk(saver: Any, move: Callable[[], Any]) -> list[Any]:
        runs: list[Any] = []
        graph, seen = make(saver, runs), []
        for given in (first, *answers):
            try:
                seen.append(graph.invoke(given, CONFIG, durability=durability).get("x"))
            except ValueError as error:
                seen.append(str(error))
            move()
            seen.append([shown(state) for state in graph.get_state_history(CONFIG)])
        return [*seen, sorted(runs)]

    expected = talk(InMemorySaver(), lambda: None)
    with TieredSaver(config) as saver:
        assert talk(saver, lambda: saver.demote("thread-1")) == expected


@pytest.mark.parametrize("place", MOVES)
async def test_two_updates_of_one_state_are_two_branches(
    saver: TieredSaver, tiers: Tiers, place: str, postgres_url: str, schema: str
) -> None:
    """API-04."""
    graph = graphs.log(saver)
    await graph.ainvoke({"log": ["base"], "plain": ["base"]}, CONFIG)
    base = (await graph.aget_state(CONFIG)).config
    branches = [await graph.aupdate_state(base, {"log": [one], "plain": [one]}) for one in "AB"]
    await MOVES[place](tiers, "thread-1")

    found = [(await graph.aget_state(branch)).values for branch in branches]
    await saver.demote("thread-1")
    async with stock_saver(postgres_url, schema) as stock:
        theirs = [(await graphs.log(stock).aget_state(branch)).values for branch in branches]

    expected = [{"log": ["base", "o", one], "plain": ["base", "o", one]} for one in "AB"]
    assert found == theirs == expected


def test_blocking_graph_goes_on_after_a_move(config: TierConfig) -> None:
    runs: list[int] = []
    with TieredSaver(config) as saver:
        graph = graphs.fan_out(saver, runs)

        graph.invoke({}, CONFIG)
        assert saver.demote("thread-1")
        assert saver.tier_of("thread-1") == "cold"
        last = graph.invoke(Command(resume="yes"), CONFIG)

        assert saver.tier_of("thread-1") == "hot"
    assert last["done"] == ["1", "2:yes", "3"]
    assert runs[3:] == [2]
