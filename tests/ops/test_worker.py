"""The whole life of threads under real worker processes, with durations of tenths of seconds."""

import asyncio
import json
from functools import partial

import psycopg
from psycopg import sql

from saver import TierConfig, TieredSaver
from saver.connect import Tiers
from saver.survey import cold_threads
from tests.builders import Thread
from tests.fix_worker import StartWorker, has, sweeps
from tests.movement.steps import cold_ids, in_cold, is_in
from tests.waiting import eventually_async

in_time = partial(eventually_async, within_seconds=60)  # processes start and stop, on a busy machine too

NEVER = {"archive_after": "1h", "demote_after": "2h"}
SHORT = {"archive_after": "200ms", "demote_after": "1s"}


async def test_threads_are_archived_then_demoted_then_promoted(
    start_worker: StartWorker, tiers: Tiers, saver: TieredSaver, thread: Thread
) -> None:
    worker = start_worker(**SHORT).ready()
    ids = [await thread.put({"x": [number]}) for number in range(3)]

    await in_time(lambda: in_cold(tiers, [thread]))
    await in_time(lambda: is_in(saver, thread, "cold"))
    assert await thread.ids() == ids[::-1]
    assert await thread.values() == {"x": [2]}
    await in_time(lambda: is_in(saver, thread, "hot"))

    for move in ("archived", "demoted", "promoted"):
        await in_time(partial(has, worker, f"tier_{move}_threads_total", 1))


async def test_each_duration_decides_what_happens(
    start_worker: StartWorker, tiers: Tiers, saver: TieredSaver, thread: Thread
) -> None:
    await thread.put({"x": [1]})

    worker = start_worker(**NEVER).ready()
    await sweeps(worker, 2)
    assert not await in_cold(tiers, [thread])
    worker.kill()

    worker = start_worker(archive_after="200ms", demote_after="2h").ready()
    await in_time(lambda: in_cold(tiers, [thread]))
    await sweeps(worker, 2)
    assert await saver.tier_of(thread.thread_id) == "hot"
    worker.kill()

    worker = start_worker(**SHORT).ready()
    await in_time(lambda: is_in(saver, thread, "cold"))
    await sweeps(worker, 2)
    assert await in_cold(tiers, [thread])
    worker.kill()

    worker = start_worker(**SHORT, retain_for="500ms").ready()
    await in_time(lambda: is_in(saver, thread, None))
    await in_time(lambda: has(worker, "tier_retained_threads_total{action=deleted}", 1))
    assert await thread.latest() is None


async def test_killed_worker_loses_and_doubles_nothing(
    start_worker: StartWorker, tiers: Tiers, saver: TieredSaver, postgres_url: str
) -> None:
    threads = [Thread(saver) for _ in range(60)]
    await asyncio.gather(*(fill(thread) for thread in threads))
    slow_down(postgres_url, tiers)

    for least in (5, 20, 35):
        worker = start_worker(archive_after="200ms", batch_threads="1")
        await in_time(partial(is_underway, tiers, least))
        worker.kill()
        assert await is_underway(tiers, least, most=59)
    start_worker(archive_after="200ms")

    await in_time(lambda: in_cold(tiers, threads))
    for thread in threads:
        ids = await thread.ids()
        assert len(ids) == 3
        assert await cold_ids(tiers, thread) == ids
        found = await thread.latest()
        assert found is not None
        assert found.pending_writes == [("task", "x", [9])]


async def test_rolling_restarts_give_no_job_up(start_worker: StartWorker, tiers: Tiers, saver: TieredSaver) -> None:
    threads = [Thread(saver) for _ in range(20)]
    for _ in range(5):
        worker = start_worker(**NEVER | {"archive_after": "200ms"}, batch_threads="2").ready()
        await asyncio.gather(*(thread.put({"x": [1]}) for thread in threads))
        assert worker.stop() == 0
        assert "job given up" not in worker.log
    start_worker(**NEVER | {"archive_after": "200ms"}).ready()

    await in_time(lambda: in_cold(tiers, threads))

    assert [len(await thread.ids()) for thread in threads] == [5] * 20


async def test_poison_is_told_and_the_others_go_on(
    start_worker: StartWorker, tiers: Tiers, saver: TieredSaver, config: TierConfig, postgres_url: str
) -> None:
    table = sql.Identifier(config.postgres_schema, "checkpoints")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("alter table {} add constraint p check (thread_id <> 'poison')").format(table))
    threads = [Thread(saver, name) for name in ("poison", "sound", "well")]
    for thread in threads:
        await thread.put({"x": ["precious"]})

    worker = start_worker(**SHORT).ready()

    await in_time(lambda: in_cold(tiers, threads[1:]))
    await in_time(lambda: has(worker, "tier_quarantined_threads", 1))
    refused = [f"tier_job_failures_total{{job={job},reason=refused}}" for job in ("archive", "demote")]
    await in_time(lambda: has(worker, refused, 1))
    assert "precious" not in worker.log
    assert await threads[0].values() == {"x": ["precious"]}


async def test_the_log_lines_of_a_job_name_it_and_never_its_thread(
    start_worker: StartWorker, tiers: Tiers, thread: Thread
) -> None:
    quick = {"archive_after": "200ms", "demote_after": "1h"}
    worker = start_worker(**quick, log_level="debug", thread_secret="s" * 16).ready()
    await thread.put({"x": [1]})
    await in_time(lambda: in_cold(tiers, [thread]))
    await in_time(lambda: has(worker, "tier_archived_threads_total", 1))
    worker.stop()

    lines = [json.loads(line) for line in worker.log.splitlines()]

    [moved] = [line for line in lines if line["event"] == "threads archived"]
    assert f":archive:{tiers.keys.partition(thread.thread_id)}:" in moved["job_id"]
    of_arq = {line["event"] for line in lines if line.get("job") == f"{moved['job_id']}:archive"}
    assert of_arq == {"job started", "job finished"}
    assert thread.thread_id not in worker.log


async def fill(thread: Thread) -> None:
    for number in range(3):
        await thread.put({"x": [number]})
    await thread.write(("x", [9]))


async def is_underway(tiers: Tiers, least: int, most: int = 10_000) -> bool:
    """Whether some threads came to Postgres, and not too many."""
    return least <= await cold_threads(tiers) <= most


def slow_down(postgres_url: str, tiers: Tiers) -> None:
    """Let each archive transaction take a while."""
    table = sql.Identifier(tiers.config.postgres_schema, "checkpoints")
    function = sql.Identifier(tiers.config.postgres_schema, "wait_a_while")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        body = sql.SQL(
            "create function {}() returns trigger language plpgsql"
            " as $$ begin perform pg_sleep(0.1); return null; end $$"
        )
        connection.execute(body.format(function))
        trigger = sql.SQL("create trigger wait after insert on {} for each statement execute function {}()")
        connection.execute(trigger.format(table, function))
