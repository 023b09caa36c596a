"""Many workers, none for an hour, and workers whose clocks do not agree."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from saver import TieredSaver
from saver.connect import Tiers
from saver.queue import queue_name
from tests.builders import Thread
from tests.fix_worker import StartWorker, Worker, has, sweeps
from tests.movement.steps import in_cold, is_in
from tests.waiting import eventually_async

in_time = partial(eventually_async, within_seconds=60)  # processes start and stop, on a busy machine too

HOUR_MS = 3_600_000
FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


@contextmanager
def clock(offset: str) -> Iterator[None]:
    """Processes that start meanwhile have a wall clock that is so far off."""
    if not FAKETIME:
        pytest.skip("libfaketime is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(FAKETIME[0]))
        patch.setenv("FAKETIME", offset)
        patch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        yield


async def put_all(threads: list[Thread], value: object) -> None:
    await asyncio.gather(*(thread.put({"x": [value]}) for thread in threads))


def rows_in(postgres_url: str, tiers: Tiers) -> int:
    with psycopg.connect(postgres_url) as connection:
        table = sql.Identifier(tiers.config.postgres_schema, "checkpoints")
        [(count,)] = connection.execute(sql.SQL("select count(*) from {}").format(table)).fetchall()
    return int(count)


async def test_clocks_an_hour_apart_move_nothing_early(
    start_worker: StartWorker, tiers: Tiers, saver: TieredSaver
) -> None:
    settings = {"archive_after": "400ms", "demote_after": "30m", "retain_for": "30m", "retention_at": "hourly"}
    threads = [Thread(saver) for _ in range(10)]
    with clock("+1h"):
        ahead = start_worker(**settings).ready()
    behind = start_worker(**settings).ready()

    await put_all(threads, 1)
    await in_time(lambda: in_cold(tiers, threads))
    await sweeps(ahead, 3)  # it takes the other's jobs too: by its clock they are due
    for worker in (ahead, behind):
        assert (await asyncio.to_thread(worker.metrics))["tier_oldest_dirty_seconds"] < 60
    assert [await saver.tier_of(thread.thread_id) for thread in threads] == ["hot"] * 10

    ahead.kill()  # what it queued last is due in an hour by the other's clock
    await put_all(threads, 2)
    await in_time(lambda: in_cold(tiers, threads))
    assert [len(await thread.ids()) for thread in threads] == [2] * 10


async def test_clocks_an_hour_apart_move_nothing_late(
    start_worker: StartWorker, tiers: Tiers, saver: TieredSaver, thread: Thread
) -> None:
    with clock("-1h"):
        start_worker(archive_after="400ms", demote_after="1s").ready()
    start_worker(archive_after="400ms", demote_after="1s").ready().kill()

    await thread.put({"x": [1]})

    await in_time(lambda: is_in(saver, thread, "cold"))
    assert await thread.values() == {"x": [1]}
    await in_time(lambda: is_in(saver, thread, "hot"))


async def test_backlog_of_an_hour_without_workers_is_archived_afterwards(
    start_worker: StartWorker, tiers: Tiers, saver: TieredSaver
) -> None:
    threads = [Thread(saver) for _ in range(200)]
    for number in range(3):
        await put_all(threads, number)
    await age(tiers, HOUR_MS)
    await put_all(threads[:100], "late")

    worker = start_worker(archive_after="5s", demote_after="30m")
    await in_time(lambda: has(worker, "tier_oldest_dirty_seconds", 3600))

    await in_time(lambda: in_cold(tiers, threads))
    await in_time(lambda: is_in(saver, threads[-1], "cold"))
    assert await saver.tier_of(threads[0].thread_id) == "hot"
    assert [len(await thread.ids()) for thread in threads] == [4] * 100 + [3] * 100
    await in_time(lambda: is_less(worker, "tier_oldest_dirty_seconds", 60))
    await in_time(partial(has, worker, "tier_archived_rows_total", 1400))


async def age(tiers: Tiers, by_ms: int) -> None:
    """Let all that Redis has noted about time have happened earlier."""
    keys = [queue_name(tiers.config)]
    for partition in range(tiers.keys.partitions):
        keys += [tiers.keys.dirty(partition), tiers.keys.idle(partition)]
    for key in keys:
        flat = await tiers.hot.command("ZRANGE", key, 0, -1)
        for member in flat:
            await tiers.hot.command("ZINCRBY", key, -by_ms, member)


async def is_less(worker: Worker, name: str, limit: float) -> bool:
    return (await asyncio.to_thread(worker.metrics)).get(name, limit) < limit


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_twenty_workers_at_once_double_nothing_and_say_the_same(
    start_worker: StartWorker, tiers: Tiers, saver: TieredSaver, postgres_url: str
) -> None:
    few = {"postgres_min_size": "1", "postgres_max_size": "2"}
    threads = [Thread(saver) for _ in range(100)]
    await put_all(threads, 0)  # before the machine is busy with so many starts
    workers = [start_worker(archive_after="400ms", demote_after="2s", **few) for _ in range(20)]
    for number in range(1, 3):
        await put_all(threads, number)
    for worker in workers:
        await eventually_async(lambda worker=worker: is_ready(worker), within_seconds=120)  # type: ignore[misc]

    await eventually_async(lambda: in_cold(tiers, threads), within_seconds=60)
    await eventually_async(lambda: are_cold(saver, threads), within_seconds=60)

    assert rows_in(postgres_url, tiers) == 300
    assert [len(await thread.ids()) for thread in threads] == [3] * 100
    seen = [await asyncio.to_thread(worker.metrics) for worker in workers]
    assert sum(metrics["tier_archived_threads_total"] for metrics in seen) >= 100
    assert sum(metrics["tier_demoted_threads_total"] for metrics in seen) >= 100
    assert sum(metrics.get("tier_job_failures_total", 0) for metrics in seen) == 0
    for worker in workers:
        worker.process.terminate()  # type: ignore[union-attr]
    assert [worker.wait(60) for worker in workers] == [0] * 20


async def is_ready(worker: Worker) -> bool:
    assert not worker.ended, worker.log
    return (await asyncio.to_thread(worker.get, "/readyz"))[0] == 200


async def are_cold(saver: TieredSaver, threads: list[Thread]) -> bool:
    return {await saver.tier_of(thread.thread_id) for thread in threads} == {"cold"}
