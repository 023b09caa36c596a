"""
`make bench-memory`: what a thread costs in Redis, untrimmed and trimmed to its newest checkpoint.

Raw is the size of its rows in their stock form: ids, JSON and values, without any overhead of a database.
"""

import argparse
import asyncio

from psycopg import AsyncConnection

from saver import TierConfig, TieredSaver, hot
from saver.archive import archive
from saver.connect import Tiers, connect
from tests.bench.filling import fill
from tests.bench.report import machine, table
from worker.embedded import Embedded

RAW = """
select (select sum(octet_length(thread_id || checkpoint_ns || checkpoint_id || coalesce(parent_checkpoint_id, ''))
                   + octet_length(checkpoint::text) + octet_length(metadata::text)) from checkpoints)
     + (select sum(octet_length(thread_id || checkpoint_ns || channel || version || type) + octet_length(blob))
          from checkpoint_blobs)
     + (select sum(octet_length(thread_id || checkpoint_ns || checkpoint_id || task_id || task_path || channel || type)
                   + 4 + octet_length(blob)) from checkpoint_writes)
"""


async def used_bytes(tiers: Tiers) -> int:
    """Bytes of data: without the buffers of connections."""
    await tiers.hot.command("MEMORY", "PURGE")
    lines = (await tiers.hot.command("INFO", "memory")).decode().splitlines()
    info = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(info["used_memory"]) - int(info["mem_clients_normal"])


async def without_tokens(tiers: Tiers, ids: list[str]) -> None:
    """Wait until the load tokens of new threads are gone; they live for some seconds."""
    tokens = [tiers.keys.thread(thread_id).token for thread_id in ids]
    while await tiers.hot.command("EXISTS", *tokens):  # noqa: ASYNC110 - Redis has no event for it
        await asyncio.sleep(0.5)


async def run(threads: int, checkpoints: int) -> str:
    with Embedded() as servers:
        config = TierConfig(redis_url=servers.redis_url, postgres_url=servers.postgres_url)
        async with TieredSaver(config) as saver, connect(config) as tiers:
            await fill(saver, 2, 1)
            before = await used_bytes(tiers)
            ids = await fill(saver, threads, checkpoints)
            await without_tokens(tiers, ids)
            untrimmed = (await used_bytes(tiers) - before) / threads
            for first in range(0, threads, config.batch_threads):
                await archive(tiers, ids[first : first + config.batch_threads])
            await tiers.hot.call_many([hot.trim(tiers.keys.thread(thread_id), thread_id, 1) for thread_id in ids])
            trimmed = (await used_bytes(tiers) - before) / threads
        async with await AsyncConnection.connect(servers.postgres_url) as connection:
            [total] = await (await connection.execute(RAW)).fetchone() or [0]
            raw = float(total) / threads
    rows = [
        [name, f"{size / 1000:.1f} KB", f"{size / raw:.3f}"]
        for name, size in (("raw rows", raw), ("untrimmed", untrimmed), ("trimmed to one", trimmed))
    ]
    what = f"{threads} threads x {checkpoints} checkpoints of the 4 KB state, {machine()}"
    return f"{what}\n\n{table(['per thread', 'Redis', 'of raw'], rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-memory", description=__doc__)
    parser.add_argument("--threads", type=int, default=1000)
    parser.add_argument("--checkpoints", type=int, default=20)
    chosen = parser.parse_args()
    print(asyncio.run(run(chosen.threads, chosen.checkpoints)))  # noqa: T201 - the result of a command


if __name__ == "__main__":
    main()
