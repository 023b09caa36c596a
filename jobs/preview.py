"""Preview: what a retention run would delete now, and how much. Nothing is locked and nothing is changed."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from saver.connect import Tiers

PAGE = 500


@dataclass(slots=True)
class Preview:
    """Counts of threads that are old enough; `size_bytes` is what those that would go take in Postgres."""

    deleted: int = 0
    waiting: int = 0
    in_use: int = 0
    unknown: int = 0  # of the stock saver: their age is looked up by the run itself
    size_bytes: int = 0


async def preview(tiers: Tiers) -> Preview:
    """Count, by TIER_RETAIN_FOR and TIER_RETAIN_WAITING. Raises HotTierError, ColdTierError."""
    found = Preview()
    [(found.unknown,)] = await tiers.cold.fetch("count_strays", {})
    async for names in _old(tiers):
        ids = {"thread_ids": names}
        waiting: set[str] = set()
        if tiers.config.retain_waiting == "keep":
            waiting = {thread_id for (thread_id,) in await tiers.cold.fetch("waiting", ids)}
        chosen = [name for name in names if name not in waiting]
        resident = await tiers.hot.commands([("EXISTS", tiers.keys.thread(name).thread) for name in chosen])
        gone = [name for name, is_resident in zip(chosen, resident, strict=True) if not is_resident]
        [(size_bytes,)] = await tiers.cold.fetch("size_of_threads", {"thread_ids": gone})
        found.waiting += len(waiting)
        found.in_use += len(chosen) - len(gone)
        found.deleted += len(gone)
        found.size_bytes += size_bytes
    return found


async def _old(tiers: Tiers) -> AsyncIterator[list[str]]:
    if tiers.config.retain_for is None:
        return
    age = tiers.config.retain_for.total_seconds()
    moment, after = "-infinity", ""
    while True:
        where = {"age": age, "moment": moment, "after": after, "limit": PAGE}
        page = await tiers.cold.fetch("idle_since", where)
        if not page:
            return
        after, moment = page[-1]
        ids = {"thread_ids": [thread_id for thread_id, _ in page], "age": age}
        yield [thread_id for (thread_id,) in await tiers.cold.fetch("still_idle", ids)]
