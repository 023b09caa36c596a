"""
Small real graphs, one of each kind that LangGraph checkpoints differently. `runs` collects which nodes ran.

`python -m tests.graphs` resumes the approval graph in a process of its own: TIER_ variables, thread id, answer.
"""

import asyncio
import json
import operator
import sys
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send, interrupt

from saver import TieredSaver

Saver = BaseCheckpointSaver[str]


class Approval(TypedDict, total=False):
    out: list[str]


def approval(saver: Saver | None, runs: list[str]) -> Any:
    """One node that asks two questions."""

    def ask(state: Approval) -> Approval:
        runs.append("n")
        return {"out": [interrupt("q1"), interrupt("q2")]}

    graph = StateGraph(Approval)
    graph.add_node("n", ask)
    graph.add_edge(START, "n")
    return graph.compile(checkpointer=saver)


class FanOut(TypedDict, total=False):
    done: Annotated[list[str], operator.add]


def fan_out(saver: Saver, runs: list[int]) -> Any:
    """Three parallel sends; the second one waits for a person."""

    def work(number: int) -> FanOut:
        runs.append(number)
        return {"done": [f"{number}:{interrupt('ok?')}" if number == 2 else str(number)]}

    graph: Any = StateGraph(FanOut)
    graph.add_node("work", work)
    graph.add_conditional_edges(START, lambda _: [Send("work", number) for number in (1, 2, 3)], ["work"])
    return graph.compile(checkpointer=saver)


def _joined(state: list[str], writes: Any) -> list[str]:
    return [*state, *(item for write in writes for item in write)]


def log(saver: Saver, snapshot_frequency: int = 1000) -> Any:
    """A chat of one node, with its log once as a delta channel and once as a plain one."""

    class Log(TypedDict, total=False):
        log: Annotated[list[str], DeltaChannel(_joined, snapshot_frequency=snapshot_frequency)]
        plain: Annotated[list[str], operator.add]

    def answer(state: Log) -> Log:
        return {"log": ["o"], "plain": ["o"]}

    graph = StateGraph(Log)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile(checkpointer=saver)


class Nested(TypedDict, total=False):
    x: Annotated[list[str], operator.add]


def _one_node(name: str, node: Callable[[Nested], Nested], checkpointer: bool | None) -> Any:
    graph: Any = StateGraph(Nested)
    graph.add_node(name, node)
    graph.add_edge(START, name)
    return graph.compile(checkpointer=checkpointer)


def nested(saver: Saver, runs: list[str]) -> Any:
    """A subgraph that remembers, then one whose leaf waits for a person."""

    def remember(state: Nested) -> Nested:
        runs.append("k")
        return {"x": ["k"]}

    def leaf(state: Nested) -> Nested:
        runs.append("leaf")
        return {"x": [f"leaf:{interrupt('?')}"]}

    graph = StateGraph(Nested)
    graph.add_node("keep", _one_node("inner", remember, True))
    graph.add_node("sub", _one_node("leaf", leaf, None))
    graph.add_edge(START, "keep")
    graph.add_edge("keep", "sub")
    graph.add_edge("sub", END)
    return graph.compile(checkpointer=saver)


def deep(saver: Saver, runs: list[Any]) -> Any:
    """A subgraph of a subgraph, whose leaf waits for a person."""

    def node(name: str) -> Callable[[Nested], Nested]:
        def run(state: Nested) -> Nested:
            runs.append(name)
            return {"x": [f"leaf:{interrupt('deep?')}" if name == "leaf" else name]}

        return run

    middle: Any = StateGraph(Nested)
    middle.add_node("mid", node("mid")).add_node("inner", _one_node("leaf", node("leaf"), None))
    middle.add_edge(START, "mid").add_edge("mid", "inner")
    graph: Any = StateGraph(Nested)
    graph.add_node("top", node("top")).add_node("middle", middle.compile())
    return graph.add_edge(START, "top").add_edge("top", "middle").compile(checkpointer=saver)


def calls(saver: Saver, runs: list[Any]) -> Any:
    """Three parallel calls of one subgraph, each of which waits for a person."""

    def ask(state: Nested) -> Nested:
        runs.append("ask")
        question = state["x"][-1]
        return {"x": [f"{question}={interrupt(question)}"]}

    def each(state: Nested) -> list[Send]:
        return [Send("sub", {"x": [question]}) for question in "abc"]

    graph: Any = StateGraph(Nested).add_node("sub", _one_node("ask", ask, None))
    return graph.add_conditional_edges(START, each, ["sub"]).compile(checkpointer=saver)


def failing(saver: Saver, runs: list[Any]) -> Any:
    """Two nodes, the second of which fails the first time."""

    def good(state: Nested) -> Nested:
        runs.append("good")
        return {"x": ["good"]}

    def bad(state: Nested) -> Nested:
        runs.append("bad")
        if runs.count("bad") == 1:
            raise ValueError("boom")
        return {"x": ["bad"]}

    graph: Any = StateGraph(Nested).add_node("good", good).add_node("bad", bad)
    return graph.add_edge(START, "good").add_edge("good", "bad").compile(checkpointer=saver)


def workflow(saver: Saver, runs: list[Any]) -> Any:
    """The functional interface: tasks, an interrupt, what the run before saved, and a store."""

    @task
    async def double(number: int) -> int:
        runs.append(number)
        return 2 * number

    @entrypoint(checkpointer=saver, store=InMemoryStore())
    async def flow(number: int, *, previous: int | None, store: BaseStore) -> entrypoint.final[list[Any], int]:
        doubled = [await double(number), await double(number + 1)]
        answer = interrupt("ok?")
        await store.aput(("seen",), str(number), {"answer": answer})
        seen = sorted(item.key for item in await store.asearch(("seen",)))
        return entrypoint.final(value=[*doubled, answer, previous, seen], save=(previous or 0) + number)

    return flow


def config_of(thread_id: str, **more: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, **more}}


async def _resume(thread_id: str, answer: str) -> None:
    runs: list[str] = []
    async with TieredSaver.from_env() as saver:
        found = await approval(saver, runs).ainvoke(Command(resume=answer), config_of(thread_id))
    json.dump({"out": found.get("out"), "runs": runs}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(_resume(*sys.argv[1:]))
