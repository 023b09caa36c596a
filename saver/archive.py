"""
Archive: copy what is not in Postgres yet, commit, then shorten the log in Redis.

Safe to run twice and to kill at any line: the copy is an upsert, and the log is shortened only up to what was
committed, only in the incarnation it was read from. A batch of one thread serves write-through and deletion.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from saver import hot
from saver.cold import Transaction
from saver.connect import Tiers
from saver.hot import LogBatch
from saver.rows import Rows
from saver.upsert import upsert

NEVER = -1  # no incarnation


@dataclass(slots=True)
class Archived:
    """What became of a batch of threads."""

    threads: int = 0
    rows: int = 0
    size_bytes: int = 0
    clean: set[str] = field(default_factory=set)  # nothing of these waits for Postgres any more
    partial: set[str] = field(default_factory=set)  # copied, but rows were left or came meanwhile
    ghosts: int = 0


@dataclass(slots=True)
class _Copy:
    """What one transaction found and committed."""

    clean: list[str]
    ghosts: list[LogBatch]
    copied: list[tuple[LogBatch, Rows]]


async def archive(tiers: Tiers, thread_ids: Sequence[str], *, wait: bool = False) -> Archived:
    """
    Archive the logs of some threads in one transaction, bounded by TIER_BATCH_BYTES.

    A thread that another process is moving is left to it, unless `wait` (for one thread). Raises ColdTierError or
    HotTierError; then the logs stand as they were, or were copied and will be copied again.
    """

    async def copy(transaction: Transaction) -> _Copy:
        return await _copy(tiers, transaction, thread_ids, wait)

    found = await tiers.cold.transact(copy, timeout=tiers.move_timeout, is_bulk=not wait)
    result = Archived(clean=set(found.clean), ghosts=len(found.ghosts))
    requests = []
    for batch, rows in found.copied:
        result.threads += 1
        result.rows += len(rows)
        result.size_bytes += rows.size_bytes
        keys = tiers.keys.thread(batch.thread_id)
        if batch.is_suspect and batch.is_all:
            requests.append(hot.drop(keys, batch.thread_id, batch.incarnation, batch.position))
        else:
            requests.append(hot.log_ack(keys, batch))
    await tiers.pause("archive: committed")
    replies = await tiers.hot.call_many(requests)
    for (batch, _), left in zip(found.copied, replies, strict=True):
        (result.clean if batch.is_suspect or left <= 0 else result.partial).add(batch.thread_id)
    return result


async def _copy(tiers: Tiers, transaction: Transaction, thread_ids: Sequence[str], wait: bool) -> _Copy:
    ids = list(thread_ids)
    await tiers.pause("archive: begins")
    if wait:
        for thread_id in ids:
            await transaction.fetch("lock_exclusive", {"thread_id": thread_id})
    else:
        ids = [record[0] for record in await transaction.fetch("lock_free", {"thread_ids": ids})]
    if not ids:
        return _Copy([], [], [])
    # After the locks, never before: what another archiver committed must be visible, and the log must be read last.
    known = {r[0]: (r[1], r[2]) for r in await transaction.fetch("tier_rows", {"thread_ids": ids})}
    await tiers.pause("archive: locked")
    batches = await _read_logs(tiers, ids, known)
    waiting = {batch.thread_id for batch in batches}
    ghosts = [batch for batch in batches if batch.incarnation < known.get(batch.thread_id, (NEVER, 0))[0]]
    if ghosts:
        await tiers.hot.call_many(
            [hot.drop(tiers.keys.thread(ghost.thread_id), ghost.thread_id, ghost.incarnation) for ghost in ghosts]
        )
    haunted = {ghost.thread_id for ghost in ghosts}
    copied = [(batch, hot.rows_of(batch)) for batch in batches if batch.thread_id not in haunted]
    await tiers.pause("archive: log read")
    if copied:
        await upsert(transaction, copied, known)
    await tiers.pause("archive: rows sent")
    return _Copy([i for i in ids if i not in waiting or i in haunted], ghosts, copied)


async def _read_logs(tiers: Tiers, ids: Sequence[str], known: dict[str, tuple[int, int]]) -> list[LogBatch]:
    share = max(tiers.config.batch_bytes // len(ids), 1)
    requests = [
        hot.log_read(tiers.keys.thread(thread_id), thread_id, share, *known.get(thread_id, (NEVER, 0)))
        for thread_id in ids
    ]
    replies = await tiers.hot.call_many(requests)
    found = (hot.log_batch(thread_id, reply) for thread_id, reply in zip(ids, replies, strict=True))
    return [batch for batch in found if batch is not None]
