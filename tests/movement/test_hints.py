"""Hints: the jobs that an agent queues so that a worker looks at once, and that it can do without."""

import asyncio
import subprocess
import sys

import ormsgpack
import redis

from saver import TierConfig, TieredSaver
from saver.connect import Tiers
from saver.queue import queue_name
from tests.builders import Thread
from tests.waiting import eventually

WITHOUT_ARQ = """
import sys
sys.modules["arq"] = sys.modules["arq.connections"] = None
from saver import TierConfig, TieredSaver
from tests.builders import checkpoint_of
hot, cold, prefix, schema = sys.argv[1:]
config = TierConfig(redis_url=hot, postgres_url=cold, key_prefix=prefix, postgres_schema=schema, partitions=4)
with TieredSaver(config) as saver:
    where = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    saver.put(where, checkpoint_of({}, {}), {"source": "input", "step": -1}, {})
    saver.demote("t")
    assert saver.get_tuple(where) is not None
    saver.put(where, checkpoint_of({}, {}), {"source": "input", "step": -1}, {})
"""


def queued(config: TierConfig) -> list[str]:
    """Job and partition of each job in the queue."""
    with redis.Redis.from_url(config.redis_url.get_secret_value()) as client:
        names = [name.decode() for name in client.zrange(queue_name(config), 0, -1)]
        return sorted(":".join(name.removeprefix(f"{config.key_prefix}:").split(":")[:2]) for name in names)


async def test_first_dirty_thread_of_a_partition_queues_its_job_once(config: TierConfig, saver: TieredSaver) -> None:
    one_partition = [f"t{n}" for n in range(40) if saver._runtime.keys.partition(f"t{n}") == 1]

    for name in one_partition[:3]:
        await Thread(saver, name).put({"x": [1]})

    eventually(lambda: queued(config))
    assert queued(config) == ["archive:1"]


async def test_read_of_an_archived_thread_queues_its_promotion(config: TierConfig, saver: TieredSaver) -> None:
    thread = Thread(saver)
    await thread.put({"x": [1]})
    await saver.demote(thread.thread_id)

    assert await thread.values() == {"x": [1]}

    eventually(lambda: "promote:all" in queued(config))


async def test_many_reads_of_archived_threads_queue_few_jobs(config: TierConfig, saver: TieredSaver) -> None:
    threads = [Thread(saver) for _ in range(30)]
    for thread in threads:
        await thread.put({"x": [1]})
        await saver.demote(thread.thread_id)

    for thread in threads:
        assert await thread.values() == {"x": [1]}

    eventually(lambda: not saver._runtime.hints._is_promotion_waiting)
    assert 0 < queued(config).count("promote:all") < len(threads) / 2


async def test_payload_of_a_hint_is_msgpack_and_names_the_partition(config: TierConfig, saver: TieredSaver) -> None:
    thread = Thread(saver)
    await thread.put({"x": [1]})
    eventually(lambda: queued(config))

    with redis.Redis.from_url(config.redis_url.get_secret_value()) as client:
        [name] = client.zrange(queue_name(config), 0, -1)
        payload = ormsgpack.unpackb(client.get(b"arq:job:" + name))

    assert (payload["f"], payload["a"]) == ("archive", [saver._runtime.keys.partition(thread.thread_id)])


async def test_without_arq_the_sorted_sets_alone_are_marked(config: TierConfig, tiers: Tiers) -> None:
    urls = (config.redis_url.get_secret_value(), config.postgres_url.get_secret_value())
    command = [sys.executable, "-c", WITHOUT_ARQ, *urls, config.key_prefix, config.postgres_schema]

    await asyncio.to_thread(subprocess.run, command, check=True, timeout=60)

    assert queued(config) == []
    assert await tiers.hot.command("ZSCORE", tiers.keys.thread("t").dirty, "t") is not None
