"""
An agent process that does what it is told: `python -m tests.faults.caller FAMILY`. Each line of its standard input is a
list of calls to make at once; it answers each line with what they returned.
"""

import asyncio
import json
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import ormsgpack
import pytest

from saver import TierConfig, TieredSaver, TierError
from saver.config import environment_for
from tests.builders import Thread
from tests.faults.world import FAMILIES, World

MOST_AT_ONCE = 64

Call = list[Any]


class Caller:
    """The other end of the pipe."""

    def __init__(self, world: World, family: str, more: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, family],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment_for({**world.variables, **more}),
        )

    async def call(self, *calls: Call) -> list[Any]:
        """What the calls returned, each made while the others were; an error is its text."""
        return await asyncio.to_thread(self._exchange, list(calls))

    def _exchange(self, calls: list[Call]) -> list[Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(calls) + "\n")
        self.process.stdin.flush()
        answers: list[Any] = json.loads(self.process.stdout.readline())
        return answers

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


StartCaller = Callable[..., Caller]


@pytest.fixture
def caller(world: World) -> Iterator[StartCaller]:
    """Starts a process of an agent; it ends with the test."""
    with ExitStack() as stack:

        def start(family: str = "async", **more: str) -> Caller:
            started = Caller(world, family, {f"TIER_{name.upper()}": value for name, value in more.items()})
            stack.callback(started.end)
            return started

        yield start


# ---- the process


def digest(values: Any) -> int:
    """Large values are compared without sending them through a pipe."""
    return zlib.crc32(ormsgpack.packb(values))


async def make(saver: TieredSaver, verb: str, thread_id: str, *arguments: Any) -> Any:
    thread = Thread(saver, thread_id)
    match verb, arguments:
        case "digest", ():
            return digest(await thread.values())
        case "put", (id_, values):
            return await thread.put(values, id_=id_)
        case "write", (id_, task, *writes):
            return await thread.write(*((channel, value) for channel, value in writes), task=task, checkpoint_id=id_)
    raise ValueError(verb)


async def main(family: str) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(MOST_AT_ONCE))
    async with FAMILIES[family](TierConfig.from_env()) as saver:
        while line := await asyncio.to_thread(sys.stdin.readline):
            answers = await asyncio.gather(*(make(saver, *call) for call in json.loads(line)), return_exceptions=True)
            told = [f"{type(one).__name__}: {one}" if isinstance(one, TierError) else one for one in answers]
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
