"""Builders of what LangGraph would send: threads that grow by one checkpoint at a time."""

from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple
from langgraph.checkpoint.base.id import uuid6

from saver import TieredSaver


def checkpoint_of(values: dict[str, Any], versions: dict[str, Any], id_: str | None = None) -> Checkpoint:
    return Checkpoint(
        v=4,
        id=id_ or str(uuid6(clock_seq=-2)),
        ts="2020-01-01T00:00:00+00:00",
        channel_values=values,
        channel_versions=versions,
        versions_seen={},
        updated_channels=None,
    )


@dataclass
class Thread:
    """One thread as an agent writes it."""

    saver: TieredSaver
    thread_id: str = field(default_factory=lambda: f"thread-{uuid4()}")
    namespace: str = ""
    checkpoint_id: str | None = None
    versions: dict[str, Any] = field(default_factory=dict)

    def config(self, checkpoint_id: str | None = None) -> RunnableConfig:
        configurable = {"thread_id": self.thread_id, "checkpoint_ns": self.namespace}
        if checkpoint_id:
            configurable["checkpoint_id"] = checkpoint_id
        return {"configurable": configurable}

    async def put(
        self,
        values: dict[str, Any],
        *,
        changed: list[str] | None = None,
        id_: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Put a checkpoint on the last one; `changed` names the channels with a new version, all by default."""
        new: dict[str, Any] = {
            channel: self.saver.get_next_version(self.versions.get(channel), None)
            for channel in (changed if changed is not None else values)
        }
        self.versions |= new
        checkpoint = checkpoint_of(values, dict(self.versions), id_)
        parent = self.config(self.checkpoint_id)
        stored: Any = {"source": "loop", "step": 1, **(metadata or {})}
        await self.saver.aput(parent, checkpoint, stored, new)
        self.checkpoint_id = checkpoint["id"]
        return self.checkpoint_id

    async def write(self, *writes: tuple[str, Any], task: str = "task", checkpoint_id: str | None = None) -> None:
        await self.saver.aput_writes(self.config(checkpoint_id or self.checkpoint_id), writes, task)

    async def latest(self) -> CheckpointTuple | None:
        return await self.saver.aget_tuple(self.config())

    async def values(self) -> dict[str, Any] | None:
        found = await self.latest()
        return found.checkpoint["channel_values"] if found else None

    async def ids(self) -> list[str]:
        return [found.checkpoint["id"] async for found in self.saver.alist(self.config())]
