"""A real failover: the replica lacks the last writes and becomes the primary that everybody's address leads to."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from saver import StaleRun, TieredSaver
from saver.archive import archive
from saver.connect import Tiers
from saver.demote import demote
from tests.builders import Thread, checkpoint_of
from tests.faults.world import World
from tests.fix_proxy import Proxy
from tests.waiting import eventually
from worker.embedded.server import free_port


class Replica:
    """A second Redis that follows the first one until it is cut off."""

    def __init__(self, world: World, link: Proxy, directory: Path) -> None:
        self._world = world
        self._link = link
        self._port = free_port()
        password = str(urlsplit(world.servers.redis_url).password)
        settings = {"port": self._port, "dir": directory, "save": "", "requirepass": password, "masterauth": password}
        settings["repl-diskless-sync-delay"] = 0
        options = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
        self._process = subprocess.Popen([world.servers.redis_bin, *options], stdout=subprocess.DEVNULL)
        self._client = redis.Redis(port=self._port, password=password)
        eventually(self._answers)
        self._do("REPLICAOF", "127.0.0.1", link.port)
        # The first replica of a server gives that a new history.
        eventually(lambda: self._do("INFO", "replication")["master_link_status"] == "up", within_seconds=20)

    def _answers(self) -> bool:
        try:
            return bool(self._client.ping())
        except redis.exceptions.ConnectionError:
            return False

    def _do(self, *command: object) -> dict[str, object]:
        reply: dict[str, object] = self._client.execute_command(*command)  # type: ignore[no-untyped-call]
        return reply

    def cut_off(self) -> None:
        """Let it catch up, then let it hear nothing more."""
        assert self._world.redis("WAIT", 1, 5000) == 1
        self._link.refuse_new()
        self._link.cut()

    def take_over(self) -> None:
        """Become the primary, for everybody at once."""
        self._do("REPLICAOF", "NO", "ONE")
        self._world.redis_proxy.upstream = ("127.0.0.1", self._port)
        self._world.redis_proxy.cut()

    def overwrite(self) -> None:
        """Become the primary of the first one until that has the same, then let it be a primary again."""
        self._do("REPLICAOF", "NO", "ONE")
        self._world.redis("CONFIG", "SET", "masterauth", urlsplit(self._world.servers.redis_url).password)
        self._world.redis("REPLICAOF", "127.0.0.1", self._port)
        eventually(lambda: self._world.redis("INFO", "replication")["master_link_status"] == "up", within_seconds=20)
        self._world.redis("REPLICAOF", "NO", "ONE")

    def close(self) -> None:
        self._client.close()
        self._process.kill()
        self._process.wait()


@pytest.fixture
def replica(world: World, proxied: Callable[[str], Proxy], tmp_path: Path) -> Iterator[Replica]:
    """One that has everything so far and follows."""
    world.redis("CONFIG", "SET", "repl-diskless-sync-delay", 0)
    follower = Replica(world, proxied(world.servers.redis_url), tmp_path)
    yield follower
    follower.close()


async def test_archived_rows_come_back(
    world: World, either_family: TieredSaver, worker: Tiers, replica: Replica
) -> None:
    thread = Thread(either_family)
    first = await thread.put({"x": [1]})
    replica.cut_off()
    second = await thread.put({"x": [2]})
    await thread.write(("x", ["pending"]))
    await archive(worker, [thread.thread_id])

    replica.take_over()

    found = await thread.latest()
    assert found is not None
    assert found.checkpoint["channel_values"] == {"x": [2]}
    assert found.pending_writes == [("task", "x", ["pending"])]
    third = await thread.put({"x": [3]})
    await demote(worker, thread.thread_id)
    assert await thread.ids() == [third, second, first] == world.cold_ids(thread.thread_id)


async def test_rows_that_only_the_replica_had_are_archived(
    world: World, agent: TieredSaver, worker: Tiers, replica: Replica
) -> None:
    thread = Thread(agent)
    kept = [await thread.put({"x": [1]})]
    kept.insert(0, await thread.put({"x": [2]}))
    replica.cut_off()
    await thread.put({"x": ["lost with the primary"]})

    replica.take_over()

    assert await thread.ids() == kept
    kept.insert(0, await thread.put({"x": [4]}))
    await demote(worker, thread.thread_id)
    assert await thread.ids() == kept == world.cold_ids(thread.thread_id)


async def test_a_log_longer_than_one_batch_is_archived_whole(
    world: World, agent: TieredSaver, worker: Tiers, replica: Replica
) -> None:
    worker.config = world.config_for(
        worker.config.redis_url.get_secret_value(), worker.config.postgres_url.get_secret_value(), batch_bytes="4KB"
    )
    thread = Thread(agent)
    ids = [await thread.put({"x": os.urandom(2000)}) for number in range(8)]
    replica.cut_off()

    replica.take_over()

    for _ in range(12):
        await archive(worker, [thread.thread_id])
    assert world.cold_ids(thread.thread_id) == ids[::-1]
    assert await thread.ids() == ids[::-1]


@pytest.mark.parametrize("was_archived", [True, False])
async def test_a_deleted_thread_stays_deleted(
    world: World, either_family: TieredSaver, worker: Tiers, replica: Replica, was_archived: bool
) -> None:
    thread = Thread(either_family)
    await thread.put({"x": [1]})
    if was_archived:
        await archive(worker, [thread.thread_id])
    replica.cut_off()
    await thread.put({"x": [2]})
    await either_family.adelete_thread(thread.thread_id)

    replica.take_over()

    assert await thread.latest() is None
    await archive(worker, [thread.thread_id], wait=True)
    assert await thread.ids() == [] == world.cold_ids(thread.thread_id)
    again = await thread.put({"x": ["a new conversation"]})
    assert await thread.ids() == [again]


async def test_ghost_of_an_earlier_stay_is_dropped(
    world: World, agent: TieredSaver, worker: Tiers, replica: Replica
) -> None:
    thread = Thread(agent)
    first = await thread.put({"x": [1]})
    replica.cut_off()
    await demote(worker, thread.thread_id)
    second = await thread.put({"x": [2]})
    await demote(worker, thread.thread_id)

    replica.take_over()

    result = await archive(worker, [thread.thread_id])
    assert result.ghosts == 1
    assert await thread.ids() == [second, first]
    assert await thread.values() == {"x": [2]}


async def put_delta(thread: Thread, number: int) -> str:
    """A checkpoint of a thread whose state is made from its ancestors' writes."""
    checkpoint = checkpoint_of({}, {})
    metadata = {"source": "loop", "step": number, "counters_since_delta_snapshot": {"x": (number, number)}}
    await thread.saver.aput(thread.config(thread.checkpoint_id), checkpoint, metadata, {})  # type: ignore[arg-type]
    thread.checkpoint_id = checkpoint["id"]
    return checkpoint["id"]


