"""Open both tiers, close them in reverse."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from saver.cold import ColdTier
from saver.config import TierConfig
from saver.errors import ConfigError
from saver.keys import LAYOUT_VERSION, Keys
from saver.replica import Replica
from saver.routes import Hot, hot_for_loop
from saver.sharing import Sharing

SLOWEST_MOVE_SECONDS = 25.0  # a job ends before arq's own limit of 30 s


async def _go_on(_: str) -> None:
    """No pause: tests put a hook here to stop a process between two steps."""


@dataclass(slots=True)
class Tiers:
    """Both tiers, as one event loop sees them."""

    config: TierConfig
    keys: Keys
    hot: Hot
    cold: ColdTier
    pause: Callable[[str], Awaitable[None]] = _go_on
    loads: Sharing = field(default_factory=Sharing)
    is_first_use: bool = False  # of this Redis, also the first since it was emptied
    replica: Replica = field(init=False)

    def __post_init__(self) -> None:
        self.replica = Replica(self.config, self.cold)

    @property
    def move_timeout(self) -> float:
        """Seconds for a transaction that moves many threads."""
        return max(self.cold.timeout, SLOWEST_MOVE_SECONDS)

    async def open_cold(self) -> None:
        """Let the pools begin to connect."""
        await self.cold.open()
        await self.replica.open()

    async def close(self) -> None:
        """Close everything, opened or not."""
        await self.loads.close()
        await self.replica.close()
        await self.cold.close()
        await self.hot.close()


@asynccontextmanager
async def connect(config: TierConfig, *, setup: bool = True) -> AsyncIterator[Tiers]:
    """
    Open both tiers in this event loop and make sure that they are ours to use.

    Raises HotTierError or ColdTierError when one does not answer, ConfigError when the number of partitions is not the
    one that this Redis was first used with.
    """
    tiers = Tiers(config, Keys(config.key_prefix, config.partitions), hot_for_loop(config), ColdTier(config))
    try:
        tiers.is_first_use = await agree(tiers)
        await tiers.open_cold()
        if setup:
            await tiers.cold.setup()
        yield tiers
    finally:
        await tiers.close()


async def agree(tiers: Tiers) -> bool:
    """
    Fix the number of partitions at first use; refuse another one later, which would look for threads elsewhere.

    Returns whether this is the first use, also the first since Redis was emptied.
    """
    key, wanted = tiers.keys.settings, {"partitions": tiers.keys.partitions, "layout": LAYOUT_VERSION}
    known = await tiers.hot.command("HMGET", key, *wanted)
    is_first_use = None in known
    if is_first_use:
        # Only now: a Redis that is full refuses even this, and would keep out whoever comes to free it.
        for name, value in wanted.items():
            await tiers.hot.command("HSETNX", key, name, value)
        known = await tiers.hot.command("HMGET", key, *wanted)
    for (name, value), found in zip(wanted.items(), map(int, known), strict=True):
        if found != value:
            raise ConfigError(
                f"this Redis was first used with {name} = {found} and this process has {value}: "
                f"set TIER_PARTITIONS={found}, or choose another TIER_KEY_PREFIX"
                if name == "partitions"
                else f"this Redis holds key layout {found} and this version knows {value}: upgrade this process"
            )
    return is_first_use
