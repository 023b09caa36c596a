"""TieredSaver: the face that LangGraph sees, in both families of methods."""

import random
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from saver import operations
from saver.codec import Codec, address_of
from saver.config import TierConfig
from saver.demote import demote, tier_of
from saver.destroy import delete
from saver.directory import ThreadInfo, list_threads
from saver.listing import Listing, Query
from saver.load import promote
from saver.metrics import OPERATION_SECONDS
from saver.migrations import Migrations
from saver.operations import Context
from saver.runtime import Runtime
from saver.serializer import serializer_of
from saver.steps import Slow, Steps

Json = dict[str, Any]


class TieredSaver(BaseCheckpointSaver[str]):
    """
    A LangGraph checkpointer with a Redis hot tier and a Postgres cold tier.

    Enter it with `async with` for the async methods or with `with` for the blocking ones; an open saver may be shared
    by any number of tasks, threads and graphs. Blocking methods also work on a saver entered with `async with`, from
    other threads. Constructing does no I/O.

    Raises ConfigError for a bad configuration; from its methods HotTierError, ColdTierError, InvalidThread, StaleRun.
    """

    def __init__(self, config: TierConfig, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or serializer_of(config))
        self.config = config
        self._runtime = Runtime(config)
        self.migrations = Migrations()
        self._codec = Codec(self.serde, self.migrations)
        self._context = Context(
            config, self._runtime.keys, self._runtime.hints, lambda: self.get_next_version(None, None)
        )

    @classmethod
    def from_env(cls, *, serde: SerializerProtocol | None = None) -> Self:
        """A saver configured by the TIER_ variables. Raises ConfigError listing every fault."""
        return cls(TierConfig.from_env(), serde=serde)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> BaseCheckpointSaver[str]:
        """A shallow copy with a wider msgpack allow list; it shares the connections of this one."""
        clone = super().with_allowlist(extra_allowlist)
        if isinstance(clone, TieredSaver) and clone is not self:
            clone._codec = Codec(clone.serde, clone.migrations)
        return clone

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        """A version greater than `current`; two branches never get the same one (the stock saver's format)."""
        whole = int(str(current).split(".")[0]) if current is not None else 0
        return f"{whole + 1:032}.{random.random():016}"  # noqa: S311 - keeps branches apart, no secret

    # ---- open and close

    async def __aenter__(self) -> Self:
        await self._runtime.open_async()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runtime.close_async()

    def __enter__(self) -> Self:
        self._runtime.open_blocking()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runtime.close_blocking()

    def setup(self) -> Any:
        """Create or upgrade the tables. Entering does it too; safe at any time, from many processes at once."""
        return self._here(_setup())

    # ---- LangGraph, async

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read the newest checkpoint of a namespace, or one by id; None if there is none."""
        with OPERATION_SECONDS["get_tuple"].time():
            return await self._runtime.run(operations.get_tuple(self._context, self._codec, config))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint. Acknowledged means in Redis, or in Postgres with TIER_WRITE_MODE=through."""
        with OPERATION_SECONDS["put"].time():
            steps = operations.put(self._context, self._codec, config, checkpoint, metadata, new_versions)
            return await self._runtime.run(steps)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of one task; the checkpoint may come later."""
        with OPERATION_SECONDS["put_writes"].time():
            steps = operations.put_writes(self._context, self._codec, config, writes, task_id, task_path)
            await self._runtime.run(steps)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: Json | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """List checkpoints, newest first by id, over both tiers without gap or duplicate."""
        listing = self._listing(config, filter, before, limit)
        while not listing.is_done:
            with OPERATION_SECONDS["list"].time():
                page = await self._runtime.run(listing.next_page())
            for found in page:
                yield found

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread from both tiers; nothing put before is readable once this returns."""
        with OPERATION_SECONDS["delete_thread"].time():
            await self._runtime.run(self._delete(thread_id))

    # ---- LangGraph, blocking

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read the newest checkpoint of a namespace, or one by id; None if there is none."""
        with OPERATION_SECONDS["get_tuple"].time():
            return self._runtime.run_blocking(operations.get_tuple(self._context, self._codec, config))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint. Acknowledged means in Redis, or in Postgres with TIER_WRITE_MODE=through."""
        with OPERATION_SECONDS["put"].time():
            steps = operations.put(self._context, self._codec, config, checkpoint, metadata, new_versions)
            return self._runtime.run_blocking(steps)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of one task; the checkpoint may come later."""
        with OPERATION_SECONDS["put_writes"].time():
            steps = operations.put_writes(self._context, self._codec, config, writes, task_id, task_path)
            self._runtime.run_blocking(steps)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: Json | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """List checkpoints, newest first by id, over both tiers without gap or duplicate."""
        listing = self._listing(config, filter, before, limit)
        while not listing.is_done:
            with OPERATION_SECONDS["list"].time():
                page = self._runtime.run_blocking(listing.next_page())
            yield from page

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread from both tiers; nothing put before is readable once this returns."""
        with OPERATION_SECONDS["delete_thread"].time():
            self._runtime.run_blocking(self._delete(thread_id))

    # ---- moves on request; each is awaited in an event loop and blocks in a saver entered with `with`

    def demote(self, thread_id: str) -> Any:
        """Archive a thread and drop it from Redis now. False if it was written meanwhile and stays hot."""
        return self._here(_slow(demote, thread_id))

    def promote(self, thread_id: str) -> Any:
        """Bring a thread into Redis now. False if it was there."""
        return self._here(_slow(promote, thread_id))

    def tier_of(self, thread_id: str) -> Any:
        """Where reads of a thread are answered: "hot", "cold", or None for an unknown thread."""
        return self._here(_slow(tier_of, thread_id))

    def list_threads(self, metadata: Json | None = None, *, limit: int = 100) -> Any:
        """
        Threads over both tiers, last active first: id, tier, last activity, number of checkpoints, metadata.

        `metadata` filters on that of the newest checkpoint by containment, like `list`; what an agent put into
        `config["metadata"]` or `config["configurable"]` is there.
        """
        return self._here(_list_threads(metadata, limit))

    # ---- private

    def _here(self, steps: Steps[Any]) -> Any:
        """Run for the caller at hand: an awaitable in the event loop the saver was entered in, else the result."""
        return self._runtime.run(steps) if self._runtime.is_here else self._runtime.run_blocking(steps)

    def _listing(
        self, config: RunnableConfig | None, filter_: Json | None, before: RunnableConfig | None, limit: int | None
    ) -> Listing:
        query = Query(None, None, "", (get_checkpoint_id(before) or "") if before else "", filter_ or None)
        if config is not None:
            address = address_of(config)
            is_one = config["configurable"].get("checkpoint_ns") is not None
            query = replace(
                query,
                thread_id=address.thread_id,
                namespace=address.namespace if is_one else None,
                checkpoint_id=address.checkpoint_id,
            )
        return Listing(self._context, self._codec, query, limit)

    def _delete(self, thread_id: str) -> Steps[None]:
        address = address_of({"configurable": {"thread_id": thread_id}})
        yield Slow(delete, (address.thread_id,))


def _setup() -> Steps[None]:
    yield Slow(lambda tiers: tiers.cold.setup(), ())


def _list_threads(metadata: Json | None, limit: int) -> Steps[list[ThreadInfo]]:
    found: list[ThreadInfo] = yield Slow(list_threads, (metadata, limit))
    return found


def _slow(function: Callable[..., Any], thread_id: str) -> Steps[Any]:
    address = address_of({"configurable": {"thread_id": thread_id}})
    return (yield Slow(function, (address.thread_id,)))
