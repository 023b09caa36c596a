"""
The floor: what a put or a get costs at least in Python, so nobody can be far below it.

It serializes, sends the same bytes with one command per row, and keeps no promise: no first-wins, no log, no cold tier.
Over the pool of redis-py with its pipeline as it comes (MULTI) and without MULTI, and over one connection that all
tasks share.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

import hiredis
import redis.asyncio as aioredis
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from saver.wire import Place, Wire

Command = tuple[str | bytes | int, ...]
Send = Callable[[Sequence[Command]], Awaitable[list[Any]]]


def over_pool(client: aioredis.Redis, *, is_atomic: bool) -> Send:
    async def send(commands: Sequence[Command]) -> list[Any]:
        pipeline = client.pipeline(transaction=is_atomic)
        for command in commands:
            pipeline.execute_command(*command)
        return list(await pipeline.execute())

    return send


async def over_one(url: str) -> tuple[Send, Wire]:
    wire = await Wire.open(Place.from_url(url), 10)

    async def send(commands: Sequence[Command]) -> list[Any]:
        futures = [wire.submit(command) for command in commands]
        replies = [await future for future in futures]
        if any(isinstance(reply, hiredis.ReplyError) for reply in replies):
            raise RuntimeError("Redis refused a command of the floor")
        return replies

    return send, wire


class FloorSaver(BaseCheckpointSaver[str]):
    """The least that stores what was given and gives back the newest, or the last ten."""

    def __init__(self, send: Send) -> None:
        super().__init__()
        self._send = send
        self._ids: dict[str, list[str]] = {}  # known for nothing: a present to the floor

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        whole = int(str(current).split(".")[0]) if current is not None else 0
        return f"{whole + 1:032}.0000000000000000"

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        key, id_ = config["configurable"]["thread_id"], checkpoint["id"]
        row = json.dumps({**checkpoint, "channel_values": {}})
        commands: list[Command] = [("HSET", f"floor:c:{key}:{id_}", "row", row, "metadata", json.dumps(metadata))]
        for channel in new_versions:
            type_, data = self.serde.dumps_typed(checkpoint["channel_values"][channel])
            commands.append(("SET", f"floor:b:{key}:{id_}", type_.encode() + b"\0" + data))
        await self._send([*commands, ("ZADD", f"floor:ids:{key}", 0, id_)])
        self._ids.setdefault(key, []).append(id_)
        return {"configurable": {**config["configurable"], "checkpoint_id": id_}}

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        key, id_ = config["configurable"]["thread_id"], config["configurable"]["checkpoint_id"]
        parts: list[str | bytes] = []
        for index, (channel, value) in enumerate(writes):
            type_, data = self.serde.dumps_typed(value)
            parts += [f"{task_id}:{index}", f"{channel}\0{type_}\0".encode() + data]
        await self._send([("HSET", f"floor:w:{key}:{id_}", *parts)])

    def _commands(self, key: str, id_: str) -> list[Command]:
        return [
            ("HMGET", f"floor:c:{key}:{id_}", "row", "metadata"),
            ("GET", f"floor:b:{key}:{id_}"),
            ("HGETALL", f"floor:w:{key}:{id_}"),
        ]

    def _tuple(self, key: str, row: list[bytes], blob: bytes, writes: Any) -> CheckpointTuple:
        checkpoint = json.loads(row[0])
        type_, _, data = blob.partition(b"\0")
        checkpoint["channel_values"]["messages"] = self.serde.loads_typed((type_.decode(), data))
        pending = []
        for name, part in _pairs(writes):
            channel, kind, value = part.split(b"\0", 2)
            task = name.decode().partition(":")[0]
            pending.append((task, channel.decode(), self.serde.loads_typed((kind.decode(), value))))
        config: RunnableConfig = {"configurable": {"thread_id": key, "checkpoint_ns": ""}}
        return CheckpointTuple(config, checkpoint, json.loads(row[1]), None, pending)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple:
        key = config["configurable"]["thread_id"]
        replies = await self._send(self._commands(key, self._ids[key][-1]))
        return self._tuple(key, *replies)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        assert config is not None
        key = config["configurable"]["thread_id"]
        ids = reversed(self._ids[key][-(limit or 10) :])
        replies = await self._send([command for id_ in ids for command in self._commands(key, id_)])
        for at in range(0, len(replies), 3):
            yield self._tuple(key, *replies[at : at + 3])


def _pairs(fields: Any) -> Iterable[tuple[bytes, bytes]]:
    """The fields of a hash: redis-py makes a dict of them, the shared connection leaves a list."""
    return fields.items() if isinstance(fields, dict) else zip(fields[::2], fields[1::2], strict=True)
