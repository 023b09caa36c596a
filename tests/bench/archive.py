"""
`make bench-archive`: how fast one process archives, on a Postgres that syncs to disk.

Against the loop anyone would write (AsyncPostgresSaver.aput and aput_writes), and against COPY of the same rows, ready
made, into the stock tables: the most that Postgres takes from one connection. Conflicts are rows that are there
already, as after a crash between commit and acknowledgement.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from typing import Any

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection, sql

from saver import TierConfig, TieredSaver
from saver.archive import archive
from saver.connect import Tiers, connect
from tests.bench.filling import fill, grow
from tests.bench.report import Cell, Results, machine, table
from worker.embedded import Embedded

TABLES = {
    "checkpoint_blobs": "thread_id checkpoint_ns channel version type blob",
    "checkpoint_writes": "thread_id checkpoint_ns checkpoint_id task_id idx task_path channel type blob",
    "checkpoints": "thread_id checkpoint_ns checkpoint_id parent_checkpoint_id checkpoint metadata",
}
JSON = ("checkpoint", "metadata")
TYPES = {"idx": "int4", "blob": "bytea", "checkpoint": "bytea", "metadata": "bytea"}
CELL: Cell = ("archive", "")
TITLES = {
    "stock": "loop of AsyncPostgresSaver",
    "new": "archive",
    "two": "archive, two batches of half the size at once, as a worker does",
    "conflicts": "archive, every row there already",
    "copy": "binary COPY of the same rows",
}

Records = dict[str, list[tuple[Any, ...]]]


class _StoppedError(Exception):
    """The archiver was stopped between its commit and its acknowledgement."""


async def _stop(at: str) -> None:
    if at == "archive: committed":
        raise _StoppedError


async def _archive(tiers: Tiers, ids: Sequence[str], at_once: int = 1) -> float:
    size = tiers.config.batch_threads // at_once
    start = time.perf_counter()
    for first in range(0, len(ids), size * at_once):
        parts = [ids[at : at + size] for at in range(first, min(first + size * at_once, len(ids)), size)]
        done = await asyncio.gather(*(archive(tiers, part) for part in parts))
        assert not any(one.partial for one in done)
    return time.perf_counter() - start


async def _conflicts(tiers: Tiers, ids: Sequence[str]) -> float:
    size = tiers.config.batch_threads
    go_on, tiers.pause = tiers.pause, _stop
    try:
        for first in range(0, len(ids), size):
            try:
                await archive(tiers, ids[first : first + size])
            except _StoppedError:
                continue
    finally:
        tiers.pause = go_on
    return await _archive(tiers, ids)


def _columns(names: str) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names.split()))


async def _records(connection: AsyncConnection[Any], ids: Sequence[str]) -> Records:
    """The rows as COPY wants them: the binary form of JSONB is a version byte and the text."""
    found: Records = {}
    for name, columns in TABLES.items():
        texts = [f"convert_to(chr(1) || {c}::text, 'UTF8')" if c in JSON else c for c in columns.split()]
        query = f"select {', '.join(texts)} from public.{name} where thread_id = any(%s)".encode()
        found[name] = await (await connection.execute(query, [list(ids)], binary=True)).fetchall()
    return found


async def _copy(connection: AsyncConnection[Any], parts: Sequence[Records]) -> float:
    start = time.perf_counter()
    for records in parts:
        async with connection.transaction(), connection.cursor() as cursor:
            for name, columns in TABLES.items():
                query = sql.SQL("copy floor.{} ({}) from stdin (format binary)").format(
                    sql.Identifier(name), _columns(columns)
                )
                async with cursor.copy(query) as copy:
                    copy.set_types([TYPES.get(column, "text") for column in columns.split()])
                    for record in records[name]:
                        await copy.write_row(record)
    return time.perf_counter() - start


async def _empty(connection: AsyncConnection[Any]) -> None:
    for schema in ("public", "floor"):
        for name in TABLES:
            await connection.execute(sql.SQL("truncate {}.{}").format(sql.Identifier(schema), sql.Identifier(name)))
    await connection.execute("checkpoint")


async def _round(tiers: Tiers, saver: TieredSaver, url: str, threads: int, checkpoints: int, results: Results) -> None:
    """Checkpoints per second of all of them."""
    many = threads * checkpoints
    size = tiers.config.batch_threads
    few = max(threads // 20, 1)
    ids = await fill(saver, threads, checkpoints)
    thirds = await fill(saver, threads, checkpoints)
    others = await fill(saver, threads, checkpoints)
    async with await AsyncConnection.connect(url, autocommit=True) as connection:
        await _empty(connection)
        results.add("new", CELL, many / await _archive(tiers, ids))
        parts = [await _records(connection, ids[first : first + size]) for first in range(0, threads, size)]
        await _empty(connection)
        results.add("copy", CELL, many / await _copy(connection, parts))
        await _empty(connection)
        results.add("two", CELL, many / await _archive(tiers, thirds, at_once=2))
        await _empty(connection)
        results.add("conflicts", CELL, many / await _conflicts(tiers, others))
        async with AsyncPostgresSaver.from_conn_string(url) as stock:
            start = time.perf_counter()
            for _ in range(few):
                await grow(stock, checkpoints)
            results.add("stock", CELL, few * checkpoints / (time.perf_counter() - start))
    for thread_id in [*ids, *thirds, *others]:
        await tiers.hot.command("UNLINK", tiers.keys.thread(thread_id).thread)


async def run(threads: int, checkpoints: int, rounds: int) -> str:
    results = Results()
    with Embedded(durable=True) as servers:
        where = {"redis_url": servers.redis_url, "postgres_url": servers.postgres_url}
        async with await AsyncConnection.connect(servers.postgres_url, autocommit=True) as connection:
            await connection.execute("create schema floor")
        async with connect(TierConfig(**where, postgres_schema="floor")):
            """Makes the stock tables a second time."""
        config = TierConfig(**where)
        async with TieredSaver(config) as saver, connect(config) as tiers:
            for _ in range(rounds):
                await _round(tiers, saver, servers.postgres_url, threads, checkpoints, results)
    rows = []
    for name, title in TITLES.items():
        values = sorted(results.values(name, CELL))
        against = [results.ratio(name, other, CELL) for other in ("stock", "copy", "new")]
        spread = f"{values[len(values) // 2]:.0f} ({values[0]:.0f} to {values[-1]:.0f})"
        rows.append([title, spread, *(f"{ratio:.2f}" for ratio in against if ratio)])
    head = ["", "checkpoints/s", "x stock loop", "x COPY", "x archive"]
    return f"{threads} threads x {checkpoints} checkpoints, {rounds} rounds, {machine()}\n\n{table(head, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-archive", description=__doc__)
    parser.add_argument("--threads", type=int, default=200)
    parser.add_argument("--checkpoints", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    print(asyncio.run(run(chosen.threads, chosen.checkpoints, chosen.rounds)))  # noqa: T201 - the result of a command


if __name__ == "__main__":
    main()
