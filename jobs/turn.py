"""A turn: what is due in one index of a partition, batch by batch, until nothing is left or the time is up."""

import time
from collections.abc import AsyncIterator
from datetime import timedelta

from saver import hot
from saver.connect import Tiers

# No batch begins later than this after the first. The last one has its own limit, and a job of arq ends after 30 s.
TURN_SECONDS = 4.0


class Turn:
    """
    Iterate over it for batches of thread ids, longest waiting first.

    What cannot be moved now goes into `left` and is not offered again in this turn.
    """

    def __init__(self, tiers: Tiers, key: str, waiting: timedelta) -> None:
        self.left: set[str] = set()
        self.is_done = False  # nothing is due any more but what was left
        self._tiers = tiers
        self._key = key
        self._waiting_ms = round(waiting.total_seconds() * 1000)

    async def __aiter__(self) -> AsyncIterator[list[str]]:
        most = self._tiers.config.batch_threads
        deadline = time.monotonic() + TURN_SECONDS
        while time.monotonic() < deadline:
            found = await self._tiers.hot.call(hot.due(self._key, self._waiting_ms, most + len(self.left)))
            names = [name for one in found if (name := one.decode()) not in self.left][:most]
            if not names:
                self.is_done = True
                return
            yield names