async def test_a_run_of_a_delta_channel_from_before_is_refused(
    world: World, either_family: TieredSaver, worker: Tiers, replica: Replica
) -> None:
    thread = Thread(either_family)
    await thread.latest()
    first = await put_delta(thread, 1)
    replica.cut_off()
    await put_delta(thread, 2)

    replica.take_over()

    with pytest.raises(StaleRun):
        await put_delta(thread, 3)
    found = await thread.latest()
    assert found is not None
    thread.checkpoint_id = found.checkpoint["id"]
    assert thread.checkpoint_id == first
    again = await put_delta(thread, 2)
    assert await thread.ids() == [again, first]


async def test_a_primary_that_served_another_one_is_not_trusted(
    world: World, either_family: TieredSaver, worker: Tiers
) -> None:
    thread = Thread(either_family)
    first = await thread.put({"x": [1]})

    for number in range(2, 5):  # connections stay open meanwhile
        world.redis("REPLICAOF", "127.0.0.1", 1)
        world.redis("REPLICAOF", "NO", "ONE")
        await thread.put({"x": [number]})
        assert await thread.values() == {"x": [number]}

    await demote(worker, thread.thread_id)
    assert len(await thread.ids()) == len(world.cold_ids(thread.thread_id)) == 4
    assert (await thread.ids())[-1] == first


async def test_a_primary_that_another_one_overwrote_is_not_trusted(
    world: World, either_family: TieredSaver, worker: Tiers, replica: Replica
) -> None:
    thread = Thread(either_family)
    first = await thread.put({"x": [1]})
    replica.cut_off()
    second = await thread.put({"x": [2]})
    await archive(worker, [thread.thread_id])

    replica.overwrite()  # nobody calls meanwhile, and every connection stays open

    assert await thread.values() == {"x": [2]}
    third = await thread.put({"x": [3]})
    await demote(worker, thread.thread_id)
    assert await thread.ids() == [third, second, first] == world.cold_ids(thread.thread_id)


async def test_a_deleted_thread_that_would_vanish_stays_deleted(world: World, worker: Tiers, replica: Replica) -> None:
    config = world.config.model_copy(update={"on_idle": "expire"})
    async with TieredSaver(config) as agent:
        thread = Thread(agent)
        await thread.put({"x": [1]})
        replica.cut_off()
        await agent.adelete_thread(thread.thread_id)

        replica.take_over()

        assert await thread.latest() is None
        assert await thread.ids() == []


async def test_a_thread_that_was_to_vanish_and_was_archived_is_served_from_cold(
    world: World, worker: Tiers, replica: Replica
) -> None:
    config = world.config.model_copy(update={"on_idle": "expire"})
    async with TieredSaver(config) as agent:
        thread = Thread(agent)
        first = await thread.put({"x": [1]})
        replica.cut_off()
        await agent.demote(thread.thread_id)
        second = await thread.put({"x": [2]})
        await agent.demote(thread.thread_id)

        replica.take_over()

        assert await thread.values() == {"x": [2]}
        assert await thread.ids() == [second, first]
