"""
The hot tier: all Redis traffic for checkpoints.

A request is one script with its arguments, made here as a value; `AsyncHot` and `BlockingHot` carry requests, and the
reply functions read what came back. So one description of an operation serves both families.
"""

import json
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from saver import unique
from saver.codec import EncodedCheckpoint
from saver.keys import ThreadKeys
from saver.logged import LogBatch
from saver.pack import (
    blob_name,
    pack_blob,
    pack_checkpoint,
    pack_writes,
    unpack_checkpoint,
    unpack_pairs,
    unpack_writes,
)
from saver.rows import BlobRow, CheckpointRow, Rows, WriteRow
from saver.scripts import Script, script

TOKEN_LIFETIME_MS = 30_000
WHOLE = ""  # the floor of a namespace that hot holds entirely


class Status(IntEnum):
    """First value of a reply, as `lua/state.lua` names it."""

    OK = 0
    MISS = 1
    NEED = 2
    SUSPECT = 3
    STALE = 4
    PART = 5
    LOCKED = 6


class Request(NamedTuple):
    """One script call on one thread."""

    script: Script
    keys: Sequence[str]
    arguments: tuple[str | bytes | int, ...]

    @property
    def command(self) -> tuple[str | bytes | int, ...]:
        return ("EVALSHA", self.script.sha, len(self.keys), *self.keys, *self.arguments)


# ---- writing


class Stored(NamedTuple):
    """What a put answered."""

    status: Status
    token: str = ""
    incarnation: int = 0
    position: int = 0
    is_first_of_partition: bool = False
    has_parent: bool = False
    vanishes: bool = False  # without access for TIER_ON_IDLE=expire, and nothing of it is archived


def put(
    keys: ThreadKeys,
    encoded: EncodedCheckpoint,
    run_history: str,
    confirmed: str = "",
    fence: tuple[str, str] | None = None,
) -> Request:
    """
    Store a checkpoint; `confirmed` is the incarnation in which its parent was found in cold, `fence` the key and the
    token of the run lock that must be held.
    """
    lock, token = fence or ("", "")
    address = encoded.address
    blobs = [part for name, blob in encoded.blobs.items() for part in (name, blob, encoded.orders.get(name, b""))]
    return Request(
        script("put"),
        (*keys, lock) if lock else keys,
        (
            address.thread_id,
            address.namespace,
            address.checkpoint_id,
            encoded.parent_id if encoded.is_delta else "",
            run_history,
            unique.token(),
            TOKEN_LIFETIME_MS,
            confirmed,
            token,
            encoded.row,
            *blobs,
        ),
    )


def put_writes(
    keys: ThreadKeys,
    thread_id: str,
    namespace: str,
    checkpoint_id: str,
    value: bytes,
    fence: tuple[str, str] | None = None,
) -> Request:
    lock, token = fence or ("", "")
    arguments = (thread_id, namespace, checkpoint_id, unique.token(), TOKEN_LIFETIME_MS, token, value)
    return Request(script("put_writes"), (*keys, lock) if lock else keys, arguments)


def stored(reply: list[Any]) -> Stored:
    status = Status(reply[0])
    if status is Status.OK:
        return Stored(status, "", reply[1], reply[2], bool(reply[3]), vanishes=reply[4] > 0)
    if status is Status.PART:
        return Stored(status, "", reply[1], has_parent=bool(reply[2]))
    return Stored(status, reply[1].decode() if status is Status.MISS else "")


def adopt(keys: ThreadKeys, thread_id: str, incarnation: int) -> Request:
    """Let a thread that vanishes stay, of another history, unless Postgres has seen this or a later incarnation."""
    return Request(script("adopt"), keys, (thread_id, incarnation))


def keep(keys: ThreadKeys, thread_id: str) -> Request:
    """Let a thread that vanishes be archived from now on."""
    return Request(script("keep"), keys, (thread_id,))


