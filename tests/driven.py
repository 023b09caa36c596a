"""One face for both families: async methods that call a saver's own, or its blocking twins in a thread."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)

from saver import TieredSaver, hot
from saver.archive import archive
from saver.connect import Tiers
from saver.demote import demote
from saver.load import promote

Family = Literal["async", "blocking"]
Move = Callable[[Tiers, str], Awaitable[None]]


async def stay_hot(tiers: Tiers, thread_id: str) -> None:
    """No move."""


async def evict(tiers: Tiers, thread_id: str) -> None:
    """Archive a thread and drop it from Redis, unless it is written all the time."""
    await demote(tiers, thread_id)


async def trim(tiers: Tiers, thread_id: str) -> None:
    """Archive a thread and leave one checkpoint of each namespace in Redis."""
    await archive(tiers, [thread_id], wait=True)
    await tiers.hot.call(hot.trim(tiers.keys.thread(thread_id), thread_id, 1))


async def promoted(tiers: Tiers, thread_id: str) -> None:
    """Archive and evict a thread, then bring it back as a worker would."""
    await evict(tiers, thread_id)
    await promote(tiers, thread_id)


MOVES: dict[str, Move] = {"hot": stay_hot, "evicted": evict, "trimmed": trim, "promoted": promoted}


def _ended(answer: Any) -> Any:
    """What a call returned; a listing is walked to its end in the same thread."""
    return list(answer) if isinstance(answer, Iterator) else answer


class Driven(BaseCheckpointSaver[str]):
    """Calls one family of a saver, and moves every thread it wrote to before each call."""

    def __init__(self, saver: TieredSaver, tiers: Tiers, family: Family, move: Move = stay_hot) -> None:
        super().__init__(serde=saver.serde)
        self.saver = saver
        self._tiers = tiers
        self._is_blocking = family == "blocking"
        self._move = move
        self._written: set[str] = set()

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        return self.saver.get_next_version(current, channel)

    async def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        while self._written:
            await self._move(self._tiers, self._written.pop())
        if self._is_blocking:
            return await asyncio.to_thread(lambda: _ended(getattr(self.saver, name)(*arguments, **options)))
        answer = getattr(self.saver, f"a{name}")(*arguments, **options)
        return [found async for found in answer] if hasattr(answer, "__aiter__") else await answer

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found: CheckpointTuple | None = await self._call("get_tuple", config)
        return found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        stored: RunnableConfig = await self._call("put", config, checkpoint, metadata, new_versions)
        self._written.add(str(config["configurable"]["thread_id"]))
        return stored

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._call("put_writes", config, writes, task_id, task_path)
        self._written.add(str(config["configurable"]["thread_id"]))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for found in await self._call("list", config, filter=filter, before=before, limit=limit):
            yield found

    async def adelete_thread(self, thread_id: str) -> None:
        await self._call("delete_thread", thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._call("delete_for_runs", run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._call("copy_thread", source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._call("prune", thread_ids, strategy=strategy)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        found: Mapping[str, DeltaChannelHistory] = await self._call(
            "get_delta_channel_history", config=config, channels=channels
        )
        return found
