"""Demote a thread now, and say in which tier a thread is."""

from typing import Literal

from saver import hot
from saver.archive import archive
from saver.connect import Tiers
from saver.hot import Evicted, Status

MOST_ATTEMPTS = 5

Tier = Literal["hot", "cold"]


async def demote(tiers: Tiers, thread_id: str) -> bool:
    """Archive and evict a thread whatever its last access. False if it was written meanwhile and stays hot."""
    keys = tiers.keys.thread(thread_id)
    for _ in range(MOST_ATTEMPTS):
        await archive(tiers, [thread_id], wait=True)
        if Evicted(await tiers.hot.call(hot.evict(keys, thread_id, 0))) is not Evicted.NOT_ARCHIVED:
            return True
    return False


async def tier_of(tiers: Tiers, thread_id: str) -> Tier | None:
    """Where reads of a thread are answered: "hot" if Redis has a checkpoint of it, "cold" if only Postgres, or None."""
    reply = await tiers.hot.call(hot.list_page(tiers.keys.thread(thread_id), thread_id, None, "", "", 1))
    answer = hot.page_read(reply)
    if answer.status is Status.SUSPECT or answer.entries:
        return "hot"
    [(is_there,)] = await tiers.cold.fetch("cold_has", {"thread_id": thread_id})
    return "cold" if is_there else None
