"""
Threads that a saver of another project writes, and what it reads back: to compare with what we read after the import.

It is imported in the environments of those savers too, where ours is not.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from operator import add
from typing import Annotated, Any, TypedDict
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Interrupt, Send, interrupt
from pydantic import BaseModel

WAITS = "waits:for a person"
THREADS = ("talk", WAITS, "nested")


class Cart(BaseModel):
    """A class of the application."""

    items: list[str]


@dataclass
class Spot:
    """Another one."""

    x: int
    at: datetime


class State(TypedDict, total=False):
    messages: Annotated[list[BaseMessage], add_messages]
    words: Annotated[list[str], add]
    count: int
    cart: Cart
    spot: Spot
    data: bytes
    seen: set[int]
    key: UUID
    odd: dict[str, Any]


def _answer(state: State) -> State:
    number = len(state["messages"])
    return {
        "messages": [AIMessage(content=f"answer {number} ü", id=f"a{number}", additional_kwargs={"n": number})],
        "count": number,
        "cart": Cart(items=["tea"] * number),
        "spot": Spot(number, datetime(2026, 1, 2, 3, tzinfo=UTC)),
        "data": b"\x00\xff",
        "seen": {1, 2},
        "key": UUID(int=number),
        "odd": {"none": None, "nested": [{"real": 1.5}], "true": True},
    }


def _ask(state: State) -> State:
    return {"words": [f"told {interrupt({'question': 'go on?'})}"]}


def _word(state: Any) -> State:
    return {"words": [str(state["word"])]}


def _fan(state: State) -> list[Send]:
    return [Send("word", {"word": word}) for word in ("one", "two")]


def graph_of(name: str, saver: "BaseCheckpointSaver[Any]") -> Any:
    """The graph of a thread of THREADS."""
    builder = StateGraph(State)
    if name == "talk":
        builder.add_node("answer", _answer).add_edge(START, "answer").add_edge("answer", END)
    elif name == "nested":
        inner = StateGraph(State).add_node("word", _word).add_conditional_edges(START, _fan).add_node("ask", _ask)
        inner.add_edge("word", "ask")
        builder.add_node("inner", inner.compile()).add_edge(START, "inner")
    else:
        builder.add_node("ask", _ask).add_edge(START, "ask")
    return builder.compile(checkpointer=saver)


def play(saver: "BaseCheckpointSaver[Any]") -> None:
    """Write the threads."""
    for number in range(3):
        say(saver, "talk", f"say {number}")
    graph_of(WAITS, saver).invoke({"words": ["first"]}, at(WAITS))
    graph_of("nested", saver).invoke({"words": ["outer"]}, at("nested"))


def say(saver: "BaseCheckpointSaver[Any]", name: str, text: str) -> None:
    """One turn of a thread that is like `talk`."""
    graph_of("talk", saver).invoke({"messages": [HumanMessage(content=text, id=text)]}, at(name))


def answer(name: str, saver: "BaseCheckpointSaver[Any]") -> Any:
    """Give a thread that waits the answer of its person."""
    return graph_of(name, saver).invoke(Command(resume="yes"), at(name))


def at(name: str) -> RunnableConfig:
    return {"configurable": {"thread_id": name}}


def read(saver: "BaseCheckpointSaver[Any]", names: "list[str] | tuple[str, ...]" = THREADS) -> dict[str, list[Any]]:
    """What a saver reads of each thread, as plain text, to compare it across processes."""
    found = {name: [saver.get_tuple(listed.config) for listed in saver.list(at(name))] for name in names}
    return {name: sorted((_plain(each) for each in tuples if each), key=str) for name, tuples in found.items()}


def newest(saver: "BaseCheckpointSaver[Any]") -> dict[str, Any]:
    """What a saver reads of each thread when its agents go on."""
    found = {name: saver.get_tuple(at(name)) for name in THREADS}
    return {name: each and _told(each.checkpoint["channel_values"]) for name, each in found.items()}


def _plain(found: CheckpointTuple) -> list[Any]:
    where = found.config["configurable"]
    parent = (found.parent_config or {"configurable": {}})["configurable"]
    return [
        where["checkpoint_ns"],
        where["checkpoint_id"],
        parent.get("checkpoint_id"),
        found.metadata.get("step"),
        found.metadata.get("source"),
        _told(found.checkpoint["channel_values"]),
        sorted(([task, channel, _told(value)] for task, channel, value in found.pending_writes or []), key=str),
    ]


def _told(value: Any) -> Any:
    """As JSON, objects as the name of their class and what they hold: some savers give those of an application so."""
    if isinstance(value, dict) and value.get("type") == "constructor" and "lc" in value:
        return [value["id"][-1], _told(value["kwargs"])]
    if isinstance(value, BaseMessage):
        return [type(value).__name__, value.id, value.content, _told(value.additional_kwargs)]
    if isinstance(value, BaseModel):
        return [type(value).__name__, _told(dict(value))]
    if isinstance(value, (Spot, Send, Interrupt)):
        names = ("x", "at", "node", "arg", "value", "id")
        return [type(value).__name__, {name: _told(getattr(value, name)) for name in names if hasattr(value, name)}]
    if isinstance(value, dict):
        return {name: _told(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_told(item) for item in (sorted(value) if isinstance(value, set) else value)]
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
