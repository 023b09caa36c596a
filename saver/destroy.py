"""
Delete a thread from both tiers: lock, archive what is dirty, evict, change the rows, commit. Only then is it done.

Evicting after the commit would let a late archiver bring the thread back; evicting before takes its load token too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from saver import hot
from saver.archive import archive
from saver.cold import Transaction
from saver.connect import Tiers
from saver.errors import ColdTierError, HotTierError, ThreadHeld
from saver.hot import Evicted
from saver.logged import log_batch

MOST_ATTEMPTS = 50
DELETES = ("delete_checkpoints", "delete_blobs", "delete_writes", "delete_labels", "bury")  # of whole threads

Change = Callable[[Transaction], Awaitable[None]]


async def delete(tiers: Tiers, thread_id: str) -> None:
    """Delete a thread. Nothing put before is readable once this returns. Raises a TierError, also for a held thread."""

    async def change(transaction: Transaction) -> None:
        where = {"thread_ids": [thread_id]}
        await transaction.fetch_many([(name, where) for name in DELETES])

    await change_cold(tiers, thread_id, change, is_delete=True)


async def change_cold(
    tiers: Tiers,
    thread_id: str,
    change: Change,
    *,
    removes: bool = True,
    is_delete: bool = False,
    locked: Sequence[str] = (),
) -> None:
    """
    Change the cold rows of a thread while nobody else moves it and hot does not have it; nobody moves those locked.

    A change that removes rows is refused while there is a legal hold on the thread.
    For a deletion, rows that Postgres does not take, or that would vanish, are dropped rather than archived first.
    """

    keys = tiers.keys.thread(thread_id)

    async def evict_and_change(transaction: Transaction) -> bool:
        lock = ("lock_exclusive_pair", {"thread_ids": [thread_id, *locked]})
        _, [(is_held,)] = await transaction.fetch_many([lock, ("held", {"thread_id": thread_id})])
        if removes and is_held:
            raise ThreadHeld("there is a legal hold on the thread, so nothing of it is deleted; see: tier policy list")
        await tiers.pause("destroy: locked")
        reply = await tiers.hot.call(hot.evict(keys, thread_id, 0, vanishing=is_delete))
        if Evicted(reply) is Evicted.NOT_ARCHIVED:
            return False
        if Evicted(reply) is Evicted.VANISHED:
            await transaction.fetch("entomb", {"thread_id": thread_id})
        await tiers.pause("destroy: evicted")
        await change(transaction)
        await tiers.pause("destroy: changed")
        return True

    for attempt in range(MOST_ATTEMPTS):
        if await tiers.cold.transact(evict_and_change):
            return
        try:
            await archive(tiers, [thread_id], wait=True)
        except ColdTierError as error:
            if not (is_delete and error.is_refusal):
                raise
            await _drop(tiers, thread_id)
        if attempt > 5:
            await asyncio.sleep(0.01 * attempt)
    raise _restless()


async def drain(tiers: Tiers, thread_id: str) -> None:
    """Archive until nothing of a thread waited for Postgres once. Raises HotTierError, ColdTierError."""
    for _ in range(MOST_ATTEMPTS):
        if thread_id in (await archive(tiers, [thread_id], wait=True)).clean:
            return
    raise _restless()


def _restless() -> HotTierError:
    return HotTierError("the thread is written faster than it can be archived; stop its agents and try again")


async def _drop(tiers: Tiers, thread_id: str) -> None:
    keys = tiers.keys.thread(thread_id)
    batch = log_batch(thread_id, await tiers.hot.call(hot.log_read(keys, thread_id, 1, -1, 0)))
    if batch is not None:
        await tiers.hot.call(hot.drop(keys, thread_id, batch.incarnation))
