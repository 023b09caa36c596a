"""
A survey of both tiers: how much there is and how much waits.

Counted from the indexes, in few round trips; no thread is touched. Ages are by the clock of Redis.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from saver.connect import Tiers

SAMPLED_PARTITIONS = 64

log = logging.getLogger(__name__)
ALIVE_MS = 30_000  # a worker that was not seen for this long is not counted
FORGOTTEN_MS = 86_400_000


class Waiting(NamedTuple):
    """Threads of one partition whose turn has come."""

    partition: int
    dirty: int
    idle: int
    wanted: int


@dataclass(slots=True)
class HotSurvey:
    """What stands in Redis, over all partitions."""

    threads: int = 0
    dirty_threads: int = 0
    oldest_dirty_seconds: float = 0.0
    idle_due_threads: int = 0
    wanted_threads: int = 0
    quarantined_threads: int = 0
    size_bytes: int = 0  # an estimate from a sample of threads
    workers: int = 0  # that live


async def waiting(tiers: Tiers) -> list[Waiting]:
    """What is due in each partition, in two round trips. Raises HotTierError."""
    now_ms = await clock_ms(tiers)
    dirty_cut = now_ms - _ms(tiers.config.archive_wait)
    idle_cut = now_ms - _ms(tiers.config.demote_after)
    keys = tiers.keys
    commands: list[Sequence[str | int]] = []
    for partition in range(keys.partitions):
        commands += [
            ("ZCOUNT", keys.dirty(partition), "-inf", dirty_cut),
            ("ZCOUNT", keys.idle(partition), "-inf", idle_cut),
            ("ZCARD", keys.wanted(partition)),
        ]
    counts = await tiers.hot.commands(commands)
    return [Waiting(at // 3, *counts[at : at + 3]) for at in range(0, len(counts), 3)]


async def survey_hot(tiers: Tiers) -> HotSurvey:
    """Count Redis. Raises HotTierError."""
    now_ms = await clock_ms(tiers)
    idle_cut = now_ms - _ms(tiers.config.demote_after)
    keys = tiers.keys
    commands: list[Sequence[str | int]] = []
    for partition in range(keys.partitions):
        commands += [
            ("ZCARD", keys.idle(partition)),
            ("ZCARD", keys.dirty(partition)),
            ("ZCOUNT", keys.idle(partition), "-inf", idle_cut),
            ("ZCARD", keys.wanted(partition)),
            ("HLEN", keys.quarantine(partition)),
            ("ZRANGE", keys.dirty(partition), 0, 0, "WITHSCORES"),
        ]
    commands.append(("ZCOUNT", keys.workers, now_ms - ALIVE_MS, "+inf"))
    *replies, workers = await tiers.hot.commands(commands)
    threads, dirty, idle_due, wanted, quarantined = (sum(replies[at::6]) for at in range(5))
    oldest_ms = min((float(reply[1]) for reply in replies[5::6] if reply), default=now_ms)
    return HotSurvey(
        threads=threads,
        dirty_threads=dirty,
        oldest_dirty_seconds=max(now_ms - oldest_ms, 0) / 1000,
        idle_due_threads=idle_due,
        wanted_threads=wanted,
        quarantined_threads=quarantined,
        size_bytes=await _estimated_bytes(tiers, threads),
        workers=workers,
    )


async def cold_threads(tiers: Tiers) -> int:
    """How many threads Postgres has; an estimate once there are many. Raises ColdTierError."""
    [(count,)] = await tiers.replica.fetch("count_cold", {})
    return int(count)


async def eviction_policy(tiers: Tiers) -> str:
    """
    The maxmemory-policy of Redis, of a cluster the worst. Any but noeviction may drop threads that are nowhere else.

    Raises HotTierError.
    """
    lines = [line for info in await tiers.hot.everywhere("INFO", "memory") for line in info.splitlines()]
    found = [line.partition(b":")[2].decode().strip() for line in lines if line.startswith(b"maxmemory_policy:")]
    return next((policy for policy in found if policy != "noeviction"), found[0] if found else "unknown")


async def warn_of_eviction(tiers: Tiers) -> None:
    """Say so, loudly, when Redis may drop threads that are nowhere else. Raises HotTierError."""
    policy = await eviction_policy(tiers)
    if policy != "noeviction":
        log.critical(
            "Redis may drop threads that are nowhere else: set its maxmemory-policy to noeviction",
            extra={"maxmemory_policy": policy},
        )


async def clock_ms(tiers: Tiers) -> int:
    """Milliseconds since the epoch by the clock of Redis, which all processes share. Raises HotTierError."""
    seconds, microseconds = await tiers.hot.command("TIME")
    return int(seconds) * 1000 + int(microseconds) // 1000


async def share(tiers: Tiers, values: Mapping[str, float]) -> None:
    """Leave numbers about the whole system to the other workers. Raises HotTierError."""
    pairs = (part for name, value in values.items() for part in (name, repr(value)))
    await tiers.hot.command("HSET", tiers.keys.gauges, *pairs)


async def shared(tiers: Tiers) -> dict[str, float]:
    """The numbers that workers left. Raises HotTierError."""
    flat = await tiers.hot.command("HGETALL", tiers.keys.gauges)
    return {name.decode(): float(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}


async def say_alive(tiers: Tiers, worker: str) -> None:
    """Note that this worker lives, and forget those that died long ago. Raises HotTierError."""
    now_ms = await clock_ms(tiers)
    key = tiers.keys.workers
    await tiers.hot.commands([("ZADD", key, now_ms, worker), ("ZREMRANGEBYSCORE", key, "-inf", now_ms - FORGOTTEN_MS)])


async def say_gone(tiers: Tiers, worker: str) -> None:
    """Note that this worker ends. Raises HotTierError."""
    await tiers.hot.command("ZREM", tiers.keys.workers, worker)


async def _estimated_bytes(tiers: Tiers, threads: int) -> int:
    """The mean size of one thread from each of some partitions, times their number. Partitions are equal by hash."""
    if not threads:
        return 0
    keys = tiers.keys
    step = max(1, keys.partitions // SAMPLED_PARTITIONS)
    picked = await tiers.hot.commands([("ZRANDMEMBER", keys.idle(at), 1) for at in range(0, keys.partitions, step)])
    sampled = [keys.thread(names[0].decode()) for names in picked if names]
    commands = [("MEMORY", "USAGE", key) for one in sampled for key in (one.thread, one.log)]
    sizes: list[Any] = await tiers.hot.commands(commands)
    return sum(size or 0 for size in sizes) * threads // max(len(sampled), 1)


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
