"""Agents and workers at work while a server fails for some seconds or a worker dies, and what is there afterwards."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from saver import ColdTierError, TieredSaver, TierError
from saver.connect import Tiers
from tests import graphs
from tests.builders import Thread
from tests.faults.world import POSTGRES_SECONDS, REDIS_SECONDS, SLACK_SECONDS, World, family_of, frozen, within
from tests.fix_worker import Worker, has
from tests.loads import load
from tests.movement.steps import in_cold, is_in
from tests.waiting import eventually_async, lasting

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
in_time = partial(eventually_async, within_seconds=60)  # processes start and stop, on a busy machine too
REDIS_DOWN_SECONDS, POSTGRES_DOWN_SECONDS = load(30, 3), load(60, 4)
JOB_SECONDS, SCAN_SECONDS = 30, 5
SWEPT = "tier_job_seconds_count{job=sweep}"
FAILED = [f"tier_job_failures_total{{job={job},reason=cold}}" for job in ("archive", "demote")]


class Supervised:
    """Worker processes that are started again when they end, as a supervisor does."""

    def __init__(self, world: World, directory: Path, count: int, **settings: str) -> None:
        variables = {f"TIER_{name.upper()}": value for name, value in settings.items()}
        self.workers = [Worker({**world.variables, **variables}, directory) for _ in range(count)]
        for worker in self.workers:
            worker.start()

    def ready(self) -> None:
        for worker in self.workers:
            worker.ready()

    def revive(self) -> None:
        """Start again those that ended; one that fails does not end with 0."""
        for worker in self.workers:
            if worker.ended:
                assert worker.wait(0) != 0
                worker.start()

    def start_again(self) -> None:
        for worker in self.workers:
            worker.start()

    async def sum(self, name: str) -> float:
        found = await asyncio.gather(*(asyncio.to_thread(worker.metrics) for worker in self.workers))
        return sum(metrics.get(name, 0) for metrics in found)

    async def is_at_work(self, sweeps: int) -> bool:
        """Whether each has swept so often."""
        self.revive()
        return all([await has(worker, SWEPT, sweeps) for worker in self.workers])

    async def is_told(self, text: str) -> bool:
        return any(text in worker.log for worker in self.workers)

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()


Hire = Callable[..., Supervised]


@pytest.fixture
def hire(world: World, tmp_path: Path) -> Iterator[Hire]:
    """Starts workers behind the proxies; they end with the test."""
    with ExitStack() as stack:

        def start(count: int, **settings: str) -> Supervised:
            crew = Supervised(world, tmp_path, count, **settings)
            stack.callback(crew.kill)
            return crew

        yield start


@dataclass
class Load:
    """Agents that write threads and read them back without end; an error must name a tier, and come in time."""

    longest_seconds: float = 0.0
    puts_seconds: list[float] = field(default_factory=list)
    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    failures: int = 0

    async def run(self, thread: Thread, pause_seconds: float = 0.02) -> None:
        ids = self.acknowledged.setdefault(thread.thread_id, [])
        number = 0
        while True:
            number += 1
            started = time.monotonic()
            try:
                ids.append(await thread.put({"x": [number]}))
                self.puts_seconds.append(time.monotonic() - started)
                found = await thread.latest()
                assert found is not None
                assert found.checkpoint["id"] == ids[-1]
            except TierError:
                self.failures += 1
            self.longest_seconds = max(self.longest_seconds, time.monotonic() - started)
            await lasting(pause_seconds)


@asynccontextmanager
async def under_load(saver: TieredSaver, count: int) -> AsyncIterator[Load]:
    load_ = Load()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(load_.run(Thread(saver, f"busy-{number}"))) for number in range(count)]
        await asyncio.wait(tasks, timeout=0.5)
        yield load_
        for task in tasks:
            task.cancel()


# ---- Redis


def down(world: World, *, is_emptied: bool) -> Iterator[None]:
    if is_emptied:
        world.redis("FLUSHALL")
    os.kill(world.servers.redis_pid, signal.SIGKILL)
    yield
    world.servers.restart("redis")


@contextmanager
def back_with_data(world: World) -> Iterator[None]:
    yield from down(world, is_emptied=False)


@contextmanager
def back_empty(world: World) -> Iterator[None]:
    yield from down(world, is_emptied=True)


@contextmanager
def read_only(world: World) -> Iterator[None]:
    world.redis("REPLICAOF", "127.0.0.1", 1)
    yield
    world.redis("REPLICAOF", "NO", "ONE")


Fault = Callable[[World], AbstractContextManager[None]]


@pytest.mark.parametrize("fault", [back_with_data, back_empty, read_only])
async def test_agents_and_workers_go_on_by_themselves_after_an_outage_of_redis(
    world: World, agent: TieredSaver, worker: Tiers, hire: Hire, fault: Fault
) -> None:
    """CRA-03."""
    archived, hot_only = Thread(agent), Thread(agent)
    await archived.put({"x": ["archived"]})
    assert await agent.demote(archived.thread_id)
    crew = hire(2, archive_after="1s", demote_after="1h")
    crew.ready()

    async with under_load(agent, 20) as agents:
        await hot_only.put({"x": ["hot only"]})
        with fault(world):
            await lasting(REDIS_DOWN_SECONDS)
            assert agents.failures > 0
        await in_time(lambda: crew.is_at_work(2))
        swept = await crew.sum(SWEPT)

        assert await archived.values() == {"x": ["archived"]}
        await archived.put({"x": ["again"]})
        lost = None if fault is back_empty else {"x": ["hot only"]}
        assert await hot_only.values() == lost
        await in_time(lambda: is_more(crew, SWEPT, swept + 2))
    assert agents.longest_seconds < REDIS_SECONDS * 2 + POSTGRES_SECONDS + SLACK_SECONDS

    if fault is back_empty:
        await in_time(lambda: crew.is_told("Redis was emptied"))
    else:
        for thread_id, ids in agents.acknowledged.items():
            assert set(ids) <= set(await Thread(agent, thread_id).ids())
    fresh = Thread(agent)
    await fresh.put({"x": [1]})
    await in_time(lambda: in_cold(worker, [archived, fresh]))


async def is_more(crew: Supervised, name: str, least: float) -> bool:
    return await crew.sum(name) >= least


# ---- Postgres


@contextmanager
def refused(world: World) -> Iterator[None]:
    world.postgres_proxy.refuse_new()
    world.postgres_proxy.cut()
    yield
    world.postgres_proxy.accept_new()


@contextmanager
def hung(world: World) -> Iterator[None]:
    with frozen(*family_of(world.servers.postgres_pid)):
        yield


@pytest.mark.parametrize("fault", [refused, hung])
async def test_an_outage_of_postgres_is_told_to_who_needs_it_and_drains_afterwards(
    world: World, agent: TieredSaver, worker: Tiers, hire: Hire, fault: Fault
) -> None:
    """CRA-05."""
    archived = [Thread(agent, f"archived-{number}") for number in range(10)]
    idle = [Thread(agent, f"idle-{number}") for number in range(10)]
    for thread in archived:
        await thread.put({"x": [1]})
        await agent.demote(thread.thread_id)
    graph, config = graphs.approval(agent, []), graphs.config_of("graph")
    await graph.ainvoke({}, config)
    await agent.demote("graph")
    before = await Thread(agent, "graph").ids()
    [crew_worker] = (crew := hire(1, archive_after="300ms", demote_after="1s")).workers
    crew.ready()

    async with under_load(agent, 10) as agents:
        await lasting(1)
        agents.puts_seconds = []
        await asyncio.gather(*(thread.put({"x": [1]}) for thread in idle))
        with fault(world):
            await asyncio.gather(*(thread.put({"x": [2]}) for thread in idle))
            failures = sum([await crew.sum(name) for name in FAILED])
            until = time.monotonic() + POSTGRES_DOWN_SECONDS
            while time.monotonic() < until:
                for call in (archived[0].latest, lambda: graph.ainvoke({}, config)):
                    with within(POSTGRES_SECONDS), pytest.raises(ColdTierError, match="Postgres"):
                        await call()
            meanwhile = agents.puts_seconds
            await in_time(lambda: has(crew_worker, FAILED, failures + 2))
            assert await crew.sum("tier_dirty_threads") >= len(idle)
            assert await all_are(agent, idle, "hot")
        assert agents.failures == 0

    assert max(meanwhile) < POSTGRES_SECONDS, "a put of a hot thread waited for Postgres"
    await in_time(lambda: all_are(agent, idle, "cold"))
    assert [await thread.values() for thread in archived] == [{"x": [1]}] * 10
    assert await Thread(agent, "graph").ids() == before
    assert (await graph.aget_state(config)).next == ("n",)


async def all_are(saver: TieredSaver, threads: list[Thread], tier: str) -> bool:
    return all([await is_in(saver, thread, tier) for thread in threads])


# ---- workers


@pytest.mark.patient
async def test_threads_of_a_killed_worker_are_archived_by_the_others_and_stay_in_use(
    world: World, agent: TieredSaver, worker: Tiers, hire: Hire
) -> None:
    """CRA-02."""
    threads = [Thread(agent, f"idle-{number}") for number in range(100)]
    for thread in threads:
        await thread.put({"x": [1]})
    world.postgres_proxy.reply_delay_ms = 50  # long enough to be killed in the middle
    crew = hire(2, archive_after="1s", demote_after="2s", batch_threads="5")

    await in_time(lambda: some_are_cold(world))
    crew.workers[0].kill()
    world.postgres_proxy.reply_delay_ms = 0
    async with under_load(agent, 1) as agents:
        started = time.monotonic()
        crew.workers[0].start()
        await threads[0].put({"x": [2]})
        assert await threads[0].values() == {"x": [2]}
        await in_time(lambda: have_left(world))
        assert time.monotonic() - started < JOB_SECONDS + 15 + SCAN_SECONDS
        await asyncio.to_thread(crew.ready)
        for _ in range(load(5, 2)):
            await asyncio.to_thread(stop_all, crew)
            await asyncio.gather(*(thread.put({"x": [3]}) for thread in threads))
            crew.start_again()
            await asyncio.to_thread(crew.ready)
        await in_time(lambda: have_left(world))
        assert agents.failures == 0

    assert not [one for one in crew.workers if "job given up" in one.log]
    for number, thread in enumerate(threads):
        ids = await thread.ids()
        assert len(ids) == 1 + load(5, 2) + (number == 0)
        assert world.cold_ids(thread.thread_id) == ids


async def have_left(world: World) -> bool:
    """Whether none of the threads is in Redis any more."""
    return not world.redis("KEYS", "*:thread:idle-*")


async def some_are_cold(world: World) -> bool:
    [(count,)] = world.postgres("select count(*) from checkpoints where thread_id like 'idle-%'")
    return 10 < int(count) < 90


def stop_all(crew: Supervised) -> None:
    """SIGTERM for all at once, as a rolling update does."""
    for worker in crew.workers:
        assert worker.process is not None
        worker.process.terminate()
    assert [worker.wait(25) for worker in crew.workers] == [0, 0]
