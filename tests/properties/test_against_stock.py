"""The same calls through the stock saver and through ours, archived whenever, leave the same rows byte for byte."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from psycopg import sql

from saver import TierConfig, TieredSaver
from saver.archive import archive
from tests.builders import checkpoint_of
from tests.stock import rows, stock_saver

# What JSONB changes is not here: there our rows differ from those of the stock saver, on purpose (`saver/storable.py`).
PLAIN = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(-1e15, 1e15).filter(lambda one: one != 0.0)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
PACKED = st.sampled_from([b"\0\xff", [1, "a"], {"k": (1, {2})}, HumanMessage("ü", id="m"), []])
VALUES = PLAIN | TEXTS | PACKED
CHANNELS = st.sampled_from(["x", "y", "ü:1"])
METADATA = st.dictionaries(
    st.sampled_from(["source", "note", "writes", "score"]), TEXTS | st.integers() | st.just([1, None])
)
TASKS = st.sampled_from(["task-1", "task-2"])
SPECIAL, ORDINARY = st.sampled_from([ERROR, INTERRUPT, RESUME]), st.sampled_from(["x", "y"])
SMALL = VALUES.filter(lambda one: not isinstance(one, int) or abs(one) < 2**63)  # msgpack has no larger integers


@dataclass(frozen=True)
class Put:
    namespace: str
    number: int
    values: dict[str, Any]
    metadata: dict[str, Any]

    async def tell(self, saver: Any, thread_id: str) -> None:
        """On the checkpoint before it, so that a second one of the same number has the same parent."""
        versions = {name: f"{self.number:032}.{sha256(repr(self).encode()).hexdigest()[:16]}" for name in self.values}
        parent = {"checkpoint_id": f"{self.number - 1:04}"} if self.number else {}
        config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": self.namespace, "user": "u\0", **parent}}
        await saver.aput(
            config, checkpoint_of(self.values, versions, f"{self.number:04}"), self.metadata, dict(versions)
        )


@dataclass(frozen=True)
class Write:
    namespace: str
    number: int
    task: str
    writes: list[tuple[str, Any]]

    async def tell(self, saver: Any, thread_id: str) -> None:
        where = {"thread_id": thread_id, "checkpoint_ns": self.namespace, "checkpoint_id": f"{self.number:04}"}
        await saver.aput_writes({"configurable": where}, self.writes, self.task, f"~{self.task}")


@dataclass(frozen=True)
class Archive:
    is_evicted: bool

    async def tell(self, saver: Any, thread_id: str) -> None:
        if isinstance(saver, TieredSaver):
            await (
                saver.demote(thread_id) if self.is_evicted else archive(saver._runtime.tiers, [thread_id], wait=True)
            )


Call = Put | Write | Archive
NAMESPACES, NUMBERS = st.sampled_from(["", "child:1"]), st.integers(0, 4)
CALLS: st.SearchStrategy[list[Call]] = st.lists(
    st.builds(Put, NAMESPACES, NUMBERS, st.dictionaries(CHANNELS, VALUES), METADATA)
    | st.builds(Write, NAMESPACES, NUMBERS, TASKS, st.lists(st.tuples(ORDINARY, SMALL), max_size=3))
    | st.builds(Write, NAMESPACES, NUMBERS, TASKS, st.lists(st.tuples(SPECIAL, SMALL), max_size=3))
    | st.builds(Archive, st.booleans()),
    max_size=15,
)


@dataclass
class Both:
    """Two savers with tables of their own, and the loop they live in."""

    runner: asyncio.Runner
    ours: TieredSaver
    stock: AsyncPostgresSaver

    def tell(self, calls: list[Call], thread_id: str) -> None:
        async def told() -> None:
            for call in calls:
                await call.tell(self.stock, thread_id)
                await call.tell(self.ours, thread_id)
            await self.ours.demote(thread_id)

        self.runner.run(told())


@pytest.fixture
def stock_schema(postgres_url: str) -> Iterator[str]:
    """A schema beside the one of ours."""
    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
        yield name
        connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))


@pytest.fixture
def both(patient: TierConfig, postgres_url: str, stock_schema: str) -> Iterator[Both]:
    async def opened() -> tuple[TieredSaver, AsyncPostgresSaver]:
        return (
            await stack.enter_async_context(TieredSaver(patient)),
            await stack.enter_async_context(stock_saver(postgres_url, stock_schema)),
        )

    stack = AsyncExitStack()
    with asyncio.Runner() as runner:
        yield Both(runner, *runner.run(opened()))
        runner.run(stack.aclose())


@pytest.mark.timeout(3600)  # for the nightly profile; the other ends in seconds
@given(calls=CALLS)
def test_rows_are_those_of_the_stock_saver(
    both: Both, postgres_url: str, schema: str, stock_schema: str, calls: list[Call]
) -> None:
    thread_id = uuid4().hex

    both.tell(calls, thread_id)

    assert rows(postgres_url, schema, thread_id) == rows(postgres_url, stock_schema, thread_id)
