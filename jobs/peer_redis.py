"""
Threads of langgraph-checkpoint-redis (0.5, also of its shallow savers): JSON documents.

`checkpoint:THREAD:NS:ID` is a checkpoint with its values, `checkpoint_write:THREAD:NS:ID:TASK:INDEX` a write. An id may
hold the colon, so whose a key is stands in its document. No search index is asked: what lags there is not missed.
"""

import json
from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import Any

from jobs.peer import PeerRedis, Survey
from jobs.portable import PortableThread
from saver.foreign import Unreadable, check_carried, checkpoint_row, object_of, value_of_json, values_of_json
from saver.rows import BlobRow, Rows, WriteRow

DEFAULT_PREFIX = "checkpoint"
_TYPE = "ReJSON-RL"
_EMPTY = ("__empty__", "00000000-0000-0000-0000-000000000000")  # what stands there for no text, and for no id


class RedisJson:
    """A Peer."""

    def __init__(self, source: PeerRedis, prefix: str = DEFAULT_PREFIX) -> None:
        self._source = source
        self._prefixes = (f"{prefix}:", f"{prefix}_write:")

    async def survey(self, into: Survey) -> None:
        for prefix in self._prefixes:
            async for keys in self._source.keys(prefix, _TYPE):
                names = await self._source.ask_all([("JSON.GET", key, "$.thread_id") for key in keys])
                found = zip(keys, map(json.loads, (name or "[]" for name in names)), strict=True)
                into.add((_text(name[0]), key) for key, name in found if name)

    async def read(self, thread_id: str, found: Sequence[bytes]) -> PortableThread | None:
        documents = await self._source.ask_all([("JSON.GET", key) for key in found])
        return thread_of(thread_id, [object_of(document) for document in documents if document is not None])


def thread_of(thread_id: str, documents: Iterable[dict[str, Any]]) -> PortableThread | None:
    """A thread from its documents. Raises Unreadable, InvalidThread."""
    rows = Rows()
    blobs: dict[tuple[str, str, str], BlobRow] = {}
    writes = []
    for document in documents:
        try:
            if "checkpoint" in document:
                _add_checkpoint(document, rows, blobs)
            else:
                writes.append(_write(document))
        except (KeyError, TypeError, AttributeError) as error:
            raise Unreadable("a document there is not of a format that this release knows") from error
    rows.blobs.extend(blobs.values())
    stored = {row[:2] for row in rows.checkpoints}
    rows.writes.extend(write for write in writes if write[:2] in stored)
    return PortableThread(thread_id, rows) if rows.checkpoints else None


def _add_checkpoint(document: dict[str, Any], rows: Rows, blobs: dict[tuple[str, str, str], BlobRow]) -> None:
    checkpoint, namespace = document["checkpoint"], _text(document["checkpoint_ns"])
    if "channel_values" not in checkpoint:
        raise Unreadable("its values are not in its checkpoints: langgraph-checkpoint-redis 0.1 or newer must write it")
    inline, found = values_of_json(namespace, checkpoint["channel_values"], checkpoint["channel_versions"])
    parent_id = _text(document.get("parent_checkpoint_id") or "")
    metadata = document["metadata"]
    rows.checkpoints.append(
        checkpoint_row(
            namespace, checkpoint, inline, parent_id, object_of(metadata) if isinstance(metadata, str) else metadata
        )
    )
    for blob in found:
        blobs.setdefault(blob[:3], blob)


def _write(document: dict[str, Any]) -> WriteRow:
    type_, data = document["type"], b64decode(document["blob"])
    check_carried(type_)
    if type_ == "json":
        type_, data = value_of_json(object_of(b'{"value":%b}' % data)["value"])
    return WriteRow(
        _text(document["checkpoint_ns"]),
        _text(document["checkpoint_id"]),
        document["task_id"],
        int(document["idx"]),
        document.get("task_path") or "",
        document["channel"],
        type_,
        data,
    )


def _text(stored: str) -> str:
    return "" if stored in _EMPTY else str(stored)
