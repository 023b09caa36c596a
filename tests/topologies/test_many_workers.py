"""Many workers on one queue: what is taken first, what waits for whom, and that nobody does the work of another."""

import asyncio
from collections.abc import Iterator
from functools import partial

import psycopg
import pytest
import redis
from psycopg import sql

from saver import TierConfig, TieredSaver
from saver.connect import Tiers
from saver.queue import job_id, queue_name
from tests.builders import Thread
from tests.fix_worker import StartWorker
from tests.movement.steps import in_cold, is_in
from tests.waiting import eventually, eventually_async, lasting
from worker.functions import Work
from worker.queue import open_queue
from worker.shares import Shares

in_time = partial(eventually_async, within_seconds=60)

HOUR_MS = 3_600_000
GATE = 7_305_001
CLOSE_GATE = f"""
create function wait_at_gate() returns trigger language plpgsql as
$$ begin perform pg_advisory_xact_lock_shared({GATE}); return null; end $$;
create trigger gate before insert on {{table}} for each statement execute function wait_at_gate();
"""


def in_line(config: TierConfig) -> list[str]:
    """The jobs of the queue in the order in which arq takes them."""
    with redis.Redis.from_url(config.redis_url.get_secret_value()) as client:
        names = [name.decode() for name in client.zrange(queue_name(config), 0, -1)]
    return [name.removeprefix(f"{config.key_prefix}:").split(":")[0] for name in names]


async def test_promotion_is_taken_before_a_backlog_of_all_else(
    config: TierConfig, tiers: Tiers, saver: TieredSaver, thread: Thread, start_worker: StartWorker
) -> None:
    await thread.put({"x": [1]})
    await saver.demote(thread.thread_id)
    work = Work(tiers, open_queue(config))
    await asyncio.to_thread(eventually, lambda: in_line(config))
    for name in await work.queue.zrange(queue_name(config), 0, -1):  # the hint of the put, which is for later
        await work.queue.delete(queue_name(config), b"arq:job:" + name)
    await work.ask("retain", 0)
    for number in range(tiers.keys.partitions):
        await work.ask("demote", number)
        await work.ask("archive", number)
    for name in await work.queue.zrange(queue_name(config), 0, -1):
        await work.queue.zincrby(queue_name(config), -HOUR_MS, name)  # they wait for an hour
    await work.queue.aclose()

    assert await thread.values() == {"x": [1]}
    eventually(lambda: "promote" in in_line(config))

    waiting = in_line(config)
    assert (waiting[0], waiting[-1]) == ("promote", "retain")
    worker = start_worker(worker_jobs="1", log_level="debug", demote_after="30m")
    await in_time(lambda: is_in(saver, thread, "hot"))
    begun = [line for line in worker.log.splitlines() if '"job started"' in line]
    assert ":promote:" in begun[0], worker.log


async def test_who_had_a_turn_of_promotion_stands_behind_those_who_wait(config: TierConfig, tiers: Tiers) -> None:
    work = Work(tiers, open_queue(config))
    await work.ask("archive", 1)
    await work.ask("promote", 1, later=True)
    await work.queue.aclose()

    assert in_line(config) == ["archive", "promote"]


