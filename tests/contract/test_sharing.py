"""One saver for many: copies, tasks and threads share it, and a call that is cancelled harms none of them."""

import asyncio
import gc
import os
import random
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from saver import TierConfig, TieredSaver
from saver.connect import Tiers
from tests.builders import Thread
from tests.driven import MOVES
from tests.faults.world import BlockingFamily
from tests.fix_worker import variables_of

CALLS_OF_A_CHILD = 20
SECONDS_OF_A_CHILD = 20
forks = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


class Money:
    """A class that no allow list has."""


async def test_copy_with_a_wider_allow_list_shares_the_connections(config: TierConfig, thread: Thread) -> None:
    await thread.put({"x": [1]})
    strict = TieredSaver(config, serde=JsonPlusSerializer(allowed_msgpack_modules=None))

    async with strict:
        wider = strict.with_allowlist([(Money.__module__, "Money")])

        assert wider is not strict
        found = await wider.aget_tuple(thread.config())
        assert found is not None
        assert found.checkpoint["channel_values"] == {"x": [1]}
    assert wider.config is strict.config  # type: ignore[attr-defined]


async def test_cancelled_calls_cross_no_answers(saver: TieredSaver, tiers: Tiers) -> None:
    """CON-05, without the proxies: hot and archived threads, calls cancelled at any moment."""
    threads = [Thread(saver, f"thread-{number}") for number in range(40)]
    for thread in threads:
        await thread.put({"mark": [thread.thread_id]})
    for thread in threads[::2]:
        await MOVES["evicted"](tiers, thread.thread_id)
    order = random.Random(7)

    calls = [asyncio.ensure_future(call) for t in threads for call in (t.latest(), t.write(("x", 1)), t.latest())]
    for call in order.sample(calls, len(calls) // 2):
        await asyncio.wait({call}, timeout=0.001)
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    for thread in threads:
        assert await thread.values() == {"mark": [thread.thread_id]}
        assert len(await thread.ids()) == 1
    async with asyncio.timeout(10):
        await asyncio.gather(*(tiers.cold.fetch("answers", {}) for _ in range(20)))


async def test_calls_of_one_turn_share_few_writes(tiers: Tiers) -> None:
    async def reads_of_the_server() -> int:
        stats = (await tiers.hot.command("INFO", "stats")).decode()
        return int(stats.split("total_reads_processed:")[1].split()[0])

    await asyncio.gather(*(tiers.hot.command("PING") for _ in range(4)))
    before = await reads_of_the_server()
    await asyncio.gather(*(tiers.hot.command("PING") for _ in range(200)))

    assert await reads_of_the_server() - before < 50


def in_children(work: Callable[[int], None], *, children: int) -> list[int]:
    """Fork, let each child work and end without a clean-up of what it has from here. Their exit codes."""
    pids = []
    for number in range(children):
        pid = os.fork()
        if pid:
            pids.append(pid)
            continue
        try:
            work(number)
            gc.collect()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - whatever it is must not run the tests of the parent
            traceback.print_exc()
        finally:
            os._exit(1)
    return pids


def codes_of(pids: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


async def steps(thread: Thread) -> None:
    """Write, read, be archived and dropped, read again."""
    for number in range(CALLS_OF_A_CHILD):
        await thread.put({"mark": [thread.thread_id, number]})
        assert await thread.values() == {"mark": [thread.thread_id, number]}
    await asyncio.to_thread(thread.saver.demote, thread.thread_id)
    assert await thread.values() == {"mark": [thread.thread_id, CALLS_OF_A_CHILD - 1]}
    assert len(await thread.ids()) == CALLS_OF_A_CHILD


@forks
def test_saver_used_before_a_fork_works_in_parent_and_children(config: TierConfig) -> None:
    """As with `gunicorn --preload`: each process has its own connections, and no answer reaches another one."""
    with BlockingFamily(config) as saver:
        asyncio.run(steps(Thread(saver, "before")))

        pids = in_children(lambda number: asyncio.run(steps(Thread(saver, f"child-{number}"))), children=3)
        asyncio.run(steps(Thread(saver, "meanwhile")))

        assert codes_of(pids) == [0, 0, 0]
        asyncio.run(steps(Thread(saver, "afterwards")))
        assert {found.thread_id for found in saver.list_threads()} == {
            *("before", "meanwhile", "afterwards"),
            *(f"child-{number}" for number in range(3)),
        }


@forks
def test_fork_in_the_middle_of_another_threads_put_leaves_the_child_no_lock_to_wait_for(config: TierConfig) -> None:
    """One thread of the parent stands inside the memory of recent values, as one that a fork stops there for ever."""
    with BlockingFamily(config) as saver:
        asyncio.run(Thread(saver, "before").put({"x": ["long"] * 500}))

        def work(number: int) -> None:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS_OF_A_CHILD)
            asyncio.run(Thread(saver, f"child-{number}").put({"x": ["long"] * 500}))

        with saver._codec.recent._lock:
            pids = in_children(work, children=1)
        assert codes_of(pids) == [0]


@forks
async def test_async_saver_open_at_a_fork_stays_whole_and_can_be_entered_in_the_child(
    config: TierConfig, saver: TieredSaver, thread: Thread
) -> None:
    await thread.put({"x": ["parent"]})

    def work(_: int) -> None:
        async def enter() -> None:
            async with saver:
                await Thread(saver, "child").put({"x": ["child"]})

        asyncio._set_running_loop(None)  # the child begins anew, as a forked server's worker does
        asyncio.run(enter())

    pids = in_children(work, children=2)
    for number in range(CALLS_OF_A_CHILD):
        await thread.put({"x": [number]})
        assert await thread.values() == {"x": [number]}
    assert await asyncio.to_thread(codes_of, pids) == [0, 0]

    assert await Thread(saver, "child").values() == {"x": ["child"]}
    await thread.put({"x": ["afterwards"]})
    assert await saver.demote(thread.thread_id)
    assert await thread.values() == {"x": ["afterwards"]}


LEFT_OPEN = """
import time
from langgraph.graph import START, MessagesState, StateGraph
from saver import TieredSaver

saver = TieredSaver.from_env()
graph = StateGraph(MessagesState).add_node("answer", lambda _: {"messages": [("ai", "hello")]})
graph = graph.add_edge(START, "answer").compile(checkpointer=saver)
config = {"configurable": {"thread_id": "left-open"}}
graph.invoke({"messages": [("user", "hello")]}, config)
saver.demote("left-open")
print(len(graph.get_state(config).values["messages"]))
time.sleep(1)  # its hints are sent, and whoever sends them waits for more
"""


def test_process_that_leaves_its_saver_open_ends(config: TierConfig) -> None:
    """Nothing that waits for its next hint may keep the process alive."""
    done = subprocess.run(
        [sys.executable, "-c", LEFT_OPEN],
        env=variables_of(config),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
