"""
Retain: delete from Postgres the threads nobody wrote for TIER_RETAIN_FOR, whole threads in small transactions.

The age is looked at under the lock of the thread. A thread in Redis is in use and stays, one that waits for a person
stays unless TIER_RETAIN_WAITING is `expire`. Cut short anywhere, a run goes on from a `Place` or starts again.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from psycopg.rows import TupleRow

from saver import hot
from saver.cold import Transaction
from saver.connect import Tiers
from saver.destroy import DELETES
from saver.errors import ColdTierError

RUN_SECONDS = 10.0
MOST_SECONDS = 0.1  # of one transaction: others wait for its locks
AIM_SECONDS = 0.06
FIRST_BATCH = 25

_CANCELLED = "57014"  # a statement took longer than it may

log = logging.getLogger(__name__)


class Place(NamedTuple):
    """How far a run is: adopting by thread id, then deleting by last activity and thread id."""

    step: Literal["adopt", "delete"] = "adopt"
    moment: str = "-infinity"
    thread_id: str = ""


@dataclass(slots=True)
class Retained:
    """What a run did, and where the next one goes on; `place` is None at the end."""

    deleted: int = 0
    waiting: int = 0
    in_use: int = 0
    adopted: int = 0
    too_slow: int = 0
    is_elsewhere: bool = False  # another run holds the lock; this one did nothing
    place: Place | None = field(default_factory=Place)


class _Page(NamedTuple):
    """What one transaction did."""

    place: Place
    size: int
    deleted: int = 0
    waiting: int = 0
    in_use: int = 0
    adopted: int = 0


async def retain(tiers: Tiers, place: Place | None = None, *, seconds: float = RUN_SECONDS) -> Retained:
    """Apply TIER_RETAIN_FOR for some seconds. Does nothing when that is off. Raises HotTierError, ColdTierError."""
    result = Retained(place=place or Place())
    age = tiers.config.retain_for
    if age is None:
        result.place = None
        return result
    size, deadline = min(FIRST_BATCH, tiers.config.batch_threads), time.monotonic() + seconds
    while result.place is not None and time.monotonic() < deadline:
        started = time.monotonic()
        try:
            page = await _turn_page(tiers, age, result.place, size)
        except ColdTierError as error:
            if error.sqlstate != _CANCELLED:
                raise
            if size == 1:
                result.place = await _behind(tiers, age, result.place)
                result.too_slow += 1
            size = max(1, size // 2)
            continue
        if page is None:
            result.is_elsewhere = True
            return result
        _add(result, page, size)
        took = time.monotonic() - started
        size = _next_size(size, took, tiers.config.batch_threads)
    return result


def _next_size(size: int, took: float, most: int) -> int:
    """So many that the next transaction takes the time it should, if its threads are like the last ones."""
    change = 0.5 if took > MOST_SECONDS else min(2.0, AIM_SECONDS / took)
    return max(1, min(most, round(size * change)))


def _add(result: Retained, page: _Page, asked: int) -> None:
    result.deleted += page.deleted
    result.waiting += page.waiting
    result.in_use += page.in_use
    result.adopted += page.adopted
    if page.size == asked:
        result.place = page.place
    else:
        result.place = Place("delete") if page.place.step == "adopt" else None


async def _turn_page(tiers: Tiers, age: timedelta, place: Place, size: int) -> _Page | None:
    """One transaction. None if another run holds the lock."""

    lock = ("lock_retention", {"schema": tiers.config.postgres_schema})

    async def work(transaction: Transaction) -> _Page | None:
        if place.step == "adopt":
            [(is_ours,)] = await transaction.fetch(*lock)
            return await _adopt(transaction, place, size) if is_ours else None
        [(is_ours,)], found = await transaction.fetch_many([lock, ("idle_since", _where(age, place, size))])
        return await _delete(tiers, transaction, age, place, found) if is_ours else None

    # A large thread alone gets more time than a batch.
    return await tiers.cold.transact(work, timeout=tiers.move_timeout if size == 1 else None)


async def _behind(tiers: Tiers, age: timedelta, place: Place) -> Place | None:
    """The place behind a thread that takes too long: it must not hold up the others."""
    if place.step == "adopt":
        log.error("threads of the stock saver cannot be adopted in time; those known already are retained")
        return Place("delete")
    found = await tiers.cold.fetch("idle_since", _where(age, place, 1))
    if not found:
        return None
    log.error("a thread takes too long to delete; it stays", extra={"thread_id": found[0][0]})
    return Place("delete", found[0][1], found[0][0])


def _where(age: timedelta, place: Place, limit: int) -> dict[str, Any]:
    return {"age": age.total_seconds(), "moment": place.moment, "after": place.thread_id, "limit": limit}


async def _adopt(transaction: Transaction, place: Place, size: int) -> _Page:
    [(last, count, adopted)] = await transaction.fetch("adopt", {"after": place.thread_id, "limit": size})
    return _Page(Place("adopt", thread_id=last or ""), count, adopted=adopted)


async def _delete(
    tiers: Tiers, transaction: Transaction, age: timedelta, place: Place, found: Sequence[TupleRow]
) -> _Page:
    if not found:
        return _Page(place, 0)
    reached = Place("delete", found[-1][1], found[-1][0])
    await tiers.pause("retain: found")
    ids = {"thread_ids": [thread_id for thread_id, _ in found]}
    # After the locks, each statement with a snapshot of its own: an archiver may have committed before them.
    free, idle, waiting = await transaction.fetch_many(
        [("lock_free", ids), ("still_idle", {**ids, "age": age.total_seconds()}), ("waiting", ids)]
    )
    locked = {thread_id for (thread_id,) in free}
    old = [thread_id for (thread_id,) in idle if thread_id in locked]
    spared = {thread_id for (thread_id,) in waiting} if tiers.config.retain_waiting == "keep" else set()
    chosen = [thread_id for thread_id in old if thread_id not in spared]
    await tiers.pause("retain: locked")
    replies = await tiers.hot.call_many([hot.absent(tiers.keys.thread(name), name) for name in chosen])
    gone = [name for name, is_absent in zip(chosen, replies, strict=True) if is_absent]
    await tiers.pause("retain: absent")
    if gone:
        await transaction.fetch_many([(name, {"thread_ids": gone}) for name in DELETES])
    await tiers.pause("retain: deleted")
    return _Page(reached, len(found), len(gone), len(old) - len(chosen), len(chosen) - len(gone))
