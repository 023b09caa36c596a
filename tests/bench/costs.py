"""
`make bench-costs`: what one step of an agent costs each part of the system, for the plan in deploy/SCALING.md.

CPU time and not elapsed time, so that a machine that others use too gives about the same; the median of the rounds. A
step is one checkpoint of the 4 KB state with the writes of its node. Prints tests/bench/costs.json.
"""

import argparse
import asyncio
import json
import os
import time
from pathlib import Path
from statistics import median
from typing import Any

from psycopg import AsyncConnection

from jobs.trim import trim
from saver import TierConfig, TieredSaver
from saver.archive import archive
from saver.connect import Tiers, connect
from saver.demote import demote
from saver.load import promote
from tests.bench.filling import fill
from tests.bench.memory import RAW, used_bytes, without_tokens
from worker.embedded import Embedded

TICKS = os.sysconf("SC_CLK_TCK")
_SIZES = "select sum(pg_total_relation_size(c)) from unnest(%s::regclass[]) as c"
_ROWS = """
select (select count(*) from checkpoints) + (select count(*) from checkpoint_blobs)
     + (select count(*) from checkpoint_writes)
"""
TABLES = ["checkpoints", "checkpoint_blobs", "checkpoint_writes", "tier_threads", "tier_labels"]


class Meter:
    """CPU microseconds of this process, of Redis and of Postgres, and bytes of the log of Postgres."""

    def __init__(self, tiers: Tiers, connection: AsyncConnection[Any]) -> None:
        self._tiers, self._connection = tiers, connection

    async def read(self) -> dict[str, float]:
        lines = (await self._tiers.hot.command("INFO", "cpu")).decode().splitlines()
        info = dict(line.split(":", 1) for line in lines if ":" in line)
        return {
            "own": time.process_time() * 1e6,
            "redis": (float(info["used_cpu_user"]) + float(info["used_cpu_sys"])) * 1e6,
            "postgres": await self._postgres(),
            "log_bytes": float(await self.ask("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")),
        }

    async def ask(self, query: str, *arguments: Any) -> Any:
        [value] = await (await self._connection.execute(query.encode(), arguments)).fetchone() or [None]
        return value

    async def _postgres(self) -> float:
        parent = (Path(await self.ask("show data_directory")) / "postmaster.pid").read_text().split()[0]
        return _children_ticks(parent) / TICKS * 1e6


def _children_ticks(parent: str) -> int:
    return sum(_ticks(stat, parent) for stat in Path("/proc").glob("[0-9]*/stat"))


def _ticks(stat: Path, parent: str) -> int:
    """CPU of a child of a process."""
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except OSError:  # it ended
        return 0
    return int(fields[11]) + int(fields[12]) if fields[1] == parent else 0


async def _costs(meter: Meter, what: Any, many: int) -> dict[str, float]:
    before = await meter.read()
    await what
    after = await meter.read()
    return {name: (after[name] - before[name]) / many for name in after}


async def _round(saver: TieredSaver, tiers: Tiers, meter: Meter, threads: int, checkpoints: int) -> dict[str, float]:
    ids: list[str] = []
    steps = threads * checkpoints
    sizes = float(await meter.ask(_SIZES, TABLES)), int(await meter.ask(_ROWS)), float(await meter.ask(RAW) or 0)

    async def write() -> None:
        ids.extend(await fill(saver, threads, checkpoints))

    async def copy() -> None:
        for first in range(0, threads, 50):
            await archive(tiers, ids[first : first + 50])

    async def leave() -> None:
        for thread_id in ids:
            await demote(tiers, thread_id)

    async def come() -> None:
        for thread_id in ids:
            await promote(tiers, thread_id)

    put = await _costs(meter, write(), steps)
    archived = await _costs(meter, copy(), steps)
    trimmed = await _costs(meter, trim(tiers, ids), threads)
    demoted = await _costs(meter, leave(), threads)
    promoted = await _costs(meter, come(), threads)
    rows = int(await meter.ask(_ROWS)) - sizes[1]
    return {
        "agent_us_per_step": put["own"],
        "redis_us_per_step": put["redis"] + archived["redis"],
        "worker_us_per_step": archived["own"],
        "postgres_us_per_step": archived["postgres"],
        "postgres_log_bytes_per_step": archived["log_bytes"],
        "postgres_bytes_per_step": (float(await meter.ask(_SIZES, TABLES)) - sizes[0]) / steps,
        "raw_bytes_per_step": (float(await meter.ask(RAW)) - sizes[2]) / steps,
        "postgres_rows_per_step": rows / steps,
        "worker_us_per_demotion": trimmed["own"] + demoted["own"],
        "worker_us_per_promotion": promoted["own"],
        "postgres_us_per_promotion": promoted["postgres"],
    }


async def _hot_bytes(saver: TieredSaver, tiers: Tiers, threads: int, checkpoints: int) -> float:
    """Memory of a thread in use, trimmed as the default says."""
    before = await used_bytes(tiers)
    ids = await fill(saver, threads, checkpoints)
    await without_tokens(tiers, ids)
    for first in range(0, threads, 50):
        await archive(tiers, ids[first : first + 50])
    await trim(tiers, ids)
    return (await used_bytes(tiers) - before) / threads


async def run(threads: int, checkpoints: int, rounds: int) -> dict[str, float]:
    with Embedded(durable=True) as servers:
        config = TierConfig(redis_url=servers.redis_url, postgres_url=servers.postgres_url)
        async with (
            TieredSaver(config) as saver,
            connect(config) as tiers,
            await AsyncConnection.connect(servers.postgres_url, autocommit=True) as connection,
        ):
            meter = Meter(tiers, connection)
            found = [await _round(saver, tiers, meter, threads, checkpoints) for _ in range(rounds + 1)]
            hot_bytes = await _hot_bytes(saver, tiers, threads, checkpoints)
    costs = {name: round(median(each[name] for each in found[1:]), 1) for name in found[0]}
    return {**costs, "hot_bytes_per_thread": round(hot_bytes, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-costs", description=__doc__)
    parser.add_argument("--threads", type=int, default=300)
    parser.add_argument("--checkpoints", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    costs = asyncio.run(run(chosen.threads, chosen.checkpoints, chosen.rounds))
    print(json.dumps(costs, indent=2))  # noqa: T201 - the result of a command


if __name__ == "__main__":
    main()
