"""
`make bench-cold`: threads that rest in Postgres: how fast they are read, and how soon they are hot again.

Read against AsyncPostgresSaver on the same rows; ten at once against one after the other, with a network that takes
20 ms; and, with a worker, from the first access until Redis answers.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from saver import TierConfig, TieredSaver
from tests.bench.filling import fill
from tests.bench.report import Cell, Results, machine, table
from tests.fix_proxy import Proxy
from tests.fix_worker import Worker
from worker.embedded import Embedded

LATENCY_MS = 20
AT_ONCE = 10
CHECKPOINTS = 20
READ, TOGETHER = ("read", ""), ("together", "")
PAUSE_SECONDS = 0.05  # between two threads that come back
LOOK_SECONDS = 0.002
MOST_SECONDS = 30.0

Saver = BaseCheckpointSaver[Any]


async def _read(saver: Saver, thread_id: str) -> None:
    assert await saver.aget_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})


async def _timed(work: Awaitable[Any]) -> float:
    start = time.perf_counter()
    await work
    return (time.perf_counter() - start) * 1000


async def _one_by_one(saver: Saver, ids: Sequence[str]) -> None:
    for thread_id in ids:
        await _read(saver, thread_id)


async def _all_at_once(saver: Saver, ids: Sequence[str]) -> None:
    await asyncio.gather(*(_read(saver, thread_id) for thread_id in ids))


async def _reading(config: TierConfig, ids: Sequence[str], rounds: int, results: Results) -> None:
    """Milliseconds for a thread, ours and that of the stock saver, in turns."""
    async with (
        TieredSaver(config) as ours,
        AsyncPostgresSaver.from_conn_string(config.postgres_url.get_secret_value()) as stock,
    ):
        savers: dict[str, Saver] = {"stock": stock, "tiered": ours}
        for saver in savers.values():
            await _one_by_one(saver, ids[:AT_ONCE])
        for _ in range(rounds):
            for name, saver in savers.items():
                results.add(name, READ, median([await _timed(_read(saver, thread_id)) for thread_id in ids]))


async def _far_away(config: TierConfig, ids: Sequence[str], rounds: int, results: Results) -> None:
    """Milliseconds for ten threads behind a slow network."""
    place = urlsplit(config.postgres_url.get_secret_value())
    with Proxy(str(place.hostname), int(place.port or 0)) as proxy:
        proxy.reply_delay_ms = LATENCY_MS
        far = TierConfig(
            redis_url=config.redis_url.get_secret_value(),
            postgres_url=proxy.url(place.geturl()),
            postgres_min_size=AT_ONCE,
        )
        async with TieredSaver(far) as saver:
            await _all_at_once(saver, ids[:AT_ONCE])
            for _ in range(rounds):
                results.add("apart", TOGETHER, await _timed(_one_by_one(saver, ids[:AT_ONCE])))
                results.add("together", TOGETHER, await _timed(_all_at_once(saver, ids[:AT_ONCE])))


async def _until_hot(saver: TieredSaver, thread_id: str) -> None:
    await _read(saver, thread_id)
    async with asyncio.timeout(MOST_SECONDS):
        while await saver.tier_of(thread_id) != "hot":  # noqa: ASYNC110 - Redis has no event for it
            await asyncio.sleep(LOOK_SECONDS)


async def _coming_back(config: TierConfig, ids: Sequence[str]) -> list[float]:
    """Milliseconds from the first access of a thread until it is hot, of each: nobody read them before."""
    variables = {
        "TIER_REDIS_URL": config.redis_url.get_secret_value(),
        "TIER_POSTGRES_URL": config.postgres_url.get_secret_value(),
    }
    took = []
    with TemporaryDirectory() as directory:
        worker = Worker(variables, Path(directory))
        worker.start()
        try:
            worker.ready()
            async with TieredSaver(config) as saver:
                await _read(saver, ids[0])  # the first hint opens a connection
                for thread_id in ids[1:]:
                    await asyncio.sleep(PAUSE_SECONDS)
                    took.append(await _timed(_until_hot(saver, thread_id)))
        finally:
            worker.stop()
    return sorted(took)


async def run(threads: int, rounds: int) -> str:
    results = Results()
    with Embedded() as servers:
        config = TierConfig(redis_url=servers.redis_url, postgres_url=servers.postgres_url)
        async with TieredSaver(config) as saver:
            ids = await fill(saver, 2 * threads, CHECKPOINTS)
            for thread_id in ids:
                assert await saver.demote(thread_id)
        back = await _coming_back(config, ids[:threads])
        await _reading(config, ids[threads:], rounds, results)
        await _far_away(config, ids[threads:], rounds, results)
    rows = [
        ["aget_tuple latest", "AsyncPostgresSaver", *_cells(results, "stock", "stock", READ)],
        ["", "cold thread", *_cells(results, "tiered", "stock", READ)],
        [f"{AT_ONCE} threads, {LATENCY_MS} ms", "one after the other", *_cells(results, "apart", "together", TOGETHER)],
        ["", "at once", *_cells(results, "together", "together", TOGETHER)],
        ["hot again", "p50", f"{median(back):.0f}", ""],
        ["", "p95", f"{back[len(back) * 95 // 100]:.0f}", ""],
    ]
    what = f"{threads} archived threads x {CHECKPOINTS} checkpoints of the 4 KB state, {rounds} rounds, {machine()}"
    return f"{what}\n\n{table(['', '', 'ms', 'ratio'], rows)}"


def _cells(results: Results, name: str, other: str, cell: Cell) -> list[str]:
    values = sorted(results.values(name, cell))
    spread = f"{values[len(values) // 2]:.2f} ({values[0]:.2f} to {values[-1]:.2f})"
    return [spread, f"{results.ratio(name, other, cell) or 0:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-cold", description=__doc__)
    parser.add_argument("--threads", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=9)
    chosen = parser.parse_args()
    print(asyncio.run(run(chosen.threads, chosen.rounds)))  # noqa: T201 - the result of a command


if __name__ == "__main__":
    main()
