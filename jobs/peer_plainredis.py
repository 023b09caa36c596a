"""
Threads of langgraph-checkpoint-plainredis (0.1): strings, hashes and sorted sets.

Under its prefix: `threads` names the timelines, `idx:THREAD:NS` the checkpoints of one, `cp:THREAD:NS:ID` is a
checkpoint, `blob:THREAD:NS:CHANNEL:VERSION` a value, `wr:THREAD:NS:ID` the writes. A value is its type and its bytes.
"""

from base64 import b64decode
from collections.abc import Sequence
from typing import Any

from jobs.peer import SCAN_AT_ONCE, PeerRedis, Survey
from jobs.portable import PortableThread
from saver.foreign import (
    Unreadable,
    check_carried,
    checkpoint_row,
    is_snapshot,
    last_of_three,
    object_of,
    payload,
    version_text,
)
from saver.rows import BlobRow, Rows, WriteRow

DEFAULT_PREFIX = "lg"


class PlainRedis:
    """A Peer."""

    def __init__(self, source: PeerRedis, prefix: str = DEFAULT_PREFIX) -> None:
        self._source = source
        self._prefix = prefix.rstrip(":")

    async def survey(self, into: Survey) -> None:
        cursor: Any = 0
        while True:
            cursor, found = await self._source.ask("HSCAN", f"{self._prefix}:threads", cursor, "COUNT", SCAN_AT_ONCE)
            entries = [object_of(entry) for entry in found.values()]
            into.add((entry["thread"], entry["ns"].encode()) for entry in entries)
            if not int(cursor):
                return

    async def read(self, thread_id: str, found: Sequence[bytes]) -> PortableThread | None:
        rows = Rows()
        for namespace in found:
            await self._read_namespace(thread_id, namespace.decode(), rows)
        return PortableThread(thread_id, rows) if rows.checkpoints else None

    async def _read_namespace(self, thread_id: str, namespace: str, rows: Rows) -> None:
        members = await self._source.ask("ZRANGE", self._key("idx", thread_id, namespace), 0, -1)
        ids = [member.decode() for member in members]
        texts = await self._source.ask_all([("GET", self._key("cp", thread_id, namespace, id_)) for id_ in ids])
        versions: dict[tuple[str, Any], None] = {}
        stored = []
        for id_, text in zip(ids, texts, strict=True):
            if text is not None:  # else it expired
                content = payload(*_typed(text))
                stored.append((id_, content))
                versions.update(dict.fromkeys(content["checkpoint"]["channel_versions"].items()))
        snapshots = await self._read_blobs(thread_id, namespace, list(versions), rows)
        for _, content in stored:
            checkpoint = content["checkpoint"]
            inline = {
                name: True for name, version in checkpoint["channel_versions"].items() if (name, version) in snapshots
            }
            rows.checkpoints.append(
                checkpoint_row(namespace, checkpoint, inline, content["parent_id"], content["metadata"])
            )
        await self._read_writes(thread_id, namespace, [id_ for id_, _ in stored], rows)

    async def _read_blobs(
        self, thread_id: str, namespace: str, versions: Sequence[tuple[str, Any]], rows: Rows
    ) -> set[tuple[str, Any]]:
        """Adds the values, and returns which of them are snapshots of delta channels."""
        keys = [self._key("blob", thread_id, namespace, channel, str(version)) for channel, version in versions]
        snapshots = set()
        for (channel, version), text in zip(
            versions, await self._source.ask_all([("GET", key) for key in keys]), strict=True
        ):
            if text is None:
                raise Unreadable(
                    f"the value of channel {channel!r} is gone from there (it expired, or was evicted); "
                    "there is nothing to import it from: delete the thread there, or start it anew"
                )
            type_, data = _typed(text)
            if type_ != "empty":
                check_carried(type_)
            if is_snapshot(type_, data):
                snapshots.add((channel, version))
            content = None if type_ == "empty" else data
            rows.blobs.append(BlobRow(namespace, channel, version_text(version), type_, content))
        return snapshots

    async def _read_writes(self, thread_id: str, namespace: str, ids: Sequence[str], rows: Rows) -> None:
        keys = [self._key("wr", thread_id, namespace, id_) for id_ in ids]
        for id_, fields in zip(ids, await self._source.ask_all([("HGETALL", key) for key in keys]), strict=True):
            for field, text in fields.items():
                task_id, _, index = field.decode().rpartition(":")
                type_, data = _typed(text)
                _, channel, _ = payload(type_, data)
                rows.writes.append(
                    WriteRow(namespace, id_, task_id, int(index), "", channel, type_, last_of_three(data))
                )

    def _key(self, *parts: str) -> str:
        return ":".join((self._prefix, *parts))


def _typed(text: bytes) -> tuple[str, bytes]:
    found = object_of(text)
    try:
        return str(found["t"]), b64decode(found["d"])
    except (KeyError, ValueError, TypeError) as error:
        raise Unreadable("what is stored there is damaged") from error