@pytest.fixture
def gate(config: TierConfig, tiers: Tiers) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Inserts of checkpoints wait until this connection is closed, as on a Postgres that is slow to write."""
    url = config.postgres_url.get_secret_value()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"set search_path to {config.postgres_schema}".encode())
        connection.execute(CLOSE_GATE.format(table="checkpoints").encode())
        connection.execute("select pg_advisory_lock(%s)", (GATE,))
        yield connection


def held_at_gate(gate: psycopg.Connection[tuple[object, ...]]) -> int:
    query = "select count(*) from pg_locks where locktype = 'advisory' and objid = %s and not granted"
    [(count,)] = gate.execute(query, (GATE,)).fetchall()
    return int(str(count))


async def test_promotion_finds_room_while_postgres_is_slow_to_archive(
    config: TierConfig,
    tiers: Tiers,
    saver: TieredSaver,
    thread: Thread,
    start_worker: StartWorker,
    gate: psycopg.Connection[tuple[object, ...]],
) -> None:
    gate.execute("select pg_advisory_unlock(%s)", (GATE,))
    await thread.put({"x": [1]})
    await saver.demote(thread.thread_id)
    gate.execute("select pg_advisory_lock(%s)", (GATE,))
    others = [Thread(saver) for _ in range(40)]
    await asyncio.gather(*(other.put({"x": [2]}) for other in others))
    start_worker(worker_jobs="2", archive_after="400ms", demote_after="30m").ready()
    await asyncio.to_thread(eventually, lambda: held_at_gate(gate), within_seconds=20)
    await lasting(1.0)  # by now all archiving that there is room for has begun

    assert await thread.values() == {"x": [1]}
    await eventually_async(lambda: is_in(saver, thread, "hot"), within_seconds=20)

    assert held_at_gate(gate) == 1
    assert not await in_cold(tiers, others)
    gate.execute("select pg_advisory_unlock(%s)", (GATE,))
    await in_time(lambda: in_cold(tiers, others))  # what was put off meanwhile is done too


def test_jobs_that_nobody_takes_do_not_pile_up(config: TierConfig) -> None:
    day = range(86_400)

    assert len({job_id(config, "archive", 3, moment) for moment in day}) == 8
    assert len({job_id(config, "promote", None, moment / 4) for moment in day}) == 160


@pytest.mark.parametrize(("job", "other"), [("promote", "archive"), ("demote", "promote")])
def test_no_kind_of_work_takes_all_jobs_of_a_process(job: str, other: str) -> None:
    shares = Shares(8)
    begun = 0
    for number in range(8):
        if shares.has_room(job, number):
            shares.take(job)
            begun += 1

    assert begun == 6
    assert shares.has_room(other, 0)
    assert [shares.give_back(job) for _ in range(3)] == [(job, 6), (job, 7), None]


@pytest.mark.parametrize("count", [1, 2, 4, 8])
async def test_workers_share_the_partitions_and_do_nothing_twice(
    start_worker: StartWorker, tiers: Tiers, saver: TieredSaver, count: int
) -> None:
    few = {"postgres_min_size": "1", "postgres_max_size": "3"}
    threads = [Thread(saver) for _ in range(200)]
    for number in range(3):
        await asyncio.gather(*(thread.put({"x": [number]}) for thread in threads))

    workers = [start_worker(archive_after="400ms", demote_after="30m", **few) for _ in range(count)]
    await in_time(lambda: in_cold(tiers, threads))
    for worker in workers:
        await asyncio.to_thread(worker.ready)
    for thread in threads:  # the second half of the work, with all of them there
        await thread.put({"x": [3]})
    await in_time(lambda: in_cold(tiers, threads))
    await in_time(lambda: _is_clean(tiers))

    seen = [await asyncio.to_thread(worker.metrics) for worker in workers]
    total = {
        name: sum(metrics[f"tier_{name}_total"] for metrics in seen) for name in ("archived_rows", "contended_threads")
    }
    assert total["archived_rows"] == 200 * 4 * 2  # a checkpoint and its blob, each once
    # They meet now and then, and leave a thread to who came first; a job that meets another ends, it does not wait.
    assert total["contended_threads"] < total["archived_rows"]
    assert await _rows(tiers) == 200 * 4


async def _is_clean(tiers: Tiers) -> bool:
    """Nothing waits, and what was archived is acknowledged."""
    counts = [await tiers.hot.command("ZCARD", tiers.keys.dirty(number)) for number in range(tiers.keys.partitions)]
    return not any(counts)


async def _rows(tiers: Tiers) -> int:
    table = sql.Identifier(tiers.config.postgres_schema, "checkpoints")
    async with await psycopg.AsyncConnection.connect(tiers.config.postgres_url.get_secret_value()) as connection:
        [(count,)] = await (await connection.execute(sql.SQL("select count(*) from {}").format(table))).fetchall()
    return int(count)
