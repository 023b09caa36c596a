"""CFG-07: a thread can be archived again and again by several workers; nothing is swallowed, and nothing runs twice."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, LiteralString

import psycopg
import pytest
import redis
from psycopg import sql

from saver import TierConfig, TieredSaver
from saver.connect import Tiers
from tests.builders import Thread
from tests.fix_worker import StartWorker, Worker, has, sweeps
from tests.movement.steps import in_cold, is_in
from tests.waiting import eventually_async

in_time = partial(eventually_async, within_seconds=60)
Query = Callable[..., list[tuple[Any, ...]]]

ROUNDS, SCAN_SECONDS, IDLE_SECONDS = 5, 1, 3
BUSY_MACHINE_SECONDS = 5
QUICK = {"archive_after": "500ms", "demote_after": f"{IDLE_SECONDS}s"}
NOTE_ARCHIVES: LiteralString = """
create table archives (thread_id text, incarnation bigint, position bigint);
create function note_archive() returns trigger language plpgsql as $$
begin
  insert into archives values (new.thread_id, new.incarnation, new.position);
  return null;
end $$;
create trigger note after insert or update of position on tier_threads for each row execute function note_archive();
"""
NOTE_DELETIONS: LiteralString = """
create table deletions (transaction xid8, moment timestamptz);
create function note_deletion() returns trigger language plpgsql as $$
begin
  insert into deletions values (pg_current_xact_id(), clock_timestamp());
  perform pg_sleep(0.1);
  insert into deletions values (pg_current_xact_id(), clock_timestamp());
  return null;
end $$;
create trigger note before delete on checkpoints for each statement execute function note_deletion();
"""
FAIL_ONCE: LiteralString = """
create sequence attempts;
create function fail_once() returns trigger language plpgsql as $$
begin
  if nextval('attempts') = 1 then
    raise exception 'no space left' using errcode = '53100';
  end if;
  return new;
end $$;
create trigger fail before insert on checkpoints for each row execute function fail_once();
"""


@pytest.fixture
def query(config: TierConfig, tiers: Tiers) -> Query:
    """Runs a statement in the schema of the test."""

    def run(statement: LiteralString, *parameters: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(config.postgres_url.get_secret_value(), autocommit=True) as connection:
            connection.execute(sql.SQL("set search_path to {}").format(sql.Identifier(config.postgres_schema)))
            # Functions find their tables in the schema too, whoever calls them.
            text = statement.replace("language plpgsql", "language plpgsql set search_path from current")
            found = connection.execute(sql.SQL(text), parameters or None)
            return found.fetchall() if found.description else []

    return run


@pytest.fixture
def workers(start_worker: StartWorker) -> Callable[..., list[Worker]]:
    """Three of them."""
    return lambda **more: [worker.ready() for worker in [start_worker(**(QUICK | more)) for _ in range(3)]]


@pytest.mark.slow
async def test_each_round_of_a_thread_is_archived_once_and_in_time(
    workers: Callable[..., list[Worker]], saver: TieredSaver, thread: Thread, query: Query
) -> None:
    query(NOTE_ARCHIVES)
    running = workers()
    waited = []

    for number in range(ROUNDS):
        await thread.put({"x": [number]})
        began = time.monotonic()
        await in_time(lambda: is_in(saver, thread, "cold"))
        waited.append(time.monotonic() - began)

    archives = query("select incarnation, position from archives where thread_id = %s", thread.thread_id)
    assert len(archives) == len(set(archives)) == ROUNDS
    assert max(waited) < IDLE_SECONDS + 2 * SCAN_SECONDS + BUSY_MACHINE_SECONDS
    for move in ("archived", "demoted"):
        assert sum(worker.metrics()[f"tier_{move}_threads_total"] for worker in running) == ROUNDS


@pytest.mark.slow
async def test_two_runs_of_retention_never_overlap(
    workers: Callable[..., list[Worker]], saver: TieredSaver, query: Query
) -> None:
    query(NOTE_DELETIONS)
    threads = [Thread(saver) for _ in range(40)]
    for thread in threads:
        await thread.put({"x": [1]})

    workers(retain_for="3500ms", batch_threads="5")

    await in_time(lambda: is_in(saver, threads[0], None))
    await in_time(lambda: are_gone(query))
    runs = query("select min(moment), max(moment) from deletions group by transaction order by 1")
    assert len(runs) > 1
    assert all(end <= start for (_, end), (start, _) in pairwise(runs))


async def test_a_scan_that_takes_too_long_is_followed_by_the_next(
    workers: Callable[..., list[Worker]], tiers: Tiers, thread: Thread, redis_url: str
) -> None:
    running = workers()
    await sweeps(running[0], 1)
    with redis.Redis.from_url(redis_url) as client:
        client.client_pause(1500)  # milliseconds; longer than the scan's interval, shorter than TIER_REDIS_TIMEOUT

    await thread.put({"x": [1]})

    await in_time(lambda: in_cold(tiers, [thread]))
    await asyncio.gather(*(sweeps(worker, 2) for worker in running[:1]))


async def test_an_archive_that_failed_once_is_tried_again(
    workers: Callable[..., list[Worker]], tiers: Tiers, thread: Thread, query: Query
) -> None:
    query(FAIL_ONCE)
    running = workers()
    await thread.put({"x": [1]})

    await in_time(lambda: in_cold(tiers, [thread]))

    failures = [f"tier_job_failures_total{{job={job},reason=cold}}" for job in ("archive", "demote")]
    assert sum(worker.metrics()[name] for worker in running for name in failures) == 1
    assert not any([await has(worker, "tier_quarantined_threads", 1) for worker in running])


async def are_gone(query: Query) -> bool:
    return query("select 1 from checkpoints limit 1") == []
