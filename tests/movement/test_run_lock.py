"""Run lock: runs on one thread one after the other, and no write of a run that lost its lock."""

import asyncio
import contextvars
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from operator import add
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from saver import RunLockLost, RunLockTaken, TierConfig, TieredSaver
from saver.config import environment_for
from saver.connect import Tiers
from tests.builders import Thread
from tests.fix_worker import variables_of
from tests.waiting import eventually_async

SHORT = timedelta(milliseconds=300)
LIFETIME = timedelta(seconds=2)
AT_ONCE = timedelta(0)
TURNS = 6
EMPTY = contextvars.Context()  # of no run


class State(TypedDict):
    seen: Annotated[list[int], add]


def counting(saver: TieredSaver) -> CompiledStateGraph[State]:
    """Each run adds the number of those before it: two at once would see the same."""
    builder = StateGraph(State)
    builder.add_node("count", lambda state: {"seen": [len(state["seen"])]})
    builder.add_edge(START, "count")
    return builder.compile(checkpointer=saver)


def config_of(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


async def key_of(tiers: Tiers, thread: Thread) -> str:
    return tiers.keys.run_lock(thread.thread_id)


async def test_concurrent_runs_come_one_after_the_other(saver: TieredSaver) -> None:
    graph = counting(saver)

    async def run() -> None:
        async with saver.run_lock("t"):
            await graph.ainvoke({"seen": []}, config_of("t"))

    await asyncio.gather(*(run() for _ in range(TURNS)))

    assert (await graph.aget_state(config_of("t"))).values["seen"] == list(range(TURNS))


def test_blocking_runs_come_one_after_the_other(config: TierConfig) -> None:
    with TieredSaver(config) as saver, ThreadPoolExecutor(TURNS) as pool:
        graph = counting(saver)

        def run(_: int) -> None:
            with saver.run_lock("t"):
                graph.invoke({"seen": []}, config_of("t"))

        list(pool.map(run, range(TURNS)))

        assert graph.get_state(config_of("t")).values["seen"] == list(range(TURNS))


async def test_run_that_lost_its_lock_writes_nothing(saver: TieredSaver, tiers: Tiers) -> None:
    thread = Thread(saver)
    async with saver.run_lock(thread.thread_id):
        first = await thread.put({"x": [1]})
        await tiers.hot.command("DEL", await key_of(tiers, thread))

        with pytest.raises(RunLockLost, match="nothing was written"):
            await thread.put({"x": [2]})
        with pytest.raises(RunLockLost):
            await thread.write(("x", [3]), checkpoint_id=first)

    found = await thread.latest()
    assert found
    assert (found.checkpoint["id"], found.pending_writes) == (first, [])


def test_blocking_run_that_lost_its_lock_writes_nothing(config: TierConfig, redis_url: str) -> None:
    with TieredSaver(config) as saver:
        graph = counting(saver)
        with saver.run_lock("t") as lock:
            graph.invoke({"seen": []}, config_of("t"))
            before = graph.get_state(config_of("t"))
            saver._runtime.open_blocking()[0].call(lock._hold(0))

            with pytest.raises(RunLockLost):
                graph.invoke({"seen": []}, config_of("t"))

        assert graph.get_state(config_of("t")) == before
        assert lock.is_lost


async def test_lock_that_another_run_took_meanwhile_is_lost(saver: TieredSaver, tiers: Tiers) -> None:
    thread = Thread(saver)
    frozen = saver.run_lock(thread.thread_id)
    async with frozen:
        await thread.put({"x": [1]})
        await tiers.hot.command("DEL", await key_of(tiers, thread))

        async def other() -> None:
            async with saver.run_lock(thread.thread_id, wait=AT_ONCE):
                await Thread(saver, thread.thread_id).put({"x": ["other"]})

        # A task of its own, in the context of nobody's run.
        await asyncio.create_task(other(), context=EMPTY)
        with pytest.raises(RunLockLost):
            await thread.put({"x": [2]})

    assert await thread.values() == {"x": ["other"]}


async def test_lock_is_renewed_while_it_is_held(saver: TieredSaver, tiers: Tiers) -> None:
    thread = Thread(saver)
    async with saver.run_lock(thread.thread_id, lifetime=LIFETIME) as lock:
        key = await key_of(tiers, thread)
        ends = [await tiers.hot.command("PEXPIRETIME", key)]
        for _ in range(4):
            ends.append(await eventually_async(lambda: later_than(tiers, key, ends[-1])))

        await thread.put({"x": [1]})

    assert ends[-1] - ends[0] >= LIFETIME / timedelta(milliseconds=1)
    assert not lock.is_lost
    assert await tiers.hot.command("EXISTS", key) == 0


async def later_than(tiers: Tiers, key: str, end: int) -> int:
    found = int(await tiers.hot.command("PEXPIRETIME", key))
    return found if found > end else 0


OTHER = """
import sys
from datetime import timedelta
from saver import RunLockLost, TieredSaver
from tests.movement.test_run_lock import config_of, counting
with TieredSaver.from_env() as saver:
    graph = counting(saver)
    with saver.run_lock("t", lifetime=timedelta(seconds=1)):
        graph.invoke({"seen": []}, config_of("t"))
        print("running", flush=True)
        sys.stdin.readline()
        try:
            graph.invoke({"seen": []}, config_of("t"))
        except RunLockLost:
            print("lost", flush=True)
"""


@pytest.fixture
def other_run(config: TierConfig) -> Iterator[subprocess.Popen[str]]:
    """A process that runs twice under one lock, the second time when it is told to go on."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER],
        env=environment_for(variables_of(config)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


async def test_lock_of_a_process_that_froze_goes_to_the_next_and_its_late_write_is_refused(
    other_run: subprocess.Popen[str], saver: TieredSaver
) -> None:
    assert other_run.stdout
    assert await asyncio.to_thread(other_run.stdout.readline) == "running\n"

    other_run.send_signal(signal.SIGSTOP)
    async with saver.run_lock("t", wait=timedelta(seconds=20)):
        await counting(saver).ainvoke({"seen": []}, config_of("t"))
    other_run.send_signal(signal.SIGCONT)
    said, _ = await asyncio.to_thread(other_run.communicate, "go on\n", 30)

    assert said == "lost\n"
    assert (await counting(saver).aget_state(config_of("t"))).values["seen"] == [0, 1]


async def test_waiting_has_an_end(saver: TieredSaver) -> None:
    async with saver.run_lock("t"):

        async def other() -> None:
            async with saver.run_lock("t", wait=SHORT):
                raise AssertionError("both have it")

        with pytest.raises(RunLockTaken, match="another run"):
            await asyncio.create_task(other(), context=EMPTY)
        with pytest.raises(RunLockTaken, match="already"):
            async with saver.run_lock("t"):
                pass
        async with saver.run_lock("another thread", wait=AT_ONCE):
            pass


async def test_who_takes_no_lock_is_not_asked_for_one(saver: TieredSaver) -> None:
    async with saver.run_lock("t"):
        await asyncio.create_task(Thread(saver, "t").put({"x": [1]}), context=EMPTY)

    assert await Thread(saver, "t").values() == {"x": [1]}


async def test_lock_survives_demotion_of_its_thread(saver: TieredSaver) -> None:
    thread = Thread(saver)
    async with saver.run_lock(thread.thread_id):
        await thread.put({"x": [1]})
        await saver.demote(thread.thread_id)
        await thread.put({"x": [2]})

    assert await thread.values() == {"x": [2]}


async def test_lock_from_before_a_failover_is_void(saver: TieredSaver, tiers: Tiers) -> None:
    thread = Thread(saver)
    async with saver.run_lock(thread.thread_id) as lock:
        key = await key_of(tiers, thread)
        await tiers.hot.command("SET", key, f"0123456789abcdef:{lock._fence.token}", "PX", 30_000)

        with pytest.raises(RunLockLost):
            await thread.put({"x": [1]})

    await tiers.hot.command("SET", key, "0123456789abcdef:token", "PX", 30_000)
    async with saver.run_lock(thread.thread_id, wait=AT_ONCE):
        await thread.put({"x": [2]})
    assert await thread.values() == {"x": [2]}
