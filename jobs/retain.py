"""
Retain: delete from Postgres the threads nobody wrote for TIER_RETAIN_FOR, and shorten those that are longer than
TIER_KEEP_CHECKPOINTS, unless a policy says otherwise (`saver/policy.py`).

Whole threads in small transactions. Everything is looked at under the lock of the thread. A thread in Redis is in use
and stays, one that waits for a person stays unless TIER_RETAIN_WAITING is `expire`. Cut short anywhere, a run goes on
from a `Place` or starts again.
"""

import logging
import time
from dataclasses import dataclass, field

from jobs.retention import Counts, Page, Place, Walk, anybody_shortens, found_by, shortest_age, turn_page, walk
from saver.cold import Transaction
from saver.connect import Tiers
from saver.errors import ColdTierError

RUN_SECONDS = 10.0
MOST_SECONDS = 0.1  # of one transaction: others wait for its locks
AIM_SECONDS = 0.06
FIRST_BATCH = 25

_CANCELLED = "57014"  # a statement took longer than it may

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Retained(Counts):
    """What a run did, and where the next one goes on; `place` is None at the end."""

    is_elsewhere: bool = False  # another run holds the lock; this one did nothing
    place: Place | None = field(default_factory=Place)


async def retain(tiers: Tiers, place: Place | None = None, *, seconds: float = RUN_SECONDS) -> Retained:
    """Apply the policies for some seconds. Raises HotTierError, ColdTierError."""
    result = Retained(place=place or Place())
    age = await shortest_age(tiers)
    size, deadline = min(FIRST_BATCH, tiers.config.batch_threads), time.monotonic() + seconds
    while result.place is not None and time.monotonic() < deadline:
        if result.place.step == "delete" and age is None:
            result.place = result.place.next_step
            continue
        if result.place == Place("shorten") and not await anybody_shortens(tiers):
            result.place = result.place.next_step
            continue
        started = time.monotonic()
        try:
            page = await _turn_page(tiers, Walk(result.place, size, age))
        except ColdTierError as error:
            if error.sqlstate != _CANCELLED:
                raise
            if size == 1:
                result.place = await _behind(tiers, Walk(result.place, 1, age))
                result.too_slow += 1
            size = max(1, size // 2)
            continue
        if page is None:
            result.is_elsewhere = True
            return result
        result.add(page.counts)
        result.place = page.next_place
        size = _next_size(size, time.monotonic() - started, tiers.config.batch_threads)
    return result


def _next_size(size: int, took: float, most: int) -> int:
    """So many that the next transaction takes the time it should, if its threads are like the last ones."""
    change = 0.5 if took > MOST_SECONDS else min(2.0, AIM_SECONDS / took)
    return max(1, min(most, round(size * change)))


async def _turn_page(tiers: Tiers, where: Walk) -> Page | None:
    """One transaction. None if another run holds the lock."""

    async def work(transaction: Transaction) -> Page | None:
        return await turn_page(tiers, transaction, where)

    # A large thread alone gets more time than a batch.
    return await tiers.cold.transact(work, timeout=tiers.move_timeout if where.size == 1 else None)


async def _behind(tiers: Tiers, where: Walk) -> Place | None:
    """The place behind a thread that takes too long: it must not hold up the others."""
    if where.place.step == "adopt":
        log.error("threads of the stock saver cannot be adopted in time; those known already are retained")
        return where.place.next_step
    found = found_by(where, await tiers.cold.fetch(*walk(tiers.config, where)))
    for thread_id in found.thread_ids:
        log.error("a thread takes too long to delete or to shorten; it stays", extra={"thread_id": thread_id})
    return found.next_place
