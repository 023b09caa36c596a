"""Waiting for what another process does, with a limit."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

LOOKS_AGAIN_SECONDS = 0.2


async def until(look: Callable[[], Awaitable[Any]], seconds: float) -> bool:
    """Look until what is seen is true. False if it is not after these seconds."""
    try:
        async with asyncio.timeout(seconds):
            while not await look():  # noqa: ASYNC110 - another process does it, which sets no event here
                await asyncio.sleep(LOOKS_AGAIN_SECONDS)
    except TimeoutError:
        return False
    return True
