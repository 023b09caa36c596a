"""Fill the hot tier with threads, as agents would."""

import asyncio
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.base import BaseCheckpointSaver

from tests.bench.load import MESSAGES_OF_STATE, Thread

AT_ONCE = 16


async def grow(saver: BaseCheckpointSaver[Any], checkpoints: int) -> str:
    """One thread of a 4 KB state: a put and the update of one node per checkpoint. Returns its id."""
    thread = Thread(saver, MESSAGES_OF_STATE["4 KB"])
    for _ in range(checkpoints):
        thread.stored(await saver.aput(*thread.next()))
        await saver.aput_writes(thread.config, thread.update(), str(uuid4()))
    return str(thread.config["configurable"]["thread_id"])


async def fill(saver: BaseCheckpointSaver[Any], threads: int, checkpoints: int) -> list[str]:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one() -> str:
        async with limit:
            return await grow(saver, checkpoints)

    return await asyncio.gather(*(one() for _ in range(threads)))
