"""
A process of its own that moves one thread and stops at a named point of the protocol: `python -m tests.faults.mover
VERB THREAD POINT`. It says so on standard output and goes on when its standard input ends.
"""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest

from jobs.demote import demote_due
from jobs.retain import retain
from jobs.trim import trim
from saver import TierConfig
from saver.archive import archive
from saver.config import environment_for
from saver.connect import Tiers, connect
from saver.copying import copy
from saver.demote import demote
from saver.destroy import delete
from saver.load import promote
from saver.prune import keep_newest
from tests.builders import Thread
from tests.faults.world import World

VERBS: dict[str, Callable[[Tiers, str], Awaitable[Any]]] = {
    "archive": lambda tiers, thread_id: archive(tiers, [thread_id]),
    "copy": lambda tiers, thread_id: copy(tiers, thread_id, f"copy of {thread_id}"),
    "delete": delete,
    "demote": demote,
    "demote idle": lambda tiers, thread_id: demote_due(tiers, tiers.keys.partition(thread_id)),
    "promote": promote,
    "prune": lambda tiers, thread_id: keep_newest(tiers, thread_id, 1),
    "retain": lambda tiers, _: retain(tiers),
    "trim": lambda tiers, thread_id: trim(tiers, [thread_id]),
}

Process = subprocess.Popen[str]


class StartMover(Protocol):
    """Starts a mover and waits until it has stopped; settings are TIER_ variables without the prefix."""

    def __call__(self, verb: str, thread: Thread, point: str, **settings: str) -> Process: ...


@pytest.fixture
def mover(world: World) -> Iterator[StartMover]:
    """Starts a process that moves a thread and stops at a point."""
    with ExitStack() as stack:

        def start(verb: str, thread: Thread, point: str, **settings: str) -> Process:
            more = {f"TIER_{name.upper()}": value for name, value in settings.items()}
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, verb, thread.thread_id, point],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment_for({**world.variables, **more}),
            )
            stack.callback(_end, process)
            assert process.stdout is not None
            assert process.stdout.readline() == "stopped\n"
            return process

        yield start


def _end(process: Process) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


# ---- the process


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def main(verb: str, thread_id: str, stop_at: str) -> None:
    async def pause(point: str) -> None:
        if point == stop_at:
            say("stopped")
            await asyncio.to_thread(sys.stdin.read)

    async with connect(TierConfig.from_env()) as tiers:
        tiers.pause = pause
        await VERBS[verb](tiers, thread_id)
    say("done")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
