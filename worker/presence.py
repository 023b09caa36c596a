"""
Presence: each worker says every few seconds that it lives, so that anybody can count the living.

One whose main loop stands still says nothing, though its process is there.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from saver.connect import Tiers
from saver.errors import HotTierError
from saver.survey import say_alive, say_gone
from worker.background import beside
from worker.queue import QueueRedis

BEAT_SECONDS = 5.0

log = logging.getLogger(__name__)


@asynccontextmanager
async def present(tiers: Tiers, queue: QueueRedis) -> AsyncIterator[None]:
    """Be counted while the body runs."""
    name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    async with beside(_beat(tiers, queue, name), "this worker is no longer counted among the living"):
        yield
    with suppress(HotTierError):
        await say_gone(tiers, name)


async def _beat(tiers: Tiers, queue: QueueRedis, name: str) -> None:
    while True:
        if queue.is_alive:
            try:
                await say_alive(tiers, name)
            except HotTierError as error:
                log.debug("presence cannot be told", extra={"reason": str(error)})
        await asyncio.sleep(BEAT_SECONDS)
