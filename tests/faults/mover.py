"""
A process of its own that moves one thread and stops at a named point of the protocol: `python -m tests.faults.mover
VERB THREAD POINT`. It says so on standard output and goes on when its standard input ends.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from saver import TierConfig
from saver.archive import archive
from saver.connect import Tiers, connect
from saver.demote import demote
from saver.destroy import delete
from saver.load import promote

VERBS: dict[str, Callable[[Tiers, str], Awaitable[Any]]] = {
    "archive": lambda tiers, thread_id: archive(tiers, [thread_id]),
    "demote": demote,
    "delete": delete,
    "promote": promote,
}


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
