"""
How the rows of many threads get into the stock tables.

Blobs and ordinary writes keep their first value, checkpoint rows and special writes take the last. Rows that nothing
has archived yet go in by COPY, in a savepoint: should one be there all the same, the batch is upserted instead.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from saver.cold import CopyPart, Transaction
from saver.logged import LogBatch
from saver.rows import CheckpointRow, Rows, merge_writes

MANY_ROWS = 100  # from here on the round trips of COPY, or of asking what is there, cost less than they save

_BLOBS = ("text",) * 5 + ("bytea",)
_WRITES = ("text",) * 4 + ("int4",) + ("text",) * 3 + ("bytea",)
_CHECKPOINTS = ("text",) * 4 + ("bytea",) * 2  # of JSONB the bytes of its binary form
_JSONB_VERSION = b"\x01"  # the first of them, the text follows

Copied = tuple[LogBatch, Rows]
Known = Mapping[str, tuple[int, int]]


async def upsert(transaction: Transaction, copied: Sequence[Copied], known: Known) -> None:
    """Store the rows of some logs and their tier rows; `known` are the tier rows as they stand, by thread."""
    new = [one for one in copied if _is_new(one[0], known)]
    rest = [one for one in copied if not _is_new(one[0], known)]
    if _count(new) >= MANY_ROWS and await transaction.copy_new(_parts(new)):
        rest += [(batch, Rows(writes=[write for write in rows.writes if write.idx < 0])) for batch, rows in new]
    else:
        rest += new
    if _count(rest) >= MANY_ROWS:
        rest = await _missing(transaction, rest)
    await transaction.fetch_many(
        [*upserts([(batch.thread_id, rows) for batch, rows in rest]), _tier_rows(copied), _labels(copied)]
    )


def _count(copied: Sequence[Copied]) -> int:
    return sum(len(rows) for _, rows in copied)


async def _missing(transaction: Transaction, copied: Sequence[Copied]) -> list[Copied]:
    """The same without blobs and ordinary writes that are there: they would not be stored and are most bytes."""
    blobs = [(batch.thread_id, *row[:3]) for batch, rows in copied for row in rows.blobs]
    writes = [(batch.thread_id, *row[:4]) for batch, rows in copied for row in rows.writes]
    calls = []
    if blobs:
        calls.append(("there_blobs", _columns("thread_ids namespaces channels versions", blobs)))
    if writes:
        calls.append(("there_writes", _columns("thread_ids namespaces checkpoint_ids task_ids indexes", writes)))
    there = {tuple(record) for found in await transaction.fetch_many(calls) for record in found}
    return [
        (
            batch,
            Rows(
                rows.checkpoints,
                [row for row in rows.blobs if (batch.thread_id, *row[:3]) not in there],
                [row for row in rows.writes if row.idx < 0 or (batch.thread_id, *row[:4]) not in there],
            ),
        )
        for batch, rows in copied
    ]


def _is_new(batch: LogBatch, known: Known) -> bool:
    """Whether no archiver can have committed these rows before: the log begins where the tier row ends, or later."""
    incarnation, position = known.get(batch.thread_id, (0, 0))
    return not batch.is_suspect and (batch.incarnation > incarnation or batch.base >= position)


def _parts(copied: Sequence[Copied]) -> list[CopyPart]:
    """What COPY can take, blobs before the rows that refer to them. A special write may replace another: not here."""
    blobs = ((batch.thread_id, *row) for batch, rows in copied for row in rows.blobs)
    writes = (
        (batch.thread_id, *row)
        for batch, rows in copied
        for row in merge_writes(write for write in rows.writes if write.idx >= 0)
    )
    checkpoints = (
        (batch.thread_id, row.namespace, row.checkpoint_id, row.parent_id, _jsonb(row.checkpoint), _jsonb(row.metadata))
        for batch, rows in copied
        for row in rows.checkpoints
    )
    return [
        CopyPart("copy_blobs", _BLOBS, blobs),
        CopyPart("copy_writes", _WRITES, writes),
        CopyPart("copy_checkpoints", _CHECKPOINTS, checkpoints),
    ]


def _jsonb(text: str) -> bytes:
    return _JSONB_VERSION + text.encode()


def upserts(threads: Sequence[tuple[str, Rows]]) -> list[tuple[str, dict[str, Any]]]:
    """The statements that store rows of threads: blobs before the rows that refer to them."""
    blobs = [(thread_id, *row) for thread_id, rows in threads for row in rows.blobs]
    checkpoints = [(thread_id, *row) for thread_id, rows in threads for row in rows.checkpoints]
    writes = [(thread_id, *row) for thread_id, rows in threads for row in merge_writes(rows.writes)]
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


def _labels(copied: Sequence[Copied]) -> tuple[str, dict[str, Any]]:
    return "label", {"thread_ids": [batch.thread_id for batch, rows in copied if _head(rows.checkpoints) is not None]}


def _columns(names: str, records: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    return {name: list(values) for name, values in zip(names.split(), zip(*records, strict=True), strict=True)}


def _head(checkpoints: Sequence[CheckpointRow]) -> str | None:
    return max((row.checkpoint_id for row in checkpoints if row.namespace == ""), default=None)
