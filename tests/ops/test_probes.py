"""The scrape address: what it says, where it is, and that it stays true with several workers."""

import json
import socket
import time
from collections.abc import AsyncIterator, Callable

import pytest_asyncio

from saver import TierConfig, TieredSaver
from saver.connect import Tiers
from tests.builders import Thread
from tests.fix_proxy import Proxy
from tests.fix_worker import StartWorker, Worker
from tests.waiting import eventually
from worker.health import Probes
from worker.queue import LATEST_BEAT_SECONDS, QueueRedis, open_queue

SYSTEM = (
    "tier_hot_threads",
    "tier_dirty_threads",
    "tier_oldest_dirty_seconds",
    "tier_idle_due_threads",
    "tier_wanted_threads",
    "tier_cold_threads",
    "tier_hot_bytes",
    "tier_quarantined_threads",
    "tier_workers",
)
OWN = (
    "tier_archived_threads_total",
    "tier_archived_rows_total",
    "tier_archived_bytes_total",
    "tier_demoted_threads_total",
    "tier_promoted_threads_total",
    "tier_retained_threads_total{action=deleted}",
    "tier_job_seconds_count{job=archive}",
    "tier_job_failures_total{job=archive,reason=cold}",
    "tier_up{tier=cold}",
)
PATIENT = {"archive_after": "1h", "demote_after": "2h"}


@pytest_asyncio.fixture
async def queue(config: TierConfig) -> AsyncIterator[QueueRedis]:
    """A client of the queue."""
    opened = open_queue(config)
    yield opened
    await opened.aclose(close_connection_pool=True)


async def test_every_promised_metric_is_there(start_worker: StartWorker, saver: TieredSaver) -> None:
    threads = [Thread(saver) for _ in range(3)]
    for thread in threads:
        await thread.put({"x": ["text"] * 1000})
    await saver.demote(threads[0].thread_id)
    await threads[0].latest()
    await Thread(saver, "unknown").latest()

    worker = start_worker(**PATIENT).ready()
    # Its last reader wanted the first thread back, so the worker's first round may or may not be over by now.
    eventually(lambda: worker.metrics()["tier_hot_threads"] == 3, within_seconds=15)
    metrics = worker.metrics()

    assert set(metrics) >= {*SYSTEM, *OWN}
    assert any(name.startswith("tier_build_info{version=") for name in metrics)
    assert (metrics["tier_dirty_threads"], metrics["tier_cold_threads"]) == (2, 1)
    assert metrics["tier_hot_bytes"] > 500
    assert not any("thread-" in name for name in metrics)


def test_what_nobody_waits_for_has_succeeded(start_worker: StartWorker) -> None:
    worker = start_worker(**PATIENT).ready()

    def moments() -> list[float]:
        metrics = worker.metrics()
        names = (f"tier_last_success_timestamp_seconds{{job={job}}}" for job in ("archive", "demote", "promote"))
        return [metrics[name] for name in names if metrics.get(name)]

    eventually(lambda: len(moments()) == 3, within_seconds=15)
    assert all(abs(time.time() - moment) < 60 for moment in moments())


async def test_workers_say_the_same_of_the_system(start_worker: StartWorker, saver: TieredSaver) -> None:
    await Thread(saver).put({"x": [1]})
    workers = [start_worker(**PATIENT) for _ in range(2)]
    for worker in workers:
        worker.ready()

    first = workers[0].metrics()
    await Thread(saver).put({"x": [1]})
    second = workers[1].metrics()

    assert {name: first[name] for name in SYSTEM} == {name: second[name] for name in SYSTEM}


def test_busy_port_is_left_to_its_owner(start_worker: StartWorker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        worker = start_worker(metrics_port=str(port))

        worker.port = int(eventually(lambda: logged(worker, "port"), within_seconds=20))

        assert worker.port != port
        worker.ready()


def test_port_zero_is_any_free_one(start_worker: StartWorker) -> None:
    worker = start_worker(metrics_port="0")

    worker.port = int(eventually(lambda: logged(worker, "port"), within_seconds=20))

    assert worker.ready().get("/healthz")[0] == 200


def test_off_serves_nothing(start_worker: StartWorker) -> None:
    worker = start_worker(metrics_port="off")

    eventually(lambda: "worker is ready" in worker.log, within_seconds=20)

    assert "metrics are served" not in worker.log


def test_other_paths_and_methods_are_refused(start_worker: StartWorker) -> None:
    worker = start_worker().ready()

    assert worker.get("/secret")[0] == 404
    with socket.create_connection(("127.0.0.1", worker.port), timeout=5) as connection:
        connection.sendall(b"DELETE /metrics HTTP/1.1\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 405")


async def test_main_loop_that_was_not_seen_is_not_healthy(tiers: Tiers, queue: QueueRedis) -> None:
    probes = Probes(tiers, queue)
    assert (await probes.healthz())[0] == 200

    queue.last_beat -= LATEST_BEAT_SECONDS + 1

    assert (await probes.healthz())[0] == 503


def test_tiers_that_do_not_answer_are_told(
    start_worker: StartWorker, proxied: Callable[[str], Proxy], redis_url: str, postgres_url: str
) -> None:
    hot, cold = proxied(redis_url), proxied(postgres_url)
    worker = start_worker(
        redis_url=hot.url(redis_url), postgres_url=cold.url(postgres_url), queue_url=redis_url, redis_timeout="500ms"
    ).ready()

    cold.hold_replies()
    status, body = worker.get("/readyz")
    assert (status, "hot: ok" in body, "cold: ok" in body) == (503, True, False)
    eventually(lambda: worker.metrics().get("tier_up{tier=cold}") == 0, within_seconds=30)
    cold.release_replies()
    eventually(lambda: worker.get("/readyz")[0] == 200, within_seconds=30)

    hot.refuse_new()
    hot.cut()
    status, body = worker.get("/readyz")
    assert (status, "hot: ok" in body, "cold: ok" in body) == (503, False, True)
    metrics = worker.metrics()
    assert metrics["tier_up{tier=hot}"] == 0
    assert "tier_dirty_threads" not in metrics
    hot.accept_new()
    eventually(lambda: worker.get("/readyz")[0] == 200, within_seconds=30)
    assert worker.get("/healthz")[0] == 200


def logged(worker: Worker, name: str) -> str:
    """A fact of the line that tells where metrics are served."""
    lines = (json.loads(line) for line in worker.log.splitlines())
    return next((str(line[name]) for line in lines if line["event"] == "metrics are served"), "")
