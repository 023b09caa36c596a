"""Retain on a large table, with a server that ends every statement after 250 ms, and others at work meanwhile."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr

from jobs.retain import Retained, retain
from saver import TierConfig, TieredSaver
from saver.config import environment_for
from saver.connect import Tiers, connect
from tests.builders import Thread
from tests.fix_worker import variables_of
from tests.loads import load
from tests.movement.steps import with_settings
from tests.waiting import eventually

EXPIRED, YOUNG = load(20_000, 4_000), load(2_000, 400)
VALUES = 30  # blobs of a thread
WHOLE = 1 + VALUES + 1  # rows of a thread
LONGEST_WAIT_SECONDS = 0.25
YEAR = timedelta(days=365)

FILL = """
insert into {schema}.checkpoints (thread_id, checkpoint_ns, checkpoint_id, checkpoint, metadata)
select thread_id, '', '1', jsonb_build_object('v', 4, 'id', '1', 'ts', moment, 'channel_values', '{{}}'::jsonb,
                                              'channel_versions', '{{}}'::jsonb), '{{}}'
  from {threads};
insert into {schema}.checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
select thread_id, '', 'x', number::text, 'msgpack', '\\xc0'
  from {threads} cross join generate_series(1, {values}) as number;
insert into {schema}.checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob)
select thread_id, '', '1', 'task', 0, 'x', 'msgpack', '\\xc0' from {threads};
insert into {schema}.tier_threads (thread_id, incarnation, position, last_activity, head)
select thread_id, 0, 0, moment, '1' from {threads};
analyze;
"""
THREADS = """
(select 'old-' || n as thread_id, now() - interval '2 years' as moment from generate_series(1, {expired}) as n
  union all
 select 'young-' || n, now() from generate_series(1, {young}) as n) as threads
"""
TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")


@pytest.fixture
def large(tiers: Tiers, postgres_url: str, config: TierConfig) -> TierConfig:
    """A configuration for a role whose statements end after 250 ms, on tables full of threads."""
    names = {
        "schema": sql.Identifier(config.postgres_schema),
        "values": sql.Literal(VALUES),
        "threads": sql.SQL(THREADS).format(expired=sql.Literal(EXPIRED), young=sql.Literal(YOUNG)),
    }
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL(FILL).format(**names))
    return config


async def test_all_expired_threads_go_in_small_steps_while_others_work(
    large: TierConfig, tiers: Tiers, saver: TieredSaver, postgres_url: str
) -> None:
    """RET-07."""
    hasty = large.model_copy(update={"postgres_url": SecretStr(f"{postgres_url}?options=-cstatement_timeout%3D250")})
    await asyncio.to_thread(kill_in_the_middle, large, postgres_url)
    assert sizes(large, postgres_url, "old") == {WHOLE}

    async with connect(hasty) as workers, watched(large, postgres_url) as waits, busy(saver) as calls:
        deleted = await retain_all(with_settings(workers, retain_for=YEAR))

    assert 0 < deleted < EXPIRED  # the one that was killed did some
    assert sizes(large, postgres_url, "old") == set()
    assert count_of(large, postgres_url, "young") == YOUNG
    assert sizes(large, postgres_url, "young") == {WHOLE}
    assert max(waits, default=0) <= LONGEST_WAIT_SECONDS
    assert calls[0] > 0


async def retain_all(tiers: Tiers) -> int:
    """Cycle after cycle, as a worker does."""
    done, deleted = Retained(), 0
    while done.place is not None:
        done = await retain(tiers, done.place, seconds=2)
        deleted += done.deleted
        assert not done.is_elsewhere
        assert not done.too_slow
    return deleted


def kill_in_the_middle(config: TierConfig, postgres_url: str) -> None:
    """kill -9 for a process that has deleted some threads and not all."""
    command = [str(Path(sys.executable).with_name("tier")), "retain", "--now"]
    environment = environment_for(variables_of(config, retain_for="365d"))
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        eventually(lambda: count_of(config, postgres_url, "old") < EXPIRED, within_seconds=30)
        process.kill()
    assert count_of(config, postgres_url, "old") > 0


@asynccontextmanager
async def busy(saver: TieredSaver) -> AsyncIterator[list[int]]:
    """Somebody who writes, archives and reads back meanwhile; how often it was done."""
    calls, is_over = [0], asyncio.Event()

    async def work() -> None:
        while not is_over.is_set():
            thread = Thread(saver)
            await thread.put({"x": [calls[0]]})
            await saver.demote(thread.thread_id)
            assert await thread.values() == {"x": [calls[0]]}
            calls[0] += 1

    task = asyncio.create_task(work())
    yield calls
    is_over.set()
    await task


@asynccontextmanager
async def watched(config: TierConfig, postgres_url: str) -> AsyncIterator[list[float]]:
    """How long calls waited for locks, in seconds, seen from time to time."""
    waits: list[float] = []
    query = "select extract(epoch from max(clock_timestamp() - waitstart))::float from pg_locks where not granted"

    async def watch() -> None:
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
            while True:
                [(seconds,)] = await (await connection.execute(query)).fetchall()
                waits.append(seconds or 0.0)

    task = asyncio.create_task(watch())
    yield waits
    task.cancel()
    await asyncio.wait({task})


def sizes(config: TierConfig, postgres_url: str, prefix: str) -> set[int]:
    """How many rows threads have: of a whole one all, of a deleted one none."""
    query = "select distinct count(*)::int from ({}) as one where thread_id like {} group by thread_id"
    return {size for (size,) in _asked(config, postgres_url, prefix, query)}


def count_of(config: TierConfig, postgres_url: str, prefix: str) -> int:
    """How many threads have rows."""
    query = "select count(distinct thread_id)::int from ({}) as one where thread_id like {}"
    [(count,)] = _asked(config, postgres_url, prefix, query)
    return count


def _asked(config: TierConfig, postgres_url: str, prefix: str, query: LiteralString) -> list[tuple[int]]:
    rows = sql.SQL(" union all ").join(
        sql.SQL("select thread_id from {}").format(sql.Identifier(config.postgres_schema, table)) for table in TABLES
    )
    with psycopg.connect(postgres_url) as connection:
        found: list[tuple[int]] = connection.execute(sql.SQL(query).format(rows, sql.Literal(f"{prefix}-%"))).fetchall()
    return found
