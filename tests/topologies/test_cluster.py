"""The hot tier on a Redis Cluster, with its queue elsewhere: every thread id, every call, whichever node serves it."""

import asyncio

import pytest
from pydantic import SecretStr

from jobs.archive import archive_due
from jobs.demote import demote_due
from saver import TierConfig, TieredSaver, survey
from saver.connect import Tiers, connect
from saver.demote import demote
from saver.errors import HotTierError
from tests.builders import Thread
from tests.faults.world import FAMILIES
from tests.fix_cluster import Cluster, slot_of_partition
from tests.fix_doctor import Doctor
from tests.fix_worker import StartWorker, has
from tests.waiting import eventually_async
from worker.doctor.rights import acl_rule

IDS = ["t1", "x:y", "{", "a}b{c", "}x", "{}", "{p000}"]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
async def test_a_thread_of_any_id_lives_on_a_cluster(
    cluster: Cluster, on_cluster: TierConfig, family: type[TieredSaver]
) -> None:
    """CFG-04: put, demote, read, load, list, the scan for what is idle, delete."""
    async with family(on_cluster) as saver, connect(on_cluster) as tiers:
        threads = [Thread(saver, thread_id) for thread_id in IDS]
        for thread in threads:
            first = await thread.put({"x": [thread.thread_id]})
            await thread.write(("x", ["pending"]))
            assert await demote(tiers, thread.thread_id)
            assert await thread.values() == {"x": [thread.thread_id]}
            second = await thread.put({"x": [2]})
            assert await thread.ids() == [second, first]
        await eventually_async(lambda: nothing_is_hot(tiers))
        for thread in threads:
            assert await thread.values() == {"x": [2]}
            await saver.adelete_thread(thread.thread_id)
            assert await thread.latest() is None

    assert {key for key in cluster.all_keys() if b"}:thread:" in key or b"}:log:" in key} == set()


async def nothing_is_hot(tiers: Tiers) -> bool:
    """Whether looking for what is idle in all partitions has left nothing in Redis."""
    for partition in range(16):
        await demote_due(tiers, partition)
    return (await survey.survey_hot(tiers)).threads == 0


async def test_what_concerns_all_partitions_is_split(cluster: Cluster, on_cluster: TierConfig) -> None:
    async with TieredSaver(on_cluster) as saver, connect(on_cluster) as tiers:
        threads = [Thread(saver) for _ in range(60)]
        await asyncio.gather(*(thread.put({"x": [1]}, metadata={"user_id": "u"}) for thread in threads))
        ids = {thread.thread_id for thread in threads}

        assert {info.thread_id for info in await saver.list_threads({"user_id": "u"})} == ids
        assert {found.config["configurable"]["thread_id"] async for found in saver.alist(None)} == ids
        counted = await survey.survey_hot(tiers)
        assert (counted.threads, counted.dirty_threads, counted.size_bytes > 0) == (60, 60, True)
        assert await survey.eviction_policy(tiers) == "noeviction"
        assert len({cluster.owner(slot_of_partition(on_cluster.key_prefix, number)).port for number in range(16)}) == 3


async def test_what_is_due_moves_on_every_node(on_cluster: TierConfig) -> None:
    async with TieredSaver(on_cluster) as saver, connect(on_cluster) as tiers:
        threads = [Thread(saver) for _ in range(60)]
        await asyncio.gather(*(thread.put({"x": [1]}) for thread in threads))

        async def is_all_cold() -> bool:
            for partition in range(16):
                await archive_due(tiers, partition)
                await demote_due(tiers, partition)
            return (await survey.survey_hot(tiers)).threads == 0

        await eventually_async(is_all_cold)
        [(count,)] = await tiers.cold.fetch("count_cold", {})
        assert count == 60


async def test_a_worker_moves_threads_of_a_cluster(on_cluster: TierConfig, start_worker: StartWorker) -> None:
    addresses = {"redis_url": on_cluster.redis_url, "queue_url": on_cluster.queue_url}
    variables = {name: url.get_secret_value() for name, url in addresses.items()}
    worker = start_worker(**variables, partitions="16", archive_after="400ms", demote_after="1s").ready()

    async with TieredSaver(on_cluster) as saver:
        await asyncio.gather(*(Thread(saver).put({"x": [1]}) for _ in range(30)))
        await eventually_async(lambda: has(worker, "tier_demoted_threads_total", 30), within_seconds=30)


async def test_a_redis_that_is_no_cluster_is_told_apart(redis_url: str, on_cluster: TierConfig) -> None:
    address = redis_url.replace("redis://", "redis+cluster://")
    config = TierConfig(redis_url=address, queue_url=redis_url, postgres_url="postgresql://nowhere/x")

    with pytest.raises(HotTierError, match="is no cluster"):
        async with connect(config):
            pass


def test_the_doctor_looks_at_each_node(cluster: Cluster, doctor: Doctor) -> None:
    variables = {"TIER_REDIS_URL": cluster.url, "TIER_QUEUE_URL": doctor.servers.redis_url}

    reports = doctor.reports(TIER_KEY_PREFIX="untouched", **variables)

    nodes = [reports[f"redis 127.0.0.1:{node.port}"] for node in cluster.nodes[:3]]
    assert all("replicas: 1, up to date" in report["facts"] for report in nodes)
    assert not any("cluster" in finding["fact"] for report in nodes for finding in report["findings"])


async def test_the_shipped_rights_are_enough_for_a_cluster(cluster: Cluster, on_cluster: TierConfig) -> None:
    for node in cluster.nodes:
        node.do("ACL", "SETUSER", "agent", "on", ">secret", *acl_rule(on_cluster.key_prefix).split())
    address = cluster.url.replace("redis+cluster://:cluster@", "redis+cluster://agent:secret@")
    config = on_cluster.model_copy(update={"redis_url": SecretStr(address)})

    async with TieredSaver(config) as saver:
        thread = Thread(saver)
        first = await thread.put({"x": [1]})
        assert await thread.ids() == [first]

    assert [node.do("ACL", "LOG") for node in cluster.nodes[:3]] == [[]] * 3