# ---- reading


class HotCheckpoint(NamedTuple):
    """What hot knows of one checkpoint; below the floor it may lack the row, writes or blobs."""

    namespace: str
    checkpoint_id: str
    row: CheckpointRow | None
    blobs: list[BlobRow]
    writes: list[WriteRow]


def read(keys: ThreadKeys, thread_id: str, namespace: str, checkpoint_id: str) -> Request:
    return Request(script("read"), keys, (thread_id, namespace, checkpoint_id))


def checkpoint_read(namespace: str, reply: list[Any]) -> tuple[Status, HotCheckpoint | None]:
    status = Status(reply[0])
    if status not in (Status.OK, Status.PART):
        return status, None
    checkpoint_id = reply[1].decode()
    writes = [write for value in reply[3] for write in unpack_writes(namespace, checkpoint_id, value)]
    references, row = unpack_checkpoint(namespace, checkpoint_id, reply[2]) if reply[2] else ([], None)
    blobs = unpack_pairs(namespace, reply[4])
    used = [blobs[name] for name in references if name in blobs]
    return status, HotCheckpoint(namespace, checkpoint_id, row, used, writes)


class HotPage(NamedTuple):
    """A page of checkpoints of one thread, and how far down hot holds everything, by namespace."""

    status: Status
    floors: dict[str, str | None]  # None: in cold, not loaded
    entries: list[HotCheckpoint]


def list_page(
    keys: ThreadKeys,
    thread_id: str,
    namespace: str | None,
    checkpoint_id: str,
    before: str,
    limit: int,
    after: tuple[str, str] = ("", ""),
) -> Request:
    """Entries newest first; `after` is the id and namespace of the last entry of the page before."""
    is_one = 0 if namespace is None else 1
    return Request(script("list"), keys, (thread_id, is_one, namespace or "", checkpoint_id, before, limit, *after))


def page_read(reply: list[Any]) -> HotPage:
    status = Status(reply[0])
    if status is not Status.OK:
        return HotPage(status, {}, [])
    spaces, entries, values = reply[1:]
    floors = {ns.decode(): floor.decode() if loaded else None for ns, loaded, floor in _triples(spaces)}
    packed: dict[bytes, list[Any]] = {}
    for ns, name, value in _triples(values):
        packed.setdefault(ns, []).extend((name, value))
    blobs = {ns: unpack_pairs(ns.decode(), pairs) for ns, pairs in packed.items()}
    found = []
    for at in range(0, len(entries), 4):
        ns, id_, value, chunks = entries[at : at + 4]
        namespace, checkpoint_id = ns.decode(), id_.decode()
        references, row = unpack_checkpoint(namespace, checkpoint_id, value) if value else ([], None)
        refs = [blobs[ns][name] for name in references if name in blobs.get(ns, ())]
        writes = [write for chunk in chunks for write in unpack_writes(namespace, checkpoint_id, chunk)]
        found.append(HotCheckpoint(namespace, checkpoint_id, row, refs, writes))
    return HotPage(status, floors, found)


def _triples(flat: list[Any]) -> Iterable[tuple[Any, Any, Any]]:
    return zip(flat[::3], flat[1::3], flat[2::3], strict=True)


# ---- loading


def load(keys: ThreadKeys, thread_id: str, namespace: str) -> Request:
    return Request(script("load"), keys, (thread_id, namespace, unique.token(), TOKEN_LIFETIME_MS))


