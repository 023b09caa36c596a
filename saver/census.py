"""Census: how many threads each tier has and what waits, from the indexes alone."""

from dataclasses import dataclass
from datetime import timedelta

from saver.connect import Tiers

_INDEXES = 6


@dataclass(frozen=True, slots=True)
class HotCensus:
    """The hot tier. `size_bytes` is what the whole server uses, whoever else is on it."""

    threads: int
    dirty: int
    oldest_dirty: timedelta
    idle_due: int
    wanted: int
    quarantined: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ColdCensus:
    """The cold tier. `threads` is an estimate once there are many."""

    threads: int
    size_bytes: int


async def census_of_hot(tiers: Tiers) -> HotCensus:
    """Count by the indexes of all partitions: cheap at any number of threads. Raises HotTierError."""
    seconds, microseconds = await tiers.hot.command("TIME")
    now = int(seconds) * 1000 + int(microseconds) // 1000
    due = now - int(tiers.config.demote_after.total_seconds() * 1000)
    commands: list[tuple[str | int, ...]] = []
    for partition in range(tiers.keys.partitions):
        idle, dirty = tiers.keys.idle(partition), tiers.keys.dirty(partition)
        commands += [
            ("ZCARD", idle),
            ("ZCARD", dirty),
            ("ZRANGE", dirty, 0, 0, "WITHSCORES"),
            ("ZCOUNT", idle, "-inf", due),
            ("ZCARD", tiers.keys.wanted(partition)),
            ("HLEN", tiers.keys.quarantine(partition)),
        ]
    replies = await tiers.hot.commands(commands)
    threads, dirty_threads, first, idle_due, wanted, aside = (replies[at::_INDEXES] for at in range(_INDEXES))
    oldest = min((float(entry[1]) for entry in first if entry), default=now)
    return HotCensus(
        threads=sum(threads),
        dirty=sum(dirty_threads),
        oldest_dirty=timedelta(milliseconds=max(now - oldest, 0)),
        idle_due=sum(idle_due),
        wanted=sum(wanted),
        quarantined=sum(aside),
        size_bytes=_used_memory(await tiers.hot.command("INFO", "memory")),
    )


async def census_of_cold(tiers: Tiers) -> ColdCensus:
    """Count the threads and the bytes of the tables. Raises ColdTierError."""
    [(threads,)] = await tiers.cold.fetch("count_cold", {})
    [(size_bytes,)] = await tiers.cold.fetch("cold_bytes", {"schema": tiers.config.postgres_schema})
    return ColdCensus(threads, size_bytes)


def _used_memory(info: bytes) -> int:
    return next((int(line[12:]) for line in info.splitlines() if line.startswith(b"used_memory:")), 0)
