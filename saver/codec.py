"""
LangGraph checkpoints to rows and back: the only module that serializes.

What JSONB would change (`storable.py`), and every value when the serializer encrypts, goes into a blob row, which the
stock saver reads back exactly. The rest follows `AsyncPostgresSaver.aput` (langgraph-checkpoint-postgres 3.2).
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import ormsgpack
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    get_serializable_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import TASKS, _DeltaSnapshot

from saver.errors import InvalidThread
from saver.migrations import METADATA_KEY, Migrations
from saver.pack import Write, blob_name, pack_checkpoint, pack_writes
from saver.recent import Recent
from saver.rows import BlobRow, CheckpointRow, WriteRow, merge_writes
from saver.storable import check_ids, check_text, is_inline, metadata_json, to_json

MOST_VALUE_BYTES = 256 * 1024 * 1024  # of a value: a quarter of a Postgres field, half of a Redis value
DELTA_COUNTERS = "counters_since_delta_snapshot"
NO_BLOB = b""  # in the place of a blob: the checkpoint refers to it and does without it


class Address(NamedTuple):
    """Which checkpoint a config speaks of; an empty id stands for the newest."""

    thread_id: str
    namespace: str
    checkpoint_id: str

    @property
    def config(self) -> RunnableConfig:
        return {
            "configurable": {
                "thread_id": self.thread_id,
                "checkpoint_ns": self.namespace,
                "checkpoint_id": self.checkpoint_id,
            }
        }


def address_of(config: RunnableConfig) -> Address:
    """
    Read the ids of a config. Ids of any type are taken as text, as Postgres stores them.

    Raises InvalidThread for ids that Postgres could not store.
    """
    configurable = config.get("configurable") or {}
    thread_id = configurable.get("thread_id")
    if thread_id is None:
        raise InvalidThread("the config has no thread_id: pass {'configurable': {'thread_id': ...}}")
    address = Address(
        str(thread_id), str(configurable.get("checkpoint_ns") or ""), str(configurable.get("checkpoint_id") or "")
    )
    check_ids("thread_id", address)
    return address


class EncodedCheckpoint(NamedTuple):
    """A checkpoint ready for Redis."""

    address: Address
    parent_id: str
    is_delta: bool
    row: bytes
    references: list[str]
    blobs: dict[str, bytes]
    orders: dict[str, bytes]  # by blob: what its put does to the one before it


class Codec:
    """Encodes and decodes with one serializer."""

    def __init__(self, serde: SerializerProtocol, migrations: Migrations, recent: Recent | None = None) -> None:
        self.serde = serde
        self.migrations = migrations
        self.recent = recent or Recent()
        self.encrypts = "+" in serde.dumps_typed("")[0]

    # ---- to rows

    def encode_checkpoint(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions | None,
    ) -> EncodedCheckpoint:
        """
        Encode a checkpoint with the blobs of `new_versions`, or with all its blobs when that is None.

        Raises InvalidThread for what Postgres could not store.
        """
        parent = address_of(config)
        address = Address(parent.thread_id, parent.namespace, checkpoint["id"])
        versions = checkpoint["channel_versions"]
        inline: dict[str, Any] = {}
        references: list[str] = []
        blobs: dict[str, bytes] = {}
        orders: dict[str, bytes] = {}
        is_delta = DELTA_COUNTERS in metadata
        for channel, value in checkpoint["channel_values"].items():
            is_snapshot = isinstance(value, _DeltaSnapshot)
            if is_snapshot:
                inline[channel] = is_delta = True
            elif not self.encrypts and is_inline(value):
                inline[channel] = value
                continue
            if channel not in versions:
                continue  # Nothing could refer to it: every saver drops such a value.
            version = str(versions[channel])
            name = blob_name(channel, version)
            check_ids("a channel name", (address.thread_id, address.namespace, channel, version))
            references.append(name)
            if new_versions is None or channel in new_versions:
                place = (address.thread_id, address.namespace, channel)
                blobs[name], order = self.recent.pack(place, name, *self._dump("channel", channel, value))
                if order:
                    orders[name] = order
        for channel in metadata.get("counters_since_delta_snapshot", ()):
            if channel in versions and channel not in checkpoint["channel_values"]:
                # A snapshot of this version is the value here too, but there need not be one.
                name = blob_name(channel, str(versions[channel]))
                references.append(name)
                blobs[name] = NO_BLOB
        row = CheckpointRow(
            address.namespace,
            address.checkpoint_id,
            parent.checkpoint_id or None,
            to_json("the checkpoint", {**checkpoint, "channel_values": inline}),
            self._metadata_json(config, metadata),
        )
        check_ids("checkpoint_id", address)
        return EncodedCheckpoint(
            address, parent.checkpoint_id, is_delta, self._pack(row, references), references, blobs, orders
        )

    def encode_writes(self, address: Address, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str) -> bytes:
        """Encode the writes of one task. Raises InvalidThread for what Postgres could not store."""
        check_ids("task_id", (*address, task_id))
        check_text("task_path", task_path)
        packed: list[Write] = []
        for index, (channel, value) in enumerate(writes):
            check_ids("a channel name", (channel,))
            type_, data = self._dump("the write to", channel, value)
            packed.append((task_id, WRITES_IDX_MAP.get(channel, index), task_path, channel, type_, data))
        return pack_writes(packed)

    def _dump(self, what: str, channel: str, value: Any) -> tuple[str, bytes]:
        type_, data = self.serde.dumps_typed(value)
        if len(data) > MOST_VALUE_BYTES:
            size = f"{len(data)} bytes, more than {MOST_VALUE_BYTES}"
            raise InvalidThread(f"{what} {channel!r} takes {size}; keep it elsewhere")
        return type_, bytes(data)

    def _metadata_json(self, config: RunnableConfig, metadata: CheckpointMetadata) -> str:
        merged = cast(dict[str, Any], get_serializable_checkpoint_metadata(config, metadata))
        if self.migrations:
            merged[METADATA_KEY] = self.migrations.current
        return metadata_json("the metadata", merged)

    def _pack(self, row: CheckpointRow, references: list[str]) -> bytes:
        try:
            return pack_checkpoint(row, references)
        except ormsgpack.MsgpackEncodeError as error:
            raise InvalidThread(
                "the checkpoint contains half a surrogate pair, which is not text; remove it"
            ) from error

    # ---- from rows

    def decode(
        self, thread_id: str, row: CheckpointRow, blobs: Iterable[BlobRow], writes: Iterable[WriteRow]
    ) -> CheckpointTuple:
        """The tuple LangGraph asked for; the writes in `writes_sort_key` order."""
        checkpoint = json.loads(row.checkpoint)
        values = checkpoint.get("channel_values") or {}
        for blob in blobs:
            if blob.type != "empty":
                values[blob.channel] = self.serde.loads_typed((blob.type, cast(bytes, blob.data)))
        checkpoint["channel_values"] = values
        result = CheckpointTuple(
            config=Address(thread_id, row.namespace, row.checkpoint_id).config,
            checkpoint=checkpoint,
            metadata=json.loads(row.metadata),
            parent_config=Address(thread_id, row.namespace, row.parent_id).config if row.parent_id else None,
            pending_writes=[self.pending(write) for write in in_order(writes)],
        )
        if self.migrations:
            self.migrations.apply(result, self.serde)
        return result

    def pending(self, write: WriteRow) -> PendingWrite:
        return write.task_id, write.channel, self.serde.loads_typed((write.type, write.data))

    def stored_values(self, row: CheckpointRow, blobs: Iterable[BlobRow], channels: Iterable[str]) -> dict[str, Any]:
        """What a checkpoint stores of some channels: a blob of its version, or else the value in its row."""
        checkpoint = json.loads(row.checkpoint)
        versions, values = checkpoint.get("channel_versions") or {}, checkpoint.get("channel_values") or {}
        by_name = {(blob.channel, blob.version): blob for blob in blobs if blob.type != "empty"}
        found = {}
        for channel in channels:
            blob = by_name.get((channel, str(versions.get(channel))))
            if blob is not None:
                found[channel] = self.serde.loads_typed((blob.type, cast(bytes, blob.data)))
            elif channel in values:
                found[channel] = values[channel]
        return found

    def add_pending_sends(self, tuple_: CheckpointTuple, writes: Iterable[WriteRow], first_version: Any) -> None:
        """Give a checkpoint of a format before 4 the sends that its parent kept (as the stock saver does)."""
        sends = [self.serde.loads_typed((w.type, w.data)) for w in in_order(writes) if w.channel == TASKS]
        if not sends:
            return
        versions = tuple_.checkpoint["channel_versions"]
        tuple_.checkpoint["channel_values"][TASKS] = sends
        versions[TASKS] = max(versions.values()) if versions else first_version


def in_order(writes: Iterable[WriteRow]) -> list[WriteRow]:
    """Merged writes of one checkpoint in the order in which LangGraph applies them."""
    return sorted(merge_writes(writes), key=lambda w: writes_sort_key(w.task_path, w.task_id, w.idx))