def hydrate(
    keys: ThreadKeys,
    thread_id: str,
    token: str,
    incarnation: int,
    namespace: str,
    floor: str,
    others: list[str],
    rows: Rows,
    vanishes_after_ms: int = 0,
) -> Request:
    """
    Make a namespace resident. The rows are those of the namespace from the floor on; `others` are left in cold.

    A thread that is new in hot vanishes after a time without access, unless that is 0.
    """
    blobs_of: dict[str, list[str]] = {}
    fields: list[str | bytes] = []
    for blob in rows.blobs:
        name = blob_name(blob.channel, blob.version)
        blobs_of.setdefault(blob.channel, []).append(name)
        fields += ("b", name, pack_blob(blob.type, blob.data))
    by_checkpoint: dict[str, list[WriteRow]] = {}
    for write in rows.writes:
        by_checkpoint.setdefault(write.checkpoint_id, []).append(write)
    for checkpoint_id, writes in by_checkpoint.items():
        fields += ("w", checkpoint_id, pack_writes([write[2:] for write in writes]))
    for row in rows.checkpoints:
        names = [
            name
            for channel, version in channel_versions(row).items()
            if (name := blob_name(channel, str(version))) in blobs_of.get(channel, ())
        ]
        fields += ("c", row.checkpoint_id, pack_checkpoint(row, names))
    head = max((row.checkpoint_id for row in rows.checkpoints), default="")
    place = (thread_id, token, incarnation, namespace, floor, head, vanishes_after_ms)
    return Request(script("hydrate"), keys, (*place, len(others), *others, *fields))


def channel_versions(row: CheckpointRow) -> dict[str, Any]:
    versions: dict[str, Any] = json.loads(row.checkpoint).get("channel_versions") or {}
    return versions


# ---- archiving


def log_read(keys: ThreadKeys, thread_id: str, most_bytes: int, incarnation: int, position: int) -> Request:
    """Read the log; incarnation and position are those of the tier row, read under the lock before."""
    return Request(script("log_read"), keys, (thread_id, most_bytes, incarnation, position))


def log_ack(keys: ThreadKeys, batch: LogBatch) -> Request:
    moment = batch.moment if batch.is_all else ""
    return Request(script("log_ack"), keys, (batch.thread_id, batch.incarnation, batch.position, moment))


def drop(keys: ThreadKeys, thread_id: str, incarnation: int, tail: int | None = None) -> Request:
    return Request(script("drop"), keys, (thread_id, incarnation, "" if tail is None else tail))


# ---- leaving


class Evicted(IntEnum):
    """Whether a thread left Redis."""

    VANISHED = 2
    DROPPED = 1
    NOT_ARCHIVED = 0
    ABSENT = -1
    IN_USE = -2


def evict(keys: ThreadKeys, thread_id: str, idle_ms: int, *, vanishing: bool = False) -> Request:
    """Drop a thread that is archived; with `vanishing` also one that nothing is ever archived of."""
    return Request(script("evict"), keys, (thread_id, idle_ms, int(vanishing)))


def absent(keys: ThreadKeys, thread_id: str) -> Request:
    return Request(script("absent"), keys, (thread_id,))


def trim(keys: ThreadKeys, thread_id: str, keep: int) -> Request:
    return Request(script("trim"), keys, (thread_id, keep))


def due(key: str, waiting_ms: int, limit: int) -> Request:
    """Name the threads of an index (dirty, idle or wanted) whose turn has come, longest waiting first."""
    return Request(script("due"), (key,), (waiting_ms, limit))


# ---- setting aside


def set_aside(keys: ThreadKeys, thread_id: str, why: str) -> Request:
    return Request(script("quarantine"), keys, (thread_id, why))


def put_back(keys: ThreadKeys, thread_id: str) -> Request:
    """Put a thread back in line; why it was refused stays known until it is archived."""
    return Request(script("quarantine"), keys, (thread_id, ""))


def aside(key: str) -> tuple[str, ...]:
    """The command that reads a quarantine: thread id, why, and so on."""
    return ("HGETALL", key)


def why_aside(key: str, thread_id: str) -> tuple[str, ...]:
    return ("HGET", key, thread_id)


def unwanted(key: str, thread_ids: Sequence[str]) -> tuple[str, ...]:
    """The command that forgets that these were asked for."""
    return ("ZREM", key, *thread_ids)
