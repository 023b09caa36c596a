"""The hot tier and the queue behind three Sentinels: failovers under load, and what the new primary lacks."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from saver import TierConfig, TieredSaver
from saver.archive import archive
from saver.connect import connect
from saver.demote import demote
from tests.builders import Thread
from tests.faults.world import FAMILIES
from tests.fix_doctor import Doctor
from tests.fix_nodes import RedisNode
from tests.fix_sentinel import Watched
from tests.fix_worker import StartWorker, has
from tests.topologies.conftest import until_it_works
from tests.waiting import eventually, eventually_async


@pytest.fixture
def behind(watched: Watched, postgres_url: str, schema: str) -> TierConfig:
    """The address of the Sentinels, and limits that are short beside a failover."""
    return TierConfig(
        redis_url=watched.url, postgres_url=postgres_url, postgres_schema=schema, partitions=4, redis_timeout="1s"
    )


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("strike", [RedisNode.kill, RedisNode.freeze])
async def test_work_goes_on_after_a_failover(
    watched: Watched, behind: TierConfig, family: type[TieredSaver], strike: Callable[[RedisNode], None]
) -> None:
    async with family(behind) as saver, connect(behind) as tiers:
        threads = [Thread(saver) for _ in range(4)]
        await asyncio.gather(*(thread.put({"x": [0]}) for thread in threads))
        old = watched.primary
        old.do("WAIT", 2, 5000)

        strike(old)
        await asyncio.gather(*(until_it_works(partial(thread.put, {"x": [1]})) for thread in threads))

        assert await asyncio.to_thread(watched.has_failed_over, old)
        assert [await thread.values() for thread in threads] == [{"x": [1]}] * 4
        for thread in threads:
            assert await until_it_works(partial(demote, tiers, thread.thread_id))
            assert len(await thread.ids()) >= 2


async def test_nothing_that_was_archived_is_lost_with_the_suffix(watched: Watched, behind: TierConfig) -> None:
    async with TieredSaver(behind) as saver, connect(behind) as tiers:
        thread = Thread(saver)
        await thread.put({"x": [1]})
        old = watched.primary
        old.do("WAIT", 2, 5000)
        for node in watched.nodes:  # nothing is replicated any more
            if node is not old:
                node.do("REPLICAOF", "127.0.0.1", 1)
        second = await thread.put({"x": [2]})
        await archive(tiers, [thread.thread_id])
        await thread.put({"x": ["acknowledged by the old primary alone"]})

        old.kill()

        found = await until_it_works(thread.latest)
        assert found is not None
        assert found.checkpoint["id"] == second
        assert await thread.values() == {"x": [2]}


async def test_a_worker_survives_the_failover_of_its_queue(
    watched: Watched, behind: TierConfig, start_worker: StartWorker
) -> None:
    addresses = {"redis_url": watched.url, "key_prefix": "tier"}
    worker = start_worker(**addresses, archive_after="400ms", demote_after="2s", redis_timeout="1s").ready()
    async with TieredSaver(behind) as saver:
        thread = Thread(saver)
        await thread.put({"x": [0]})
        await eventually_async(lambda: has(worker, "tier_archived_threads_total", 1), within_seconds=30)

        watched.primary.kill()
        await until_it_works(partial(thread.put, {"x": [1]}))

        await eventually_async(lambda: has(worker, "tier_demoted_threads_total", 1), within_seconds=60)
        assert not worker.ended


async def test_work_goes_on_after_a_failover_that_was_asked_for(watched: Watched, behind: TierConfig) -> None:
    async with TieredSaver(behind) as saver:
        thread = Thread(saver)
        await thread.put({"x": [0]})
        old = watched.primary

        watched.sentinels[0].do("SENTINEL", "FAILOVER", "main")
        await asyncio.to_thread(eventually, lambda: watched.has_failed_over(old), within_seconds=30)

        await until_it_works(partial(thread.put, {"x": [1]}))
        assert await thread.values() == {"x": [1]}


def test_the_doctor_looks_at_the_primary(watched: Watched, doctor: Doctor) -> None:
    report = doctor.reports(TIER_REDIS_URL=watched.url, TIER_KEY_PREFIX="untouched")["redis"]

    assert "replicas: 2, up to date" in report["facts"]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
async def test_a_failover_under_load_loses_nothing_that_was_written_through(
    watched: Watched, behind: TierConfig, family: type[TieredSaver]
) -> None:
    """Agents write without a pause while the primary is killed; what replication had not sent yet is in Postgres."""
    through = behind.model_copy(update={"write_mode": "through"})
    async with family(through) as saver:
        threads = [Thread(saver) for _ in range(8)]
        acknowledged: dict[str, list[str]] = {thread.thread_id: [] for thread in threads}
        old, is_over = watched.primary, asyncio.Event()

        async def write(thread: Thread) -> None:
            number = 0
            while not is_over.is_set():
                number += 1
                acknowledged[thread.thread_id].append(await until_it_works(partial(thread.put, {"x": [number]})))

        tasks = [asyncio.create_task(write(thread)) for thread in threads]
        await eventually_async(lambda: _has_all(acknowledged, 3))
        old.kill()
        await asyncio.to_thread(eventually, lambda: watched.has_failed_over(old), within_seconds=30)
        sizes = {name: len(ids) + 2 for name, ids in acknowledged.items()}
        await eventually_async(lambda: _has_all(acknowledged, max(sizes.values())), within_seconds=40)
        is_over.set()
        await asyncio.gather(*tasks)

        for thread in threads:
            found = await thread.ids()
            assert set(acknowledged[thread.thread_id]) <= set(found)
            assert found[0] == acknowledged[thread.thread_id][-1]


async def _has_all(acknowledged: dict[str, list[str]], least: int) -> bool:
    return all(len(ids) >= least for ids in acknowledged.values())
