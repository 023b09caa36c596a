"""
What the saver must look like from outside: InMemorySaver, with the methods that it lacks.

Known differences, none of which a graph can see:
- InMemorySaver lists one namespace after the other; the stock Postgres saver and ours list all by id. Compared sorted.
- It lets a version of a channel change its value; here, as in Postgres, the first one stays. No graph does it: versions
  are unique. The test does not do it either.
- It gives a checkpoint every blob that its versions name. So does cold; hot gives what the checkpoint was put with, and
  snapshots of delta channels. A checkpoint of a graph carries all its values, so the test's do too.
- It leaves a checkpoint of a format before 4 without the sends that its parent keeps; the Postgres savers add them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import TASKS


class Oracle(InMemorySaver):
    """InMemorySaver that can also copy, prune, forget runs and read old formats."""

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = super().get_tuple(config)
        return found and self._with_sends(found)

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        return map(self._with_sends, super().list(config, **options))

    def _with_sends(self, found: CheckpointTuple) -> CheckpointTuple:
        if found.checkpoint["v"] < 4 and found.parent_config:
            writes = self._ordered_writes(*ids(found.parent_config))
            if sends := [self.serde.loads_typed(value) for _, channel, value, _ in writes if channel == TASKS]:
                versions = found.checkpoint["channel_versions"]
                found.checkpoint["channel_values"][TASKS] = sends
                versions[TASKS] = max(versions.values())
        return found

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        for namespace, checkpoints in self.storage.get(source_thread_id, {}).items():
            self.storage[target_thread_id][namespace].update(checkpoints)
        for key, blob in list(self.blobs.items()):
            if key[0] == source_thread_id:
                self.blobs[(target_thread_id, *key[1:])] = blob
        for place, writes in list(self.writes.items()):
            if place[0] == source_thread_id:
                for inner, write in writes.items():
                    if inner[1] < 0 or inner not in self.writes[(target_thread_id, *place[1:])]:
                        self.writes[(target_thread_id, *place[1:])][inner] = write

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
            for namespace in list(self.storage.get(thread_id, {})):
                self._forget(thread_id, namespace, set(self._ids(thread_id, namespace)[:-1]))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        for thread_id in list(self.storage):
            for namespace in list(self.storage[thread_id]):
                rows = self.storage[thread_id][namespace].items()
                gone = {id_ for id_, row in rows if self.serde.loads_typed(row[1]).get("run_id") in run_ids}
                self._forget(thread_id, namespace, gone)

    def _ids(self, thread_id: str, namespace: str) -> Sequence[str]:
        return sorted(self.storage[thread_id][namespace])

    def _forget(self, thread_id: str, namespace: str, gone: set[str]) -> None:
        rows = self.storage[thread_id][namespace]
        needed = {id_ for id_ in rows if id_ not in gone}
        for head in list(needed):
            needed |= self._ancestry_of_deltas(rows, thread_id, namespace, head)
            needed |= self._parent_with_sends(rows, thread_id, namespace, head)
        gone -= needed
        for checkpoint_id in gone:
            del rows[checkpoint_id]
            self.writes.pop((thread_id, namespace, checkpoint_id), None)
        for checkpoint_id, (checkpoint, metadata, parent) in rows.items():
            rows[checkpoint_id] = (checkpoint, metadata, None if parent in gone else parent)

    def _parent_with_sends(self, rows: Any, thread_id: str, namespace: str, head: str) -> set[str]:
        parent = rows[head][2]
        if parent not in rows or self.serde.loads_typed(rows[head][0])["v"] >= 4:
            return set()
        writes = self._ordered_writes(thread_id, namespace, parent)
        return {parent} if any(channel == TASKS for _, channel, _, _ in writes) else set()

    def _ancestry_of_deltas(self, rows: Any, thread_id: str, namespace: str, head: str) -> set[str]:
        """The ancestors back to a stored value, for each channel that was ever counted as a delta."""
        counted = {
            channel
            for row in rows.values()
            for channel in self.serde.loads_typed(row[1]).get("counters_since_delta_snapshot", ())
        }
        kept: set[str] = set()
        for channel in counted:
            current = head
            while current in rows:
                kept.add(current)
                versions = self.serde.loads_typed(rows[current][0])["channel_versions"]
                blob = self.blobs.get((thread_id, namespace, channel, versions.get(channel)), ("empty", b""))
                if channel not in versions or blob[0] not in ("empty", "null"):
                    break
                current = rows[current][2]
        return kept


def shown(found: CheckpointTuple | None) -> Any:
    """All fields of a tuple in one text: it tells 1 from True, 0.0 from -0.0, and NaN is NaN."""
    if found is None:
        return None
    checkpoint = {key: _sorted(value) for key, value in found.checkpoint.items()}
    return repr(
        (
            ids(found.config),
            _sorted(checkpoint),
            _sorted(dict(found.metadata)),
            found.parent_config and ids(found.parent_config),
            [(task, channel, value) for task, channel, value in found.pending_writes or []],
        )
    )


def ids(config: RunnableConfig) -> tuple[str, ...]:
    return tuple(str(config["configurable"].get(key)) for key in ("thread_id", "checkpoint_ns", "checkpoint_id"))


def _sorted(value: Any) -> Any:
    return dict(sorted(value.items())) if isinstance(value, dict) else value
