"""What every contestant is asked to store: a thread that grows, one channel with a list of messages."""

import itertools
import operator
from pydoc_data.topics import topics
from typing import Annotated, Any, TypedDict
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.base.id import uuid6

MESSAGES_OF_STATE = {"4 KB": 10, "40 KB": 100}
CHARACTERS = 235  # with its names a message takes about 430 bytes, as in an agent's state

# Prose that every Python has, so that it compresses like what people and models write.
_PROSE = " ".join(" ".join(topics.values()).split())


def message(number: int) -> BaseMessage:
    """One message, unlike the others."""
    at = number * 7919 % (len(_PROSE) - CHARACTERS)
    kind = AIMessage if number % 2 else HumanMessage
    return kind(content=_PROSE[at : at + CHARACTERS], id=str(uuid4()))


class Thread:
    """One thread as LangGraph writes it: every step appends a message and makes a new version."""

    def __init__(self, saver: BaseCheckpointSaver[Any], messages: int) -> None:
        self.config: RunnableConfig = {"configurable": {"thread_id": f"bench-{uuid4()}", "checkpoint_ns": ""}}
        self._saver = saver
        self._version: Any = None
        self._step = -1
        self._first_message = 0
        self.messages = [message(number) for number in range(messages)]

    def next(self) -> tuple[RunnableConfig, Checkpoint, CheckpointMetadata, dict[str, Any]]:
        """The arguments of the next put. The list keeps its length, so that every step costs the same."""
        self._step += 1
        self.messages = [*self.messages[1:], message(len(self.messages) + self._step)]
        self._version = self._saver.get_next_version(self._version, None)
        checkpoint = Checkpoint(
            v=4,
            id=str(uuid6(clock_seq=self._step)),
            ts="2026-01-01T00:00:00.000000+00:00",
            channel_values={"messages": self.messages},
            channel_versions={"messages": self._version},
            versions_seen={"__input__": {}, "model": {"messages": self._version}},
            updated_channels=["messages"],
        )
        metadata: CheckpointMetadata = {"source": "loop", "step": self._step, "parents": {}}
        return self.config, checkpoint, metadata, {"messages": self._version}

    def writes(self) -> list[tuple[str, Any]]:
        return [("messages", self.messages), ("branch:to:tools", None)]

    def update(self) -> list[tuple[str, Any]]:
        """What a node writes: one message, not the whole state."""
        return [("messages", self.messages[-1:]), ("branch:to:tools", None)]

    def stored(self, config: RunnableConfig) -> None:
        """The put was acknowledged: the next one names it as its parent."""
        self.config = config

    @property
    def latest(self) -> RunnableConfig:
        return {"configurable": {"thread_id": self.config["configurable"]["thread_id"], "checkpoint_ns": ""}}


class _State(TypedDict):
    messages: Annotated[list[BaseMessage], operator.add]


NODES = 5


def graph(saver: BaseCheckpointSaver[Any]) -> Any:
    """Five nodes in a row, each of which appends a message and does nothing else."""
    from langgraph.graph import StateGraph

    def node(state: _State) -> dict[str, Any]:
        return {"messages": [message(len(state["messages"]))]}

    builder = StateGraph(_State)
    names = [f"node_{number}" for number in range(NODES)]
    for name in names:
        builder.add_node(name, node)
    builder.set_entry_point(names[0])
    for name, following in itertools.pairwise(names):
        builder.add_edge(name, following)
    builder.set_finish_point(names[-1])
    return builder.compile(checkpointer=saver)
