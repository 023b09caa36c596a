"""
Quarantine: set a thread aside that cannot be archived, so that it does not starve others.

It stays in Redis, readable and writable. A row of it is never part of what is noted about it.
"""

import json
import logging
from datetime import UTC, datetime
from typing import NamedTuple

from zstandard import ZstdError

from saver import hot
from saver.connect import Tiers
from saver.errors import ColdTierError, HotTierError, TierError

log = logging.getLogger(__name__)

# What packed rows that are damaged, or values that a driver cannot send, end in.
DAMAGE = (TierError, ValueError, LookupError, TypeError, OverflowError, ZstdError)


class Aside(NamedTuple):
    """A thread in quarantine."""

    thread_id: str
    reason: str  # the kind of error
    sqlstate: str | None
    since: datetime
    attempts: int


def is_about_data(error: Exception) -> bool:
    """Whether a move failed because of what is in the thread, so that trying again cannot help."""
    return error.is_refusal if isinstance(error, (ColdTierError, HotTierError)) else isinstance(error, DAMAGE)


async def set_aside(tiers: Tiers, thread_id: str, error: Exception) -> bool:
    """Take a dirty thread out of the line. False if it is not dirty any more. Raises HotTierError."""
    keys = tiers.keys.thread(thread_id)
    known = await tiers.hot.command(*hot.why_aside(keys.quarantine, thread_id))
    attempts = _read(thread_id, known).attempts if known else 0
    aside = Aside(
        thread_id,
        _kind(error),
        getattr(error, "sqlstate", None),
        datetime.now(UTC).replace(microsecond=0),
        attempts + 1,
    )
    is_aside = bool(await tiers.hot.call(hot.set_aside(keys, thread_id, _written(aside))))
    if is_aside:
        log.error(
            "thread set aside: it cannot be archived",
            extra={"thread_id": thread_id, "reason": aside.reason, "sqlstate": aside.sqlstate},
        )
    return is_aside


async def list_aside(tiers: Tiers, partition: int) -> list[Aside]:
    """The quarantine of a partition. Raises HotTierError."""
    flat = await tiers.hot.command(*hot.aside(tiers.keys.quarantine(partition)))
    return [_read(name.decode(), value) for name, value in zip(flat[::2], flat[1::2], strict=True)]


async def retry(tiers: Tiers, thread_id: str) -> bool:
    """Put a thread back in line. False if it was not set aside. Raises HotTierError."""
    return bool(await tiers.hot.call(hot.put_back(tiers.keys.thread(thread_id), thread_id)))


def _kind(error: Exception) -> str:
    cause = error.__cause__ if isinstance(error, TierError) else None
    return type(cause or error).__name__


def _written(aside: Aside) -> str:
    return json.dumps(
        {
            "reason": aside.reason,
            "sqlstate": aside.sqlstate,
            "since": aside.since.isoformat(),
            "attempts": aside.attempts,
        }
    )


def _read(thread_id: str, value: bytes) -> Aside:
    noted = json.loads(value)
    since = datetime.fromisoformat(noted["since"])
    return Aside(thread_id, noted["reason"], noted["sqlstate"], since, noted["attempts"])
