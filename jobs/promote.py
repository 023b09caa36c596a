"""Promote: bring threads that were asked for into Redis, ahead of the next write."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from jobs.quarantine import DAMAGE, is_about_data
from jobs.turn import TURN_SECONDS, Turn
from saver import hot
from saver.connect import Tiers
from saver.load import promote

MOST_NAMESPACES = 32  # of one thread; the others are loaded when they are used
MOST_AT_ONCE = 8


@dataclass(slots=True)
class PromoteTurn:
    """What became of a partition."""

    promoted: int = 0
    unknown: int = 0
    failed: int = 0
    is_done: bool = False  # nobody waits any more


async def promote_wanted(tiers: Tiers, partition: int) -> PromoteTurn:
    """
    Load the threads of a partition that were read from cold. Raises HotTierError, ColdTierError.

    A thread that cold does not know, or that cannot be loaded, is not wanted any more: its next put or read decides.
    """
    done = PromoteTurn()
    key = tiers.keys.wanted(partition)
    turn = Turn(tiers, key, timedelta(0))
    async for names in turn:
        turn.left |= set(names)
        spaces: dict[str, list[str]] = {}
        for thread_id, namespace in await tiers.cold.fetch("namespaces_of", {"thread_ids": names}):
            spaces.setdefault(thread_id, []).append(namespace)
        hopeless = [name for name in names if name not in spaces]
        done.unknown += len(hopeless)
        hopeless += await _promote_all(tiers, spaces, done)
        if hopeless:
            await tiers.hot.command(*hot.unwanted(key, hopeless))
    done.is_done = turn.is_done
    return done


async def promote_everywhere(tiers: Tiers) -> PromoteTurn:
    """The same in each partition in which somebody waits, for some seconds."""
    total, deadline = PromoteTurn(), time.monotonic() + TURN_SECONDS
    partitions = range(tiers.keys.partitions)
    counts = await tiers.hot.commands([("ZCARD", tiers.keys.wanted(partition)) for partition in partitions])
    for partition in (one for one, count in zip(partitions, counts, strict=True) if count):
        if time.monotonic() > deadline:
            return total
        done = await promote_wanted(tiers, partition)
        total.promoted += done.promoted
        total.unknown += done.unknown
        total.failed += done.failed
        if not done.is_done:
            return total
    total.is_done = True
    return total


async def _promote_all(tiers: Tiers, spaces: dict[str, list[str]], done: PromoteTurn) -> list[str]:
    """Promote threads, some at once. Returns those that cannot be."""
    room = asyncio.Semaphore(max(1, min(MOST_AT_ONCE, tiers.config.postgres_max_size // 2)))

    async def one(thread_id: str) -> bool:
        async with room:
            return await _promote_thread(tiers, thread_id, spaces[thread_id])

    answers = await asyncio.gather(*(one(thread_id) for thread_id in spaces), return_exceptions=True)
    failed = []
    for thread_id, answer in zip(spaces, answers, strict=True):
        if isinstance(answer, DAMAGE) and is_about_data(answer):
            failed.append(thread_id)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            done.promoted += answer
    done.failed += len(failed)
    return failed


async def _promote_thread(tiers: Tiers, thread_id: str, namespaces: Sequence[str]) -> bool:
    """The root and the namespaces that last; one with a colon belongs to a single call of a subgraph."""
    is_new = await promote(tiers, thread_id)
    lasting = sorted(namespace for namespace in namespaces if namespace and ":" not in namespace)
    for namespace in lasting[: MOST_NAMESPACES - 1]:
        await promote(tiers, thread_id, namespace)
    return is_new
