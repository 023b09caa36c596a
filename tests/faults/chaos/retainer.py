"""Applies a retention of some seconds all the time: `python -m tests.faults.chaos.retainer`."""

import asyncio
import signal
from contextlib import suppress

from jobs.retain import retain
from saver import TierConfig
from saver.connect import connect
from tests.faults.chaos.agent import FAULTS

PAUSE_SECONDS = 0.5


async def main() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    while not stop.is_set():
        with suppress(*FAULTS):
            async with connect(TierConfig.from_env()) as tiers:
                while not stop.is_set():
                    with suppress(*FAULTS):
                        await retain(tiers)
                    with suppress(TimeoutError):
                        await asyncio.wait_for(stop.wait(), PAUSE_SECONDS)


if __name__ == "__main__":
    asyncio.run(main())
