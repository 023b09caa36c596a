"""Trim: keep only the newest checkpoints of threads in use hot, once everything of them is archived."""

from collections.abc import Iterable

from saver import hot
from saver.connect import Tiers


async def trim(tiers: Tiers, thread_ids: Iterable[str]) -> int:
    """
    Raise the floor of clean threads to TIER_HOT_CHECKPOINTS per namespace. Returns how many rows left Redis.

    A thread that was written meanwhile stays as it is. Raises HotTierError.
    """
    keep = tiers.config.hot_checkpoints
    if keep is None:
        return 0
    await tiers.pause("trim: begins")
    requests = [hot.trim(tiers.keys.thread(thread_id), thread_id, keep) for thread_id in thread_ids]
    return sum(dropped for dropped in await tiers.hot.call_many(requests) if dropped > 0)
