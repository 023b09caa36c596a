"""A LangGraph checkpointer with a Redis hot tier and a Postgres cold tier."""

from saver.config import TierConfig
from saver.errors import (
    ColdTierError,
    ConfigError,
    HotTierError,
    InvalidThread,
    RunLockLost,
    RunLockTaken,
    StaleRun,
    ThreadHeld,
    TierError,
)
from saver.threads import make_thread_id
from saver.tiered import TieredSaver

__all__ = [
    "ColdTierError",
    "ConfigError",
    "HotTierError",
    "InvalidThread",
    "RunLockLost",
    "RunLockTaken",
    "StaleRun",
    "ThreadHeld",
    "TierConfig",
    "TierError",
    "TieredSaver",
    "make_thread_id",
]
