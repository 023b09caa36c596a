"""
Demote: archive what is not in Postgres yet of idle threads, then drop them from Redis.

The script that drops looks again: a write or a read that came meanwhile keeps the thread hot. With TIER_ON_IDLE=expire
a thread vanishes by itself; what it leaves in the indexes goes here.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from jobs.archive import ArchiveTurn, archive_batch
from jobs.quarantine import list_aside
from jobs.turn import Turn
from saver import hot
from saver.connect import Tiers
from saver.hot import Evicted


@dataclass(slots=True)
class DemoteTurn:
    """What became of a partition."""

    demoted: int = 0
    vanished: int = 0
    archived: ArchiveTurn = field(default_factory=ArchiveTurn)
    is_done: bool = False  # nothing is due any more


async def demote_due(tiers: Tiers, partition: int) -> DemoteTurn:
    """Demote the threads nobody touched for TIER_DEMOTE_AFTER. Raises HotTierError, ColdTierError."""
    done = DemoteTurn()
    turn = Turn(tiers, tiers.keys.idle(partition), tiers.config.demote_after)
    # Postgres refused these: they would be asked again and again.
    turn.left = {one.thread_id for one in await list_aside(tiers, partition)}
    async for names in turn:
        stayed = await _evict(tiers, names, done)
        if stayed:
            found = await archive_batch(tiers, sorted(stayed), done.archived)
            stayed -= found.partial
            stayed -= found.clean - await _evict(tiers, sorted(found.clean), done)
        turn.left |= stayed
    done.is_done = turn.is_done
    return done


async def _evict(tiers: Tiers, names: Collection[str], done: DemoteTurn) -> set[str]:
    """Drop those that are clean and idle. Returns those that are not archived."""
    await tiers.pause("demote: found")
    idle_ms = round(tiers.config.demote_after.total_seconds() * 1000)
    vanishing = tiers.config.on_idle == "expire"
    requests = [hot.evict(tiers.keys.thread(name), name, idle_ms, vanishing=vanishing) for name in names]
    replies = await tiers.hot.call_many(requests)
    answers: Sequence[Evicted] = [Evicted(reply) for reply in replies]
    done.demoted += answers.count(Evicted.DROPPED)
    done.vanished += answers.count(Evicted.VANISHED)
    return {name for name, answer in zip(names, answers, strict=True) if answer is Evicted.NOT_ARCHIVED}
