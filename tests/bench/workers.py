"""
`make bench-workers`: how many processes share the archiving, and what they do twice.

A backlog is written while no worker runs; then so many real workers start, and the time counts from the first row that
is archived to the last acknowledgement. Rows that are copied twice, and threads at which two workers meet, are
counted. Read the ratios: servers and workers share the cores of this machine.
"""

import argparse
import asyncio
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from saver import TierConfig, TieredSaver
from saver.connect import Tiers, connect
from tests.bench.filling import fill
from tests.bench.report import Cell, Results, machine, table
from tests.fix_worker import Worker, variables_of
from tests.waiting import eventually_async
from worker.embedded import Embedded

COUNTS = (1, 2, 4, 8)
CELL: Cell = ("workers", "")
FEW = {"archive_after": "1s", "demote_after": "30m", "postgres_min_size": "1", "postgres_max_size": "6"}
LIMIT_SECONDS = 300


async def dirty(tiers: Tiers) -> int:
    """Threads that wait to be archived."""
    keys = [tiers.keys.dirty(number) for number in range(tiers.keys.partitions)]
    return sum(await tiers.hot.commands([("ZCARD", key) for key in keys]))


async def one_round(
    tiers: Tiers, saver: TieredSaver, folder: Path, count: int, load: tuple[int, int]
) -> dict[str, float]:
    """Checkpoints per second of so many workers, and what was counted."""
    threads, checkpoints = load
    await fill(saver, threads, checkpoints)

    async def has_begun() -> bool:
        return await dirty(tiers) < threads

    async def is_over() -> bool:
        return await dirty(tiers) == 0

    with ExitStack() as stack:
        workers = [Worker(variables_of(tiers.config, **FEW), folder) for _ in range(count)]
        for worker in workers:
            worker.start()
            stack.callback(worker.kill)
        await eventually_async(has_begun, within_seconds=LIMIT_SECONDS)
        start = time.perf_counter()
        await eventually_async(is_over, within_seconds=LIMIT_SECONDS)
        seconds = time.perf_counter() - start
        for worker in workers:
            await asyncio.to_thread(worker.ready)
        seen = [await asyncio.to_thread(worker.metrics) for worker in workers]
        names = {"rows": "tier_archived_rows_total", "met": "tier_contended_threads_total"}
        counted = {name: sum(one[metric] for one in seen) for name, metric in names.items()}
        return {"rate": threads * checkpoints / seconds, **counted}


async def run(load: tuple[int, int], rounds: int) -> str:
    results = Results()
    counted: dict[int, list[dict[str, float]]] = {count: [] for count in COUNTS}
    with Embedded(durable=True) as servers, TemporaryDirectory() as folder:
        config = TierConfig(redis_url=servers.redis_url, postgres_url=servers.postgres_url)
        async with TieredSaver(config) as saver, connect(config) as tiers:
            for _ in range(rounds):
                for count in COUNTS:
                    counted[count].append(await one_round(tiers, saver, Path(folder), count, load))
                    results.add(str(count), CELL, counted[count][-1]["rate"])
                    await tiers.hot.command("FLUSHALL")
    threads, checkpoints = load
    written = threads * checkpoints * 4  # a checkpoint, its blob, and two writes
    rows = []
    for count in COUNTS:
        values = sorted(results.values(str(count), CELL))
        spread = f"{values[len(values) // 2]:.0f} ({values[0]:.0f} to {values[-1]:.0f})"
        copied = {one["rows"] for one in counted[count]}
        met = max(one["met"] for one in counted[count])
        ratio = results.ratio(str(count), "1", CELL)
        rows.append([str(count), spread, f"{ratio:.2f}", " ".join(f"{n:.0f}" for n in sorted(copied)), f"{met:.0f}"])
    head = ["workers", "checkpoints/s", "x one worker", "rows copied in a round", "most threads met"]
    what = f"{threads} threads x {checkpoints} checkpoints, {written} rows, {rounds} rounds, {machine()}"
    return f"{what}\n\n{table(head, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-workers", description=__doc__)
    parser.add_argument("--threads", type=int, default=1000)
    parser.add_argument("--checkpoints", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    print(asyncio.run(run((chosen.threads, chosen.checkpoints), chosen.rounds)))  # noqa: T201 - the result


if __name__ == "__main__":
    main()
