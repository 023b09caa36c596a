"""
Archive: copy what is not in Postgres yet, commit, then shorten the log in Redis.

Safe to run twice and to kill at any line: the copy is an upsert, and the log is shortened only up to what was
committed, only in the incarnation it was read from. A batch of one thread serves write-through and deletion.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from saver import hot
from saver.cold import Transaction
from saver.connect import Tiers
from saver.logged import LogBatch, log_batch, rows_of
from saver.upsert import Copied, Known, upsert

NEVER = -1  # no incarnation
# A batch goes to Postgres in parts that grow: it begins soon, is busy while the next part is unpacked, and each COPY
# waits for an answer.
FIRST_PART = 25
GROWTH = 3


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
    copied: list[Copied]


async def archive(tiers: Tiers, thread_ids: Sequence[str], *, wait: bool = False) -> Archived:
    """
    Archive the logs of some threads in one transaction, bounded by TIER_BATCH_BYTES.

    A thread that another process is moving is left to it, unless `wait` (for one thread). Raises ColdTierError or
    HotTierError; then the logs stand as they were, or were copied and will be copied again.
    """

    if wait and tiers.config.on_idle == "expire":
        # Who asks for it by name wants it kept; what is archived must not vanish later and leave an old copy behind.
        await tiers.hot.call_many([hot.keep(tiers.keys.thread(thread_id), thread_id) for thread_id in thread_ids])

    async def copy(transaction: Transaction) -> _Copy:
        return await _copy(tiers, transaction, thread_ids, wait)

    # Somebody waits for one thread: within TIER_POSTGRES_TIMEOUT, like for any other call.
    found = await tiers.cold.transact(copy, timeout=None if wait else tiers.move_timeout, is_bulk=not wait)
    result = Archived(clean=set(found.clean), ghosts=len(found.ghosts))
    requests = []
    for batch, rows in found.copied:
        result.threads += bool(rows)  # none: another archiver committed them, and this one acknowledges
        result.rows += len(rows)
        result.size_bytes += rows.size_bytes
        keys = tiers.keys.thread(batch.thread_id)
        if batch.is_suspect and batch.is_all:
            requests.append(hot.drop(keys, batch.thread_id, batch.incarnation, batch.position))
        else:
            requests.append(hot.log_ack(keys, batch))
    await tiers.pause("archive: committed")
    replies = await tiers.hot.call_many(requests)
    for (batch, _), reply in zip(found.copied, replies, strict=True):
        is_clean = reply != 0 if batch.is_suspect and batch.is_all else reply <= 0
        (result.clean if is_clean else result.partial).add(batch.thread_id)
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
    result = _Copy([], [], [])
    async with aclosing(_read_logs(tiers, ids, known)) as parts:
        async for part in parts:
            await tiers.pause("archive: log read")
            await _store(tiers, transaction, part, known, result)
    await tiers.pause("archive: rows sent")
    waiting = {batch.thread_id for batch, _ in result.copied}
    result.clean += [thread_id for thread_id in ids if thread_id not in waiting]
    return result


async def _store(tiers: Tiers, transaction: Transaction, part: list[Copied], known: Known, result: _Copy) -> None:
    """Upsert what was read of some threads; a ghost of a failover is dropped instead."""
    ghosts = [batch for batch, _ in part if batch.incarnation < known.get(batch.thread_id, (NEVER, 0))[0]]
    if ghosts:
        await tiers.hot.call_many(
            [hot.drop(tiers.keys.thread(ghost.thread_id), ghost.thread_id, ghost.incarnation) for ghost in ghosts]
        )
    haunted = {ghost.thread_id for ghost in ghosts}
    copied = [one for one in part if one[0].thread_id not in haunted]
    if copied:
        await upsert(transaction, copied, known)
    result.ghosts += ghosts
    result.copied += copied


async def _read_logs(tiers: Tiers, ids: Sequence[str], known: Known) -> AsyncGenerator[list[Copied]]:
    """The logs of all threads, some threads at a time; the next ones are read while the caller stores these."""
    share = max(tiers.config.batch_bytes // len(ids), 1)

    async def read(part: Sequence[str]) -> list[Copied]:
        requests = [
            hot.log_read(tiers.keys.thread(thread_id), thread_id, share, *known.get(thread_id, (NEVER, 0)))
            for thread_id in part
        ]
        found: list[Copied] = []
        for thread_id, reply in zip(part, await tiers.hot.call_many(requests), strict=True):
            batch = log_batch(thread_id, reply)
            if batch is not None:
                found.append((batch, rows_of(batch)))
                await asyncio.sleep(0)  # what was unpacked before is on its way meanwhile
        return found

    parts = _growing(ids)
    ahead = asyncio.create_task(read(next(parts)))
    try:
        for part in parts:
            found = await ahead
            ahead = asyncio.create_task(read(part))
            yield found
        yield await ahead
    finally:
        ahead.cancel()
        await asyncio.wait({ahead})


def _growing(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    size, first = FIRST_PART, 0
    while first < len(ids):
        yield ids[first : first + size]
        first, size = first + size, size * GROWTH
