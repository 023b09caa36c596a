"""
A process of its own that moves one thread and stops at a named point of the protocol: `python -m tests.faults.mover
VERB THREAD POINT`. It says so on standard output and goes on when its standard input ends.
"""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from saver import TierConfig
from saver.archive import archive
from saver.config import environment_for
from saver.connect import Tiers, connect
from saver.demote import demote
from saver.destroy import delete
from saver.load import promote
from tests.builders import Thread
from tests.faults.world import World

VERBS: dict[str, Callable[[Tiers, str], Awaitable[Any]]] = {
    "archive": lambda tiers, thread_id: archive(tiers, [thread_id]),
    "demote": demote,
    "delete": delete,
    "promote": promote,
}

Process = subprocess.Popen[str]
StartMover = Callable[[str, Thread, str], Process]


@pytest.fixture
def mover(world: World) -> Iterator[StartMover]:
    """Starts a process that moves a thread and stops at a point."""
    with ExitStack() as stack:

        def start(verb: str, thread: Thread, point: str) -> Process:
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, verb, thread.thread_id, point],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment_for(world.variables),
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
