"""
Relief: when Redis is full, arq cannot write its queue; then the moves that make room are made without it.

Archiving and demoting only shorten and drop what is in Redis, which a full one still takes.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jobs.sweep import sweep
from worker.background import beside
from worker.functions import Context, Work, archive, demote

LOOK_SECONDS = 1.0

log = logging.getLogger(__name__)


@asynccontextmanager
async def relieving(ctx: Context) -> AsyncIterator[None]:
    """Watch for a full queue while the body runs."""
    async with beside(_watch(ctx), "nobody watches for a full queue any more"):
        yield


async def relieve(ctx: Context) -> None:
    """Archive and demote all that is due, one partition after the other."""
    work: Work = ctx["work"]

    async def move(job: str, partition: int) -> None:
        if job != "promote":
            await (archive if job == "archive" else demote)(ctx, partition)

    async with work.attempt("sweep"):
        await sweep(work.tiers, move)


async def _watch(ctx: Context) -> None:
    work: Work = ctx["work"]
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if work.queue.is_full:
            work.queue.is_full = False
            log.error("Redis is full: no job can be queued, so what is due is moved without arq")
            await relieve(ctx)
