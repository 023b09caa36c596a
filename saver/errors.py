"""
The errors users meet. A message names the thing, the fact and the next step; the driver's exception is the cause.

No message quotes a URL, a payload or a row.
"""


class TierError(Exception):
    """Base of every error this library raises on its own account."""


class HotTierError(TierError):
    """Redis did not do what was asked: unreachable, full, read-only, or slower than TIER_REDIS_TIMEOUT."""

    def __init__(self, message: str, *, is_refusal: bool = False, code: str = "") -> None:
        super().__init__(message)
        self.code = code  # the word that Redis begins an error with, like READONLY
        self.is_refusal = is_refusal  # Redis objects to what stands in a key, so that trying again cannot help


class ColdTierError(TierError):
    """Postgres did not do what was asked: unreachable, refusing, or slower than TIER_POSTGRES_TIMEOUT."""

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate

    @property
    def is_refusal(self) -> bool:
        """Whether Postgres objects to the data itself, so that trying again cannot help (SQLSTATE classes of data)."""
        return self.sqlstate is not None and self.sqlstate[:2] in ("21", "22", "23", "54")


class InvalidThread(TierError, ValueError):  # noqa: N818 - the name is part of the public contract
    """An id, a channel or a value that Postgres could not store. Nothing was written."""


class StaleRun(TierError):  # noqa: N818 - reads as the fact it reports
    """
    The thread changed under a run that builds on its ancestors: they were retained, or Redis lost its history.

    Nothing was written. Read the thread again and repeat the run from what is there.
    """


class ThreadHeld(TierError):  # noqa: N818 - reads as the fact it reports
    """Somebody put a legal hold on the thread: nothing of it is deleted until that is taken away."""


class RunLockLost(TierError):  # noqa: N818 - the name is part of the public contract
    """The run no longer holds the lock of its thread. Nothing was written."""


class RunLockTaken(TierError):  # noqa: N818 - reads as the fact it reports
    """Another run kept the lock of the thread for longer than this one was to wait."""


class ConfigError(TierError):
    """The configuration is wrong. The message lists every fault at once and shows no secret."""
