"""Outline of one thread: where it is and how large, by namespace, never what is in it."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from saver.connect import Tiers
from saver.hot import Request
from saver.scripts import script


class HotSpace(NamedTuple):
    """What hot has of a namespace."""

    namespace: str
    is_loaded: bool
    floor: str
    checkpoints: int
    blobs: int
    size_bytes: int


class ColdSpace(NamedTuple):
    """What cold has of a namespace."""

    namespace: str
    checkpoints: int
    blobs: int
    writes: int
    size_bytes: int
    newest: str | None


@dataclass(slots=True)
class HotOutline:
    """A thread in hot."""

    incarnation: int
    is_suspect: bool
    dirty_rows: int
    dirty_for: timedelta | None
    idle_for: timedelta | None
    refused_because: str | None
    spaces: list[HotSpace] = field(default_factory=list)


@dataclass(slots=True)
class ColdOutline:
    """A thread in cold; `last_activity` is when it was archived last, None for one that only the stock saver wrote."""

    last_activity: datetime | None
    spaces: list[ColdSpace] = field(default_factory=list)


async def outline_hot(tiers: Tiers, thread_id: str) -> HotOutline | None:
    """The thread in hot, or None. It counts as no access. Raises HotTierError."""
    request = Request(script("outline"), tiers.keys.thread(thread_id), (thread_id,))
    reply: list[Any] = await tiers.hot.call(request)
    if not reply:
        return None
    incarnation, suspect, rows, dirty, idle, aside, flat = reply
    spaces = [
        HotSpace(ns.decode(), bool(loaded), floor.decode(), checkpoints, blobs, size_bytes)
        for ns, loaded, floor, checkpoints, blobs, _, size_bytes in (flat[at : at + 7] for at in range(0, len(flat), 7))
    ]
    reason = aside.decode(errors="replace") or None
    return HotOutline(incarnation, bool(suspect), rows, _age(dirty), _age(idle), reason, sorted(spaces))


async def outline_cold(tiers: Tiers, thread_id: str) -> ColdOutline | None:
    """The thread in cold, or None. Raises ColdTierError."""
    where = {"thread_id": thread_id}
    spaces = [ColdSpace(*record) for record in await tiers.cold.fetch("outline", where)]
    if not spaces:
        return None
    found = await tiers.cold.fetch("tier_row", where)
    return ColdOutline(found[0][2] if found else None, spaces)


def _age(milliseconds: int) -> timedelta | None:
    return None if milliseconds < 0 else timedelta(milliseconds=milliseconds)
