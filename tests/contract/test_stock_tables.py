"""What is archived is byte for byte what the stock saver would have written, and it reads what we wrote."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, _DeltaSnapshot
from psycopg import sql

from saver import TierConfig, TieredSaver
from tests.builders import checkpoint_of
from tests.stock import rows, stock_saver

THREAD = "thread-1"


@pytest.fixture
def other_schema(postgres_url: str) -> Iterator[str]:
    """A schema beside the one of ours, for the stock saver."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
        yield name
        connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))


@dataclass
class Script:
    """Puts with fixed ids and versions, so that two savers can be told the same."""

    saver: BaseCheckpointSaver[str]
    versions: dict[str, str]

    def config(self, namespace: str, checkpoint_id: str | None) -> RunnableConfig:
        configurable = {"thread_id": THREAD, "checkpoint_ns": namespace, "user_id": "user\0 1", "turn": 3}
        return {
            "configurable": configurable | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {}),
            "metadata": {"tag": "a", "score": 1.5, "ok": True, "ignored": ["list"]},
        }

    async def put(
        self, number: int, values: dict[str, Any], *, parent: int | None = None, namespace: str = "", **metadata: Any
    ) -> None:
        changed = {name: f"{number:032}.{name}" for name in values}
        self.versions |= changed
        named = {name: self.versions[name] for name in (*values, *metadata.get("counters_since_delta_snapshot", ()))}
        checkpoint = checkpoint_of(values, named, f"{number:04}")
        config = self.config(namespace, None if parent is None else f"{parent:04}")
        stored: Any = {"source": "loop", "step": number, "parents": {"": "0001"}, **metadata}
        await self.saver.aput(config, checkpoint, stored, dict(changed))

    async def write(
        self, number: int, *writes: tuple[str, Any], task: str, path: str = "", namespace: str = ""
    ) -> None:
        await self.saver.aput_writes(self.config(namespace, f"{number:04}"), writes, task, path)

    async def tell(self) -> None:
        messages = [HumanMessage("hello ü 😀", id="m1"), AIMessage("answer", id="m2")]
        await self.put(1, {"text": "t", "none": None, "number": 2**53, "float": 1.0, "flag": True})
        await self.put(2, {"messages": messages, "text": 'quote " and \\u0000', "bytes": b"\0\xff"}, parent=1)
        await self.put(3, {"messages": messages, "d": _DeltaSnapshot([1])}, parent=2, note="nul \0 gone")
        await self.put(
            4, {"messages": messages}, parent=3, counters_since_delta_snapshot={"d": (1, 1)}, writes={"x": 1}
        )
        await self.put(4, {"messages": messages}, parent=3, counters_since_delta_snapshot={"d": (1, 1)}, again=True)
        await self.put(1, {"child": {"deep": [1, (2, 3), {4}]}}, namespace="child:1")
        await self.write(4, ("messages", messages[0]), ("d", [1]), task="task-1", path="~__pregel_pull, a")
        await self.write(4, ("messages", "late"), ("d", [2]), task="task-1", path="~__pregel_pull, a")
        await self.write(4, (INTERRUPT, ["first"]), task="task-2")
        await self.write(4, (INTERRUPT, ["second"]), task="task-2")
        await self.write(4, (RESUME, "yes"), task="task-2")
        await self.write(2, (ERROR, "boom"), task="task-3")
        await self.write(9, ("early", None), task="task-4")
        await self.write(1, ("child", {"x": 1.5}), task="task-5", namespace="child:1")


async def test_archived_rows_are_those_of_the_stock_saver(
    config: TierConfig, saver: TieredSaver, postgres_url: str, schema: str, other_schema: str
) -> None:
    async with stock_saver(postgres_url, other_schema) as stock:
        await Script(stock, {}).tell()

    await Script(saver, {}).tell()
    assert await saver.demote(THREAD)

    expected, found = rows(postgres_url, other_schema, THREAD), rows(postgres_url, schema, THREAD)
    for table in expected:
        assert found[table] == expected[table]


async def test_stock_saver_reads_every_field_as_we_do(saver: TieredSaver, postgres_url: str, schema: str) -> None:
    await Script(saver, {}).tell()
    config: RunnableConfig = {"configurable": {"thread_id": THREAD}}
    in_hot = [found async for found in saver.alist(config)]
    await saver.demote(THREAD)

    async with stock_saver(postgres_url, schema) as stock:
        by_stock = [found async for found in stock.alist(config)]
        ours = [found async for found in saver.alist(config)]
        newest = await stock.aget_tuple({"configurable": {"thread_id": THREAD, "checkpoint_ns": ""}})

    assert by_id(ours) == by_id(by_stock) == by_id(in_hot)
    assert newest == await saver.aget_tuple({"configurable": {"thread_id": THREAD, "checkpoint_ns": ""}})


def by_id(found: list[CheckpointTuple]) -> list[CheckpointTuple]:
    return sorted(found, key=lambda one: (one.checkpoint["id"], one.config["configurable"]["checkpoint_ns"]))
