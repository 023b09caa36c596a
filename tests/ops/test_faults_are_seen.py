"""
OBS-02: each fault that stops the movement of threads turns a metric, the alert that asks for it, and a health check.

The metrics are scraped from real workers under the fault; promtool says what the shipped rules make of them.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from saver import TierConfig, TieredSaver
from tests.builders import Thread
from tests.fix_worker import StartWorker, Worker
from tests.ops.scraped import Scrape, assert_fires
from tests.waiting import eventually, eventually_async

QUICK = {"archive_after": "200ms", "demote_after": "10m"}
READ_ONLY = "?options=-c%20default_transaction_read_only%3Don"
FAILED = "tier_job_failures_total{job=archive,reason=cold}"
ARCHIVED = "tier_last_success_timestamp_seconds{job=archive}"
SWEPT = "tier_last_success_timestamp_seconds{job=sweep}"
UNSCHEDULED = """
from worker.settings import make_settings

Settings = make_settings()
Settings.cron_jobs = []
"""


@pytest.fixture
async def waiting(saver: TieredSaver) -> Thread:
    """A thread that nobody has archived."""
    thread = Thread(saver)
    await thread.put({"x": [1]})
    return thread


async def test_a_system_in_order_raises_no_alarm(start_worker: StartWorker, waiting: Thread, tmp_path: Path) -> None:
    worker = start_worker(**QUICK).ready()

    await eventually_async(lambda: rises(worker, ARCHIVED, 1), within_seconds=20)
    first = Scrape.of(worker)
    await eventually_async(lambda: rises(worker, SWEPT, first.moment + 3), within_seconds=20)

    assert_fires(set(), first, Scrape.of(worker), tmp_path)


async def test_a_read_only_postgres_is_seen(
    start_worker: StartWorker, waiting: Thread, config: TierConfig, tmp_path: Path
) -> None:
    worker = start_worker(**QUICK, postgres_url=config.postgres_url.get_secret_value() + READ_ONLY).ready()

    await eventually_async(lambda: rises(worker, FAILED, 1), within_seconds=30)
    first = Scrape.of(worker)
    await eventually_async(lambda: rises(worker, FAILED, 4), within_seconds=30)
    last = Scrape.of(worker)

    metrics = worker.metrics()
    assert metrics["tier_oldest_dirty_seconds"] > 3
    assert metrics["tier_dirty_threads"] == 1
    assert metrics[ARCHIVED] == 0
    assert_fires({"TierArchiveBacklog", "TierJobFailures", "TierJobStalled"}, first, last, tmp_path)


async def test_a_worker_whose_loop_is_blocked_is_seen(
    start_worker: StartWorker, waiting: Thread, tmp_path: Path
) -> None:
    worker = start_worker(**QUICK).ready()
    first = Scrape.of(worker)

    with stopped(worker):
        answers = [worker.get(path)[0] for path in ("/healthz", "/readyz")]
        last = Scrape.of(worker)

    assert answers == [0, 0]
    assert_fires({"TierWorkersDown", "TierWorkerDown"}, first, last, tmp_path)


async def test_a_schedule_that_nobody_runs_is_seen(start_worker: StartWorker, waiting: Thread, tmp_path: Path) -> None:
    """No sweep has ever succeeded here, so there is no success that could have grown old; hints are still followed."""
    (tmp_path / "unscheduled.py").write_text(UNSCHEDULED)
    worker = start_worker("unscheduled.Settings", **QUICK).ready()

    first = Scrape.of(worker)
    await eventually_async(lambda: rises(worker, ARCHIVED, 1), within_seconds=30)
    last = Scrape.of(worker)

    assert worker.metrics()[SWEPT] == 0
    assert worker.get("/healthz")[0] == 200
    assert_fires({"TierJobStalled"}, first, last, tmp_path)


async def test_an_archive_that_fails_for_each_thread_is_seen(
    start_worker: StartWorker, waiting: Thread, config: TierConfig, tmp_path: Path
) -> None:
    table = sql.Identifier(config.postgres_schema, "checkpoints")
    with psycopg.connect(config.postgres_url.get_secret_value(), autocommit=True) as connection:
        connection.execute(sql.SQL("alter table {} add constraint none_at_all check (false)").format(table))

    worker = start_worker(**QUICK).ready()
    await eventually_async(lambda: rises(worker, "tier_quarantined_threads", 1), within_seconds=30)
    first = Scrape.of(worker)
    await eventually_async(lambda: rises(worker, SWEPT, first.moment + 3), within_seconds=20)

    assert await waiting.values() == {"x": [1]}
    assert_fires({"TierThreadsQuarantined"}, first, Scrape.of(worker), tmp_path)


async def test_an_attempt_that_failed_is_no_success(
    start_worker: StartWorker, waiting: Thread, config: TierConfig
) -> None:
    worker = start_worker(**QUICK, postgres_url=config.postgres_url.get_secret_value() + READ_ONLY).ready()
    await eventually_async(lambda: rises(worker, FAILED, 2), within_seconds=30)

    metrics = worker.metrics()

    assert metrics[ARCHIVED] == 0
    assert metrics["tier_last_success_timestamp_seconds{job=promote}"] > 0  # explicitly nothing to do


async def test_the_living_are_counted_wherever_they_are(start_worker: StartWorker, waiting: Thread) -> None:
    worker, other = start_worker(**QUICK).ready(), start_worker(**QUICK).ready()
    eventually(lambda: worker.metrics()["tier_workers"] == 2, within_seconds=20)

    assert other.stop() == 0

    eventually(lambda: worker.metrics()["tier_workers"] == 1, within_seconds=20)


async def rises(worker: Worker, name: str, least: float) -> bool:
    return worker.metrics().get(name, -1) >= least


@contextmanager
def stopped(worker: Worker) -> Iterator[None]:
    """The process is there and does nothing."""
    assert worker.process is not None
    worker.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        worker.process.send_signal(signal.SIGCONT)
