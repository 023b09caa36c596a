"""
`make bench-growth`: does a put cost more when many threads are hot, and does a sweep that finds nothing?

Two servers side by side, one with a thousand hot threads and one with many, and their rounds interleaved.
"""

import argparse
import asyncio
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from statistics import median
from uuid import uuid4

from saver import TierConfig, TieredSaver, hot
from saver.codec import Codec
from saver.connect import Tiers, connect
from saver.hot import WHOLE
from saver.pack import unpack_blobs, unpack_checkpoint
from saver.rows import Rows
from tests.bench.load import Thread
from tests.bench.measures import aput
from tests.bench.report import Results, machine, table
from worker.embedded import Embedded

FEW = 1000
BATCH = 2000
CALLS = 100
PUT, SWEEP = ("put", ""), ("sweep", "")
LONG_MS = 10 * 24 * 3600 * 1000


def one_checkpoint(saver: TieredSaver) -> Rows:
    """The rows of a thread with one small checkpoint."""
    arguments = Thread(saver, 1).next()
    encoded = Codec(saver.serde, saver.migrations).encode_checkpoint(*arguments)
    row = unpack_checkpoint("", encoded.address.checkpoint_id, encoded.row).row
    return Rows([row], list(unpack_blobs("", encoded.blobs).values()))


async def fill(tiers: Tiers, rows: Rows, threads: int) -> None:
    """Hot threads by the scripts that load them, without asking Postgres about each."""
    for first in range(0, threads, BATCH):
        ids = [str(uuid4()) for _ in range(min(BATCH, threads - first))]
        keys = {id_: tiers.keys.thread(id_) for id_ in ids}
        tokens = await tiers.hot.call_many([hot.load(keys[id_], id_, "") for id_ in ids])
        await tiers.hot.call_many(
            [
                hot.hydrate(keys[id_], id_, reply[1].decode(), 1, "", WHOLE, [], rows)
                for id_, reply in zip(ids, tokens, strict=True)
            ]
        )


async def sweep(tiers: Tiers) -> float:
    """Milliseconds to ask every partition for dirty, idle and wanted threads that are due, when none is."""
    names = [
        index(part)
        for part in range(tiers.keys.partitions)
        for index in (tiers.keys.dirty, tiers.keys.idle, tiers.keys.wanted)
    ]
    start = time.perf_counter()
    due = await tiers.hot.call_many([hot.due(name, LONG_MS, 500) for name in names])
    assert not any(due)
    return (time.perf_counter() - start) * 1000


async def opened(stack: AsyncExitStack) -> tuple[TieredSaver, Tiers]:
    """A saver and both tiers, on servers of their own."""
    servers = stack.enter_context(Embedded())
    # Filling sends many scripts at once.
    config = TierConfig(
        redis_url=servers.redis_url, postgres_url=servers.postgres_url, redis_timeout=timedelta(minutes=1)
    )
    saver = await stack.enter_async_context(TieredSaver(config))
    return saver, await stack.enter_async_context(connect(config))


async def run(threads: int, rounds: int) -> str:
    results = Results()
    async with AsyncExitStack() as stack:
        sides: dict[str, tuple[TieredSaver, Tiers]] = {}
        for name, many in (("few", FEW), ("many", threads)):
            saver, tiers = await opened(stack)
            await fill(tiers, one_checkpoint(saver), many)
            sides[name] = saver, tiers
        for _ in range(rounds):
            for name, (saver, tiers) in sides.items():
                results.add(name, PUT, median(await aput(saver, 10, CALLS)))
                results.add(name, SWEEP, await sweep(tiers))
    rows = [
        [f"{many} hot threads", *(f"{median(results.values(name, cell)):.2f}" for cell in (PUT, SWEEP))]
        for name, many in (("few", FEW), ("many", threads))
    ]
    rows.append(["ratio", *(f"{results.ratio('many', 'few', cell) or 0:.2f}" for cell in (PUT, SWEEP))])
    head = ["p50, ms", "aput, 4 KB", "sweep of all partitions, nothing due"]
    return f"{rounds} rounds, {machine()}\n\n{table(head, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-growth", description=__doc__)
    parser.add_argument("--threads", type=int, default=100_000, help="1000000 takes some minutes and 2 GB")
    parser.add_argument("--rounds", type=int, default=9)
    chosen = parser.parse_args()
    print(asyncio.run(run(chosen.threads, chosen.rounds)))  # noqa: T201 - the result of a command


if __name__ == "__main__":
    main()
