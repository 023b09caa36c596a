"""Preview: what a retention run would do now, and how much. Nothing is locked and nothing is changed."""

from dataclasses import dataclass

from jobs.retention import Counts, Place, Walk, due_among, found_by, keeping, longer, shortest_age, standing, walk
from saver.connect import Tiers

PAGE = 500


@dataclass(slots=True)
class Preview(Counts):
    """Counts of threads by what would become of them; `size_bytes` is what those that would go take in Postgres."""

    unknown: int = 0  # of the stock saver: their age is looked up by the run itself
    size_bytes: int = 0


async def preview(tiers: Tiers) -> Preview:
    """Count, by the TIER_ variables and all policies. Raises HotTierError, ColdTierError."""
    found = Preview()
    [(found.unknown,)] = await tiers.cold.fetch("count_strays", {})
    age = await shortest_age(tiers)
    place: Place | None = Place("delete" if age else "wish")
    seen: set[str] = set()
    while place is not None:
        where = Walk(place, PAGE, age)
        page = found_by(where, await tiers.cold.fetch(*walk(tiers.config, where)))
        if place.step == "shorten":
            await _count_long(tiers, [name for name in page.thread_ids if name not in seen], found)
        else:
            seen |= await _count_old(tiers, [name for name in page.thread_ids if name not in seen], found)
        place = page.next_place
    return found


async def _count_old(tiers: Tiers, thread_ids: list[str], found: Preview) -> set[str]:
    """Returns those that would be deleted."""
    ids = {"thread_ids": thread_ids}
    threads = standing(tiers.config, await tiers.cold.fetch("told_of", ids))
    waiting = {thread_id for (thread_id,) in await tiers.cold.fetch("waiting", ids)}
    due = due_among(threads, waiting, found)
    gone = await _not_resident(tiers, due)
    [(size_bytes,)] = await tiers.cold.fetch("size_of_threads", {"thread_ids": gone})
    found.in_use += len(due) - len(gone)
    found.deleted += len(gone)
    found.size_bytes += size_bytes
    return set(gone)


async def _count_long(tiers: Tiers, thread_ids: list[str], found: Preview) -> None:
    ids = {"thread_ids": thread_ids}
    keeps = keeping(standing(tiers.config, await tiers.cold.fetch("told_of", ids)))
    long = longer(await tiers.cold.fetch("longest_namespaces", ids), keeps)
    gone = await _not_resident(tiers, list(long))
    found.in_use += len(long) - len(gone)
    found.shortened += len(gone)
    for thread_id in gone:
        outlived = await tiers.cold.fetch("outlived", {"thread_id": thread_id, "keep": long[thread_id]})
        found.checkpoints += len(outlived)


async def _not_resident(tiers: Tiers, thread_ids: list[str]) -> list[str]:
    resident = await tiers.hot.commands([("EXISTS", tiers.keys.thread(name).thread) for name in thread_ids])
    return [name for name, is_resident in zip(thread_ids, resident, strict=True) if not is_resident]
