"""
`make bench-retention`: how fast old threads go, on tables of any size, against deleting them one by one.

The tables are filled by SQL: threads of small checkpoints, each with a blob and a write. In every round the threads
that were made first grow old, and retention finds and deletes them; the stock saver deletes the next ones one by one.
"""

import argparse
import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection

from jobs.retain import retain
from jobs.retention import Place
from saver import TierConfig
from saver.cold import ColdTier, T, Work
from saver.connect import Tiers, connect
from tests.bench.report import Cell, Results, machine, table
from worker.embedded import Embedded

# Checked once per large transaction, not after each 16 MB of log: filling is not what is measured.
SETTINGS = {"max_wal_size": "8GB", "shared_buffers": "512MB", "maintenance_work_mem": "512MB"}
CHUNK = 10_000
AGE = timedelta(days=30)
CELL: Cell = ("retain", "")
ALL = 3600.0

FILL = (
    """
insert into checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
select 'thread-' || lpad(t::text, 9, '0'), '', '1f0-' || lpad(c::text, 6, '0'), '1f0-' || lpad((c - 1)::text, 6, '0'),
       jsonb_build_object('v', 4, 'id', '1f0-' || lpad(c::text, 6, '0'), 'ts', '2020-01-01T00:00:00+00:00',
                          'channel_versions', jsonb_build_object('messages', lpad(c::text, 32, '0') || '.0')),
       '{"source": "loop", "step": 1, "parents": {}}'
  from generate_series(%(first)s::int, %(last)s::int) as t, generate_series(1, %(checkpoints)s::int) as c
""",
    """
insert into checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
select 'thread-' || lpad(t::text, 9, '0'), '', 'messages', lpad(c::text, 32, '0') || '.0', 'msgpack', '\\x00112233'
  from generate_series(%(first)s::int, %(last)s::int) as t, generate_series(1, %(checkpoints)s::int) as c
""",
    """
insert into checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, type, blob)
select 'thread-' || lpad(t::text, 9, '0'), '', '1f0-' || lpad(c::text, 6, '0'), 'task', 0, '', 'messages', 'msgpack',
       '\\x00112233'
  from generate_series(%(first)s::int, %(last)s::int) as t, generate_series(1, %(checkpoints)s::int) as c
""",
    """
insert into tier_threads (thread_id, incarnation, position, last_activity)
select 'thread-' || lpad(t::text, 9, '0'), 1, 1, now()
  from generate_series(%(first)s::int, %(last)s::int) as t
""",
)
GROW_OLD = """
update tier_threads
   set last_activity = now() - interval '1 year'
 where thread_id = any(select 'thread-' || lpad(t::text, 9, '0')
                         from generate_series(%(first)s::int, %(last)s::int) as t)
"""
LEFT = """
select (select count(*) from checkpoints where thread_id = any(%(ids)s))
     + (select count(*) from checkpoint_blobs where thread_id = any(%(ids)s))
     + (select count(*) from checkpoint_writes where thread_id = any(%(ids)s))
"""


class _Timed(ColdTier):
    """The cold tier, with the time of each transaction."""

    def __init__(self, config: TierConfig) -> None:
        super().__init__(config)
        self.seconds: list[float] = []

    async def transact(self, work: Work[T], *, timeout: float | None = None, is_bulk: bool = False) -> T:
        start = time.perf_counter()
        try:
            return await super().transact(work, timeout=timeout, is_bulk=is_bulk)
        finally:
            self.seconds.append(time.perf_counter() - start)


async def _fill(connection: AsyncConnection[Any], threads: int, checkpoints: int) -> None:
    await connection.execute("set synchronous_commit to off")
    for first in range(0, threads, CHUNK):
        for statement in FILL:
            where = {"first": first, "last": min(first + CHUNK, threads) - 1, "checkpoints": checkpoints}
            await connection.execute(statement.encode(), where)
    await connection.execute("set synchronous_commit to on")
    for name in ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "tier_threads"):
        await connection.execute(f"vacuum analyze {name}".encode())
    await connection.execute("checkpoint")


