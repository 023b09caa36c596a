"""
Transfer: take a thread out as it stands in both tiers, and bring one in, whole or not at all.

A thread that comes in is in Postgres when it is done, and compared with what was to come. Bringing it in twice does no
harm.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TypeVar

from jobs.portable import PortableThread
from jobs.verify import named
from saver.cold import Transaction, rows_from
from saver.connect import Tiers
from saver.destroy import change_cold, drain
from saver.errors import ColdTierError, TierError
from saver.rows import Rows
from saver.upsert import upserts

ROWS_AT_ONCE = 1000  # in one statement

T = TypeVar("T")


class ThreadExists(TierError):  # noqa: N818 - reads as the fact it reports
    """A thread of this id is here and has other content. Nothing was written."""


class Brought(StrEnum):
    """What became of a thread that was to come in."""

    ADDED = "added"
    THERE = "there already"


async def take_out(tiers: Tiers, thread_id: str) -> PortableThread | None:
    """
    All rows of a thread that were acknowledged before the call; None for an unknown one.

    What is not archived yet is archived first. Raises HotTierError, ColdTierError.
    """
    await drain(tiers, thread_id)
    rows = await _read(tiers, thread_id)
    return PortableThread(thread_id, rows) if len(rows) else None


async def bring_in(tiers: Tiers, thread: PortableThread, *, merge: bool = False) -> Brought:
    """
    Store a thread. One of that id that is here must be an earlier state of it, so that all it has comes again.

    With `merge` it is added to any that is here: what both have is as in the one that comes. Raises ThreadExists,
    HotTierError, ColdTierError.
    """
    thread_id, rows = thread
    if not _lacking(rows, await _read(tiers, thread_id)):
        return Brought.THERE

    async def change(transaction: Transaction) -> None:
        if not merge and _lacking(rows_from(await transaction.fetch("read_thread", {"thread_id": thread_id})), rows):
            raise ThreadExists("a thread of this id is here and has other content; delete it first, or say --merge")
        for part in _parts(rows):
            await transaction.fetch_many(upserts([(thread_id, part)]))
        ids = {"thread_ids": [thread_id]}
        await transaction.fetch_many([("note_arrived", {"thread_id": thread_id}), ("label", ids)])

    await change_cold(tiers, thread_id, change, removes=False)
    if lacking := _lacking(rows, await _read(tiers, thread_id)):
        raise ColdTierError(f"{lacking} rows are not as they should be; is somebody else writing the thread?")
    return Brought.ADDED


async def _read(tiers: Tiers, thread_id: str) -> Rows:
    async def read(transaction: Transaction) -> Rows:
        where = {"thread_id": thread_id}
        _, records = await transaction.fetch_many([("lock_shared", where), ("read_thread", where)])
        return rows_from(records)

    return await tiers.cold.transact(read, timeout=tiers.move_timeout)


def _lacking(wanted: Rows, found: Rows) -> int:
    """How many rows are missing or differ."""
    there = named(found)
    return sum(name not in there or there[name] != content for name, content in named(wanted).items())


def _parts(rows: Rows) -> Iterator[Rows]:
    """Blobs before the rows that refer to them."""
    yield from (Rows(blobs=part) for part in _chunks(rows.blobs))
    yield from (Rows(writes=part) for part in _chunks(rows.writes))
    yield from (Rows(checkpoints=part) for part in _chunks(rows.checkpoints))


def _chunks(rows: Sequence[T]) -> Iterator[list[T]]:
    for first in range(0, len(rows), ROWS_AT_ONCE):
        yield list(rows[first : first + ROWS_AT_ONCE])
