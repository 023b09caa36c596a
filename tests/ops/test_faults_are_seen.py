"""Each fault that stops the movement of threads turns a metric that an alert asks for, and a health check."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql

from saver import TierConfig, TieredSaver
from tests.builders import Thread
from tests.fix_worker import StartWorker, Worker
from tests.ops.deployed import alerts_on
from tests.waiting import eventually_async

QUICK = {"archive_after": "200ms", "demote_after": "2s"}
READ_ONLY = "?options=-c%20default_transaction_read_only%3Don"
FAILED = "tier_job_failures_total{job=archive,reason=cold}"
SUCCEEDED = "tier_last_success_timestamp_seconds{job=archive}"


@pytest.fixture
async def waiting(saver: TieredSaver) -> Thread:
    """A thread that nobody has archived."""
    thread = Thread(saver)
    await thread.put({"x": [1]})
    return thread


async def test_a_read_only_postgres_is_seen(start_worker: StartWorker, waiting: Thread, config: TierConfig) -> None:
    worker = start_worker(**QUICK, postgres_url=config.postgres_url.get_secret_value() + READ_ONLY).ready()

    await eventually_async(lambda: rises(worker, FAILED, 2), within_seconds=30)
    await eventually_async(lambda: rises(worker, "tier_oldest_dirty_seconds", 3), within_seconds=30)

    metrics = worker.metrics()
    assert metrics["tier_dirty_threads"] == 1
    assert SUCCEEDED not in metrics
    assert alerts_on("tier_job_failures_total") == {"TierJobFailures"}
    assert alerts_on("tier_oldest_dirty_seconds") == {"TierArchiveBacklog"}


async def test_a_worker_whose_loop_is_blocked_is_seen(start_worker: StartWorker, waiting: Thread) -> None:
    worker = start_worker(**QUICK).ready()

    with stopped(worker):
        answers = [worker.get(path)[0] for path in ("/metrics", "/healthz", "/readyz")]

    assert answers == [0, 0, 0]
    assert alerts_on("up") == {"TierWorkersDown", "TierWorkerDown"}


def test_a_schedule_that_nobody_runs_is_seen(start_worker: StartWorker) -> None:
    """The schedule is in the worker: without a worker there is none, and its successes grow old for whoever is left."""
    worker = start_worker(**QUICK).ready()
    worker.kill()

    assert worker.get("/metrics")[0] == 0
    assert "TierWorkersDown" in alerts_on("up")
    assert "TierJobStalled" in alerts_on("tier_last_success_timestamp_seconds")


async def test_an_archive_that_fails_for_each_thread_is_seen(
    start_worker: StartWorker, waiting: Thread, config: TierConfig
) -> None:
    table = sql.Identifier(config.postgres_schema, "checkpoints")
    with psycopg.connect(config.postgres_url.get_secret_value(), autocommit=True) as connection:
        connection.execute(sql.SQL("alter table {} add constraint none_at_all check (false)").format(table))

    worker = start_worker(**QUICK).ready()

    await eventually_async(lambda: rises(worker, "tier_quarantined_threads", 1), within_seconds=30)
    assert await waiting.values() == {"x": [1]}
    assert alerts_on("tier_quarantined_threads") == {"TierThreadsQuarantined"}


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
