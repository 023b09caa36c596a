"""What a worker does beside its jobs, for as long as it runs."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

log = logging.getLogger(__name__)


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None], if_it_fails: str) -> AsyncIterator[None]:
    """Run some work while the body runs; should it fail before, say what that means."""
    task = asyncio.create_task(work)
    task.add_done_callback(partial(_told, if_it_fails))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def _told(if_it_fails: str, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error(if_it_fails, exc_info=error)
