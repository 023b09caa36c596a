"""A worker whose Redis or Postgres fails: nothing is lost, it is told, and it heals by itself."""

import asyncio
import os
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial

import pytest
from pydantic import SecretStr

from saver import TierConfig, TieredSaver
from saver.connect import Tiers, connect
from saver.errors import HotTierError
from tests.builders import Thread
from tests.fix_proxy import Proxy
from tests.fix_servers import StartServers
from tests.fix_worker import StartWorker, has, sweeps
from tests.movement.steps import in_cold, is_in
from tests.waiting import eventually_async

in_time = partial(eventually_async, within_seconds=60)  # processes start and stop, on a busy machine too

SHORT = {"archive_after": "200ms", "demote_after": "1s", "redis_timeout": "500ms", "postgres_timeout": "1s"}


async def test_postgres_out_of_reach_purges_nothing_and_drains_afterwards(
    start_worker: StartWorker, tiers: Tiers, saver: TieredSaver, proxied: Callable[[str], Proxy], postgres_url: str
) -> None:
    cold = proxied(postgres_url)
    worker = start_worker(**SHORT, postgres_url=cold.url(postgres_url)).ready()
    cold.refuse_new()
    cold.cut()
    threads = [Thread(saver) for _ in range(8)]
    for thread in threads:
        await thread.put({"x": [1]})

    failures = [f"tier_job_failures_total{{job={job},reason=cold}}" for job in ("archive", "demote")]
    await in_time(lambda: has(worker, failures, 2))
    await in_time(lambda: has(worker, "tier_oldest_dirty_seconds", 1))
    metrics = await asyncio.to_thread(worker.metrics)
    assert metrics["tier_dirty_threads"] == 8
    assert metrics["tier_quarantined_threads"] == 0
    assert [await saver.tier_of(thread.thread_id) for thread in threads] == ["hot"] * 8

    cold.accept_new()
    await in_time(lambda: in_cold(tiers, threads))
    assert not worker.ended


async def test_short_outage_of_redis_leaves_the_worker_alive(
    start_worker: StartWorker, tiers: Tiers, saver: TieredSaver, proxied: Callable[[str], Proxy], redis_url: str
) -> None:
    hot = proxied(redis_url)
    worker = start_worker(**SHORT, redis_url=hot.url(redis_url)).ready()
    await sweeps(worker, 1)

    hot.refuse_new()
    hot.cut()
    await in_time(lambda: is_told(worker.get, 503))
    hot.accept_new()

    thread = Thread(saver)
    await thread.put({"x": [1]})
    await in_time(lambda: in_cold(tiers, [thread]))
    assert not worker.ended, worker.log


async def test_worker_makes_room_in_a_full_redis(
    start_worker: StartWorker, private_servers: StartServers, config: TierConfig
) -> None:
    servers = private_servers(redis_settings={"maxmemory": "16mb"})
    config = config.model_copy(update={"redis_url": SecretStr(servers.redis_url)})
    async with TieredSaver(config) as saver, connect(config) as tiers:
        threads = [Thread(saver) for _ in range(8)]
        for thread in threads:
            await thread.put({"x": os.urandom(500_000)})
        with pytest.raises(HotTierError, match="full"):
            await fill(saver)

        worker = start_worker(redis_url=servers.redis_url, archive_after="200ms", demote_after="1s")

        await in_time(lambda: in_cold(tiers, threads))
        await in_time(lambda: is_in(saver, threads[0], "cold"))
        await threads[0].put({"x": ["there is room again"]})
        await in_time(lambda: has(worker, "tier_job_seconds_count{job=sweep}", 3))
        assert not worker.ended, worker.log


async def fill(saver: TieredSaver) -> None:
    """Write until it fails, with ever smaller pieces."""
    for size_bytes in (100_000, 1000, 10):
        with suppress(HotTierError) if size_bytes > 10 else nullcontext():
            while True:
                await Thread(saver).put({"x": os.urandom(size_bytes)})


async def is_told(get: Callable[[str], tuple[int, str]], status: int) -> bool:
    return (await asyncio.to_thread(get, "/readyz"))[0] == status
