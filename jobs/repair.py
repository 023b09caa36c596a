"""
Repair: give a tier back what it has lost and the other still holds.

A row that Postgres lacks is logged again and archived; that is a put of what stands in hot, so it may be done twice and
beside agents. So is a checkpoint row or a special write that differs: hot has its last value. A checkpoint that hot
lacks comes back with the next load: the thread is archived and leaves Redis.

A blob or an ordinary write that differs stays as it is in both tiers: it should never have changed, and nobody here
knows which one is damaged.
"""

from collections.abc import Iterable, Iterator

from jobs.verify import Difference, Fact, Verified, verify
from saver.archive import archive
from saver.connect import Tiers
from saver.demote import demote
from saver.errors import ColdTierError
from saver.hot import Request
from saver.pack import blob_name
from saver.scripts import script

MOST_NAMES = 500  # logged in one step
_ORDER = ("blob", "write", "checkpoint")  # blobs before the rows that refer to them


async def repair(tiers: Tiers, thread_id: str, found: Verified) -> Verified:
    """
    Repair one thread after a comparison, and compare again: what is left could not be repaired.

    Raises HotTierError, and ColdTierError unless Postgres refuses what is in the thread; then it stays as it was.
    """
    lost_by_hot = [one for one in found.differences if one.fact is Fact.COLD_ALONE]
    lost_by_cold = [one for one in found.differences if _is_newer_in_hot(one)]
    for request in _relogs(tiers, thread_id, lost_by_cold):
        await tiers.hot.call(request)
        await tiers.pause("repair: logged")
    try:
        # While something is undecided, the copy in Redis is one of two opinions.
        if lost_by_hot and len(lost_by_hot) + len(lost_by_cold) == len(found.differences):
            await demote(tiers, thread_id)
        else:
            await archive(tiers, [thread_id], wait=True)
    except ColdTierError as error:
        if not error.is_refusal:
            raise
    return await verify(tiers, thread_id)


def _is_newer_in_hot(one: Difference) -> bool:
    if one.fact is Fact.DIFFERS:
        return one.kind == "checkpoint" or (one.kind == "write" and one.key[-1].startswith("-"))
    return one.fact is Fact.HOT_ALONE


def _relogs(tiers: Tiers, thread_id: str, differences: Iterable[Difference]) -> Iterator[Request]:
    by_namespace: dict[str, dict[tuple[str, str], None]] = {}
    for one in sorted(differences, key=lambda one: _ORDER.index(one.kind)):
        name = blob_name(*one.key) if one.kind == "blob" else one.key[0]
        by_namespace.setdefault(one.namespace, {})[one.kind[0], name] = None
    for namespace, names in by_namespace.items():
        pairs = list(names)
        for first in range(0, len(pairs), MOST_NAMES):
            flat = [part for pair in pairs[first : first + MOST_NAMES] for part in pair]
            yield Request(script("relog"), tiers.keys.thread(thread_id), (thread_id, namespace, *flat))
