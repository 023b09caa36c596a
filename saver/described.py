"""What each method of the saver does, as steps; `awaited.py` and `blocking.py` run them for the two families."""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from saver import operations, prune
from saver.codec import Codec, address_of
from saver.config import TierConfig
from saver.copying import copy
from saver.destroy import delete
from saver.history import delta_history
from saver.listing import Listing, Query
from saver.migrations import Migrations
from saver.operations import Context
from saver.runtime import Runtime
from saver.serializer import serializer_of
from saver.steps import Slow, Steps
from saver.storable import condition

Json = dict[str, Any]


class DescribedSaver(BaseCheckpointSaver[str]):
    """The state of a saver and the descriptions of its calls."""

    def __init__(self, config: TierConfig, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or serializer_of(config))
        self.config = config
        self.migrations = Migrations()
        self._runtime = Runtime(config)
        self._codec = Codec(self.serde, self.migrations)
        self._context = Context(
            config, self._runtime.keys, self._runtime.hints, lambda: self.get_next_version(None, None)
        )

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> BaseCheckpointSaver[str]:
        """A shallow copy with a wider msgpack allow list; it shares the connections of this one."""
        clone = super().with_allowlist(extra_allowlist)
        if isinstance(clone, DescribedSaver) and clone is not self:
            clone._codec = Codec(clone.serde, clone.migrations, self._codec.recent)
        return clone

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        """A version greater than `current`; two branches never get the same one (the stock saver's format)."""
        whole = int(str(current).split(".")[0]) if current is not None else 0
        return f"{whole + 1:032}.{random.random():016}"  # noqa: S311 - keeps branches apart, no secret

    # ---- descriptions

    def _get_tuple(self, config: RunnableConfig) -> Steps[CheckpointTuple | None]:
        return operations.get_tuple(self._context, self._codec, config)

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Steps[RunnableConfig]:
        return operations.put(self._context, self._codec, config, checkpoint, metadata, new_versions)

    def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Steps[None]:
        return operations.put_writes(self._context, self._codec, config, writes, task_id, task_path)

    def _list(
        self, config: RunnableConfig | None, filter_: Json | None, before: RunnableConfig | None, limit: int | None
    ) -> Listing:
        query = Query(None, None, "", (get_checkpoint_id(before) or "") if before else "", condition(filter_))
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

    def _history(self, config: RunnableConfig, channels: Sequence[str]) -> Steps[dict[str, DeltaChannelHistory]]:
        return delta_history(self._context, self._codec, config, channels)

    def _delete_thread(self, thread_id: str) -> Steps[None]:
        return of_thread(delete, thread_id)

    def _delete_for_runs(self, run_ids: Sequence[str]) -> Steps[None]:
        yield Slow(prune.delete_for_runs, (prune.checked_runs(run_ids),))

    def _copy_thread(self, source: str, target: str) -> Steps[None]:
        yield Slow(copy, (checked(source), checked(target)))

    def _prune(self, thread_ids: Sequence[str], strategy: str) -> Steps[None]:
        yield Slow(prune.prune, (prune.checked_threads(thread_ids, strategy), strategy))


def checked(thread_id: str) -> str:
    """A thread id as text. Raises InvalidThread for one that Postgres could not store."""
    return address_of({"configurable": {"thread_id": thread_id}}).thread_id


def of_thread(function: Callable[..., Any], thread_id: str) -> Steps[Any]:
    """The steps of a function of the tiers and one thread."""
    return (yield Slow(function, (checked(thread_id),)))
