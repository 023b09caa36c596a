"""
How the rows of many threads get into the stock tables.

Blobs and ordinary writes keep their first value, checkpoint rows and special writes take the last. Rows that nothing
has archived yet go in by COPY, in a savepoint: should one be there all the same, the batch is upserted instead.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from saver.cold import CopyPart, Transaction
from saver.hot import LogBatch
from saver.rows import CheckpointRow, Rows, merge_writes

COPY_FROM_ROWS = 100  # for fewer rows the round trips of COPY cost more than it saves

_JSONB_VERSION = b"\x01"  # first byte of the binary form, the text follows

Copied = tuple[LogBatch, Rows]
Known = Mapping[str, tuple[int, int]]


async def upsert(transaction: Transaction, copied: Sequence[Copied], known: Known) -> None:
    """Store the rows of some logs and their tier rows; `known` are the tier rows as they stand, by thread."""
    new = [one for one in copied if _is_new(one[0], known)]
    rest = [one for one in copied if not _is_new(one[0], known)]
    specials: list[Copied] = []
    if sum(len(rows) for _, rows in new) < COPY_FROM_ROWS or not await transaction.copy_new(_parts(new)):
        rest = list(copied)
    else:
        specials = [(batch, Rows(writes=[w for w in rows.writes if w.idx < 0])) for batch, rows in new]
    await transaction.fetch_many([*_upserts([*rest, *specials]), _tier_rows(copied)])


def _is_new(batch: LogBatch, known: Known) -> bool:
    """Whether no archiver can have committed these rows before: the log begins where the tier row ends, or later."""
    incarnation, position = known.get(batch.thread_id, (0, 0))
    return not batch.is_suspect and (batch.incarnation > incarnation or batch.base >= position)


def _parts(copied: Sequence[Copied]) -> list[CopyPart]:
    """What COPY can take, blobs before the rows that refer to them. A special write may replace another: not here."""
    blobs = ((batch.thread_id, *row) for batch, rows in copied for row in rows.blobs)
    writes = (
        (batch.thread_id, *row) for batch, rows in copied for row in merge_writes(w for w in rows.writes if w.idx >= 0)
    )
    checkpoints = (
        (batch.thread_id, row.namespace, row.checkpoint_id, row.parent_id, _jsonb(row.checkpoint), _jsonb(row.metadata))
        for batch, rows in copied
        for row in rows.checkpoints
    )
    return [
        CopyPart("copy_blobs", ("text",) * 5 + ("bytea",), blobs),
        CopyPart("copy_writes", ("text",) * 4 + ("int4",) + ("text",) * 3 + ("bytea",), writes),
        CopyPart("copy_checkpoints", ("text",) * 4 + ("bytea",) * 2, checkpoints),
    ]


def _jsonb(text: str) -> bytes:
    return _JSONB_VERSION + text.encode()


def _upserts(copied: Sequence[Copied]) -> list[tuple[str, dict[str, Any]]]:
    """The statements of one copy: blobs before the rows that refer to them."""
    blobs = [(batch.thread_id, *row) for batch, rows in copied for row in rows.blobs]
    checkpoints = [(batch.thread_id, *row) for batch, rows in copied for row in rows.checkpoints]
    writes = [(batch.thread_id, *row) for batch, rows in copied for row in merge_writes(rows.writes)]
    calls: list[tuple[str, dict[str, Any]]] = []
    if blobs:
        calls.append(("upsert_blobs", _columns("thread_ids namespaces channels versions types data", blobs)))
    if writes:
        names = "thread_ids namespaces checkpoint_ids task_ids indexes task_paths channels types data"
        calls.append(("upsert_writes", _columns(names, writes)))
    if checkpoints:
        names = "thread_ids namespaces checkpoint_ids parent_ids checkpoints metadata"
        calls.append(("upsert_checkpoints", _columns(names, checkpoints)))
    return calls


def _tier_rows(copied: Sequence[Copied]) -> tuple[str, dict[str, Any]]:
    records = [(b.thread_id, b.incarnation, b.position, _head(rows.checkpoints)) for b, rows in copied]
    return "upsert_tier_rows", _columns("thread_ids incarnations positions heads", records)


def _columns(names: str, records: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    return {name: list(values) for name, values in zip(names.split(), zip(*records, strict=True), strict=True)}


def _head(checkpoints: Sequence[CheckpointRow]) -> str | None:
    return max((row.checkpoint_id for row in checkpoints if row.namespace == ""), default=None)