async def _adopt(tiers: Tiers) -> float:
    """Seconds to walk over all threads for those of the stock saver, of which there are none."""
    place: Place | None = Place()
    start = time.perf_counter()
    while place is not None and place.step == "adopt":
        place = (await retain(tiers, place, seconds=0.5)).place
    return time.perf_counter() - start


async def _round(
    tiers: Tiers, stock: AsyncPostgresSaver, connection: AsyncConnection[Any], ids: range, few: range, results: Results
) -> None:
    """Threads per second: `ids` by retention, `few` one by one."""
    await connection.execute(GROW_OLD.encode(), {"first": ids.start, "last": ids.stop - 1})
    start = time.perf_counter()
    done = await retain(tiers, Place("delete"), seconds=ALL)
    results.add("retain", CELL, done.deleted / (time.perf_counter() - start))
    names = [f"thread-{number:09}" for number in ids]
    [(left,)] = await (await connection.execute(LEFT.encode(), {"ids": names})).fetchall()
    assert done.deleted == len(ids)
    assert left == 0
    start = time.perf_counter()
    for number in few:
        await stock.adelete_thread(f"thread-{number:09}")
    results.add("stock", CELL, len(few) / (time.perf_counter() - start))
    start = time.perf_counter()
    assert not (await retain(tiers, Place("delete"), seconds=ALL)).deleted
    results.add("nothing", CELL, (time.perf_counter() - start) * 1000)


async def run(rows: int, checkpoints: int, rounds: int, due: int) -> str:
    threads, results = rows // checkpoints, Results()
    with Embedded(durable=True, postgres_settings=SETTINGS) as servers:
        config = TierConfig(redis_url=servers.redis_url, postgres_url=servers.postgres_url, retain_for=AGE)
        async with connect(config) as opened, AsyncPostgresSaver.from_conn_string(servers.postgres_url) as stock:
            cold = _Timed(config)
            await cold.open()
            tiers = replace(opened, cold=cold)
            async with await AsyncConnection.connect(servers.postgres_url, autocommit=True) as connection:
                start = time.perf_counter()
                await _fill(connection, threads, checkpoints)
                filled = time.perf_counter() - start
                few = max(due // 10, 1)
                for first in range(0, rounds * (due + few), due + few):
                    middle = first + due
                    await _round(tiers, stock, connection, range(first, middle), range(middle, middle + few), results)
            seconds = sorted(cold.seconds)
            adopting = await _adopt(tiers)
            await cold.close()
    rates = {name: sorted(results.values(name, CELL)) for name in ("retain", "stock")}
    lines = [
        [title, f"{rates[name][rounds // 2]:.0f} ({rates[name][0]:.0f} to {rates[name][-1]:.0f})"]
        for name, title in (("stock", "AsyncPostgresSaver.adelete_thread, one by one"), ("retain", "retention"))
    ]
    facts = [
        f"retention is {results.ratio('retain', 'stock', CELL):.1f} times as fast",
        f"longest transaction {seconds[-1] * 1000:.0f} ms, p99 {seconds[len(seconds) * 99 // 100] * 1000:.0f} ms",
        f"a run with nothing due {sorted(results.values('nothing', CELL))[rounds // 2]:.0f} ms",
        f"looking for threads of the stock saver, all {threads} known: {adopting:.1f} s",
        f"filling took {filled:.0f} s",
    ]
    what = f"{rows} checkpoints in {threads} threads, as many blobs and writes; {due} due, {rounds} rounds, {machine()}"
    return f"{what}\n\n{table(['', 'threads/s'], lines)}\n\n" + "\n".join(f"- {fact}" for fact in facts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-retention", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="10000000 takes a quarter of an hour and 12 GB")
    parser.add_argument("--checkpoints", type=int, default=20, help="of each thread")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--due", type=int, default=1000, help="threads that grow old in each round")
    chosen = parser.parse_args()
    print(asyncio.run(run(chosen.rows, chosen.checkpoints, chosen.rounds, chosen.due)))  # noqa: T201 - the result


if __name__ == "__main__":
    main()
