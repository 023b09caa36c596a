"""The blocking methods that LangGraph calls."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)

from saver.described import DescribedSaver, Json
from saver.metrics import measured


class BlockingSaver(DescribedSaver):
    """Runs the descriptions in the calling thread."""

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read the newest checkpoint of a namespace, or one by id; None if there is none."""
        with measured("get_tuple"):
            return self._runtime.run_blocking(self._get_tuple(config))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint. Acknowledged means in Redis, or in Postgres with TIER_WRITE_MODE=through."""
        with measured("put"):
            return self._runtime.run_blocking(self._put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of one task; the checkpoint may come later."""
        with measured("put_writes"):
            self._runtime.run_blocking(self._put_writes(config, writes, task_id, task_path))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: Json | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """List checkpoints, newest first by id, over both tiers without gap or duplicate."""
        listing = self._list(config, filter, before, limit)
        while not listing.is_done:
            with measured("list"):
                page = self._runtime.run_blocking(listing.next_page())
            yield from page

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The writes that delta channels are rebuilt from, back to the ancestor that stores their value."""
        with measured("get_delta_channel_history"):
            return self._runtime.run_blocking(self._history(config, channels))

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread from both tiers; nothing put before is readable once this returns."""
        with measured("delete_thread"):
            self._runtime.run_blocking(self._delete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """
        Delete the checkpoints of runs (by `run_id` in their metadata) and their writes, from all threads.

        A checkpoint from whose writes a later one rebuilds its delta channels stays, and is logged.
        """
        with measured("delete_for_runs"):
            self._runtime.run_blocking(self._delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread to another; what else the target has stays."""
        with measured("copy_thread"):
            self._runtime.run_blocking(self._copy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """
        Prune threads: "delete", or "keep_latest" for the newest checkpoint of each namespace.

        Delta channels keep the ancestors back to one that stores their value. Namespaces of subgraph calls that ended
        go. Raises ValueError for another strategy, TypeError for a single string.
        """
        with measured("prune"):
            self._runtime.run_blocking(self._prune(thread_ids, strategy))
