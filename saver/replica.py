"""
A read replica of Postgres, for what may be a little old: listings, counts and sizes.

Nothing that decides is read here: no load, no read of a checkpoint, no move, no retention. There, what a replica lacks
would be a lost write, and what it still has a deleted thread.
"""

import logging
import time

from psycopg.rows import TupleRow

from saver.cold import ColdTier, Parameters, Transaction
from saver.config import TierConfig
from saver.errors import ColdTierError

OLDEST_SECONDS = 30.0  # what is older is asked of the primary
PAUSE_SECONDS = 30.0  # after a replica that failed or lags is left alone

log = logging.getLogger(__name__)


class Replica:
    """The replica of TIER_POSTGRES_REPLICA_URL, or the primary: without one, and while that is down or lags."""

    def __init__(self, config: TierConfig, primary: ColdTier) -> None:
        self.oldest_seconds = OLDEST_SECONDS
        self._primary = primary
        self._replica: ColdTier | None = None
        self._left_alone_until = float("-inf")
        if url := config.postgres_replica_url:
            # Half of the time: the rest is for the primary.
            changes = {"postgres_url": url, "postgres_min_size": 0, "postgres_timeout": config.postgres_timeout / 2}
            self._replica = ColdTier(config.model_copy(update=changes))

    async def open(self) -> None:
        """Connects when it is used."""
        if self._replica is not None:
            await self._replica.open()

    async def close(self) -> None:
        if self._replica is not None:
            await self._replica.close()

    async def fetch(self, name: str, parameters: Parameters) -> list[TupleRow]:
        """One statement, whose answer may be OLDEST_SECONDS old. Raises ColdTierError when the primary fails too."""
        if self._replica is not None and time.monotonic() >= self._left_alone_until:
            try:
                age, records = await self._ask(self._replica, name, parameters)
            except ColdTierError as error:
                self._leave_alone(str(error))
            else:
                if age <= self.oldest_seconds:
                    return records
                self._leave_alone(f"it lags {age:.0f} s")
        return await self._primary.fetch(name, parameters)

    async def _ask(self, replica: ColdTier, name: str, parameters: Parameters) -> tuple[float, list[TupleRow]]:
        async def ask(transaction: Transaction) -> tuple[float, list[TupleRow]]:
            [(age,)], records = await transaction.fetch_many([("replica_age", {}), (name, parameters)])
            return age, records

        return await replica.transact(ask)

    def _leave_alone(self, reason: str) -> None:
        self._left_alone_until = time.monotonic() + PAUSE_SECONDS
        log.warning("the read replica is not used for a while", extra={"reason": reason})
