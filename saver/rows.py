"""What a checkpoint is made of, in both tiers: rows of bytes and text that only the codec turns into objects."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class CheckpointRow(NamedTuple):
    """One row of `checkpoints`: two JSON texts."""

    namespace: str
    checkpoint_id: str
    parent_id: str | None
    checkpoint: str
    metadata: str


class BlobRow(NamedTuple):
    """One row of `checkpoint_blobs`: the value a channel had in one version."""

    namespace: str
    channel: str
    version: str
    type: str
    data: bytes | None


class WriteRow(NamedTuple):
    """One row of `checkpoint_writes`. A negative index is special: its last value wins, otherwise the first."""

    namespace: str
    checkpoint_id: str
    task_id: str
    idx: int
    task_path: str
    channel: str
    type: str
    data: bytes


@dataclass(slots=True)
class Rows:
    """Rows of one thread, in the order in which they were stored."""

    checkpoints: list[CheckpointRow] = field(default_factory=list)
    blobs: list[BlobRow] = field(default_factory=list)
    writes: list[WriteRow] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.checkpoints) + len(self.blobs) + len(self.writes)

    @property
    def size_bytes(self) -> int:
        """Bytes of content, without ids."""
        return (
            sum(len(row.checkpoint) + len(row.metadata) for row in self.checkpoints)
            + sum(len(row.data or b"") for row in self.blobs)
            + sum(len(row.data) for row in self.writes)
        )


def merge_writes(rows: Iterable[WriteRow]) -> list[WriteRow]:
    """One row per task and index: the first of ordinary writes, the last of special ones (WRITES_IDX_MAP)."""
    merged: dict[tuple[str, str, str, int], WriteRow] = {}
    for row in rows:
        key = (row.namespace, row.checkpoint_id, row.task_id, row.idx)
        if row.idx < 0 or key not in merged:
            merged[key] = row
    return list(merged.values())
