"""Both tiers for one command, also when one of them is down."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from saver.cold import ColdTier
from saver.config import TierConfig
from saver.connect import Tiers, agree
from saver.errors import ColdTierError, ConfigError, HotTierError, TierError
from saver.keys import Keys
from saver.routes import hot_for_loop

UNDEFINED_TABLE = "42P01"


@dataclass(slots=True)
class Reach:
    """The tiers, and why one does not answer."""

    tiers: Tiers
    hot_fault: TierError | None = None
    cold_fault: TierError | None = None

    @property
    def faults(self) -> Iterator[str]:
        """A sentence for each tier that does not answer."""
        if self.hot_fault:
            yield f"the hot tier does not answer: {self.hot_fault}"
        if self.cold_fault:
            yield f"the cold tier does not answer: {self.cold_fault}"


@asynccontextmanager
async def reach(config: TierConfig) -> AsyncIterator[Reach]:
    """
    Look at both tiers and change neither: no table is made and no number of partitions is fixed.

    Raises ConfigError when this Redis was first used with another number of partitions.
    """
    quiet_pool()
    small = config.model_copy(update={"postgres_min_size": 0, "postgres_max_size": 4})
    tiers = Tiers(small, Keys(config.key_prefix, config.partitions), hot_for_loop(small), ColdTier(small))
    try:
        await tiers.open_cold()
        found = Reach(tiers)
        found.hot_fault, found.cold_fault = await asyncio.gather(_fault(_ask_hot(tiers)), _fault(_ask_cold(tiers)))
        yield found
    finally:
        await tiers.close()


def quiet_pool() -> None:
    """Leave it to us to say that Postgres does not answer: the pool would say so once for each attempt."""
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)


async def _fault(asked: Awaitable[None]) -> TierError | None:
    try:
        await asked
    except ConfigError:
        raise
    except TierError as error:
        return error
    return None


async def _ask_hot(tiers: Tiers) -> None:
    if await tiers.hot.command("EXISTS", tiers.keys.settings):
        await agree(tiers)


async def _ask_cold(tiers: Tiers) -> None:
    try:
        await tiers.cold.fetch("count_cold", {})
    except ColdTierError as error:
        if error.sqlstate != UNDEFINED_TABLE:
            raise
        schema = tiers.config.postgres_schema
        raise ColdTierError(
            f"schema {schema!r} has no tables of ours; the first agent or worker makes them", sqlstate=error.sqlstate
        ) from error


def need(found: Reach, *, hot: bool = False, cold: bool = False) -> None:
    """Raise the fault of a tier that the command cannot do without."""
    if hot and found.hot_fault:
        raise HotTierError(str(found.hot_fault)) from found.hot_fault
    if cold and found.cold_fault:
        raise ColdTierError(str(found.cold_fault)) from found.cold_fault
