"""
Verify: compare both tiers row by row, for a thread that is in Redis.

Each row that hot holds and that is not in the log must be in cold with the same content, and each checkpoint that cold
has from the floor on must be in hot. Nothing is changed. What moves meanwhile is looked at again, so a difference that
is reported was seen several times.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from saver import hot
from saver.cold import rows_from
from saver.connect import Tiers
from saver.hot import HotCheckpoint, HotPage, Status
from saver.logged import log_batch, rows_of
from saver.rows import BlobRow, CheckpointRow, Rows, WriteRow, merge_writes

PAGE = 100
LOOKS = 4
_ALL_BYTES = 1 << 40
_NO_INCARNATION = -1

Name = tuple[str, ...]  # kind, namespace and the rest of a row's key


class Fact(StrEnum):
    """What the tiers do not agree on."""

    HOT_ALONE = "is in hot alone, and not in the log"
    DIFFERS = "differs"
    COLD_ALONE = "is in cold alone, though hot holds everything from the floor on"


class Difference(NamedTuple):
    """One row that the tiers do not agree on; never what is in it."""

    namespace: str
    kind: str
    key: tuple[str, ...]  # the rest of its key
    fact: Fact

    @property
    def name(self) -> str:
        return " ".join(self.key)


@dataclass(slots=True)
class Verified:
    """What a comparison found. `rows` counts those compared, `dirty` those that only wait to be archived."""

    rows: int = 0
    dirty: int = 0
    differences: tuple[Difference, ...] = ()
    is_resident: bool = True


async def verify(tiers: Tiers, thread_id: str) -> Verified:
    """Compare one thread. Raises HotTierError, ColdTierError."""
    seen: set[Difference] | None = None
    for _ in range(LOOKS):
        found = await _compare(tiers, thread_id)
        # Not an intersection with nothing: the first look has no other to be confirmed by.
        seen = set(found.differences) if seen is None else seen & set(found.differences)
        if not seen:
            return Verified(found.rows, found.dirty, (), found.is_resident)
    return Verified(found.rows, found.dirty, tuple(sorted(seen or ())), found.is_resident)


async def _compare(tiers: Tiers, thread_id: str) -> Verified:
    first = await _hot_page(tiers, thread_id, None, ("", ""), 1)
    if first.status is not Status.OK:
        # A suspect copy is archived and dropped by whoever uses it next.
        return Verified(is_resident=False)
    result, differences = Verified(), list[Difference]()
    for namespace, floor in first.floors.items():
        if floor is not None:
            differences += await _compare_namespace(tiers, thread_id, namespace, floor, result)
    result.differences = tuple(differences)
    return result


async def _compare_namespace(
    tiers: Tiers, thread_id: str, namespace: str, floor: str, result: Verified
) -> list[Difference]:
    differences: list[Difference] = []
    cursor, before = ("", ""), None
    while True:
        page = await _hot_page(tiers, thread_id, namespace, cursor, PAGE)
        # After the page: a row of it that is in no log by now was committed before cold is read.
        dirty = await _dirty(tiers, thread_id)
        is_last = len(page.entries) < PAGE
        lowest = page.entries[-1].checkpoint_id if page.entries else ""
        where = {"thread_id": thread_id, "namespace": namespace, "before": before}
        first = min(floor, lowest) if is_last and page.entries else lowest or floor
        cold = rows_from(await tiers.cold.fetch("rows_between", {**where, "first": first}))
        differences += _differences(page.entries, cold, floor, dirty, result)
        if is_last:
            return differences
        cursor, before = (lowest, namespace), lowest


async def _hot_page(tiers: Tiers, thread_id: str, namespace: str | None, cursor: tuple[str, str], size: int) -> HotPage:
    keys = tiers.keys.thread(thread_id)
    return hot.page_read(await tiers.hot.call(hot.list_page(keys, thread_id, namespace, "", "", size, cursor)))


async def _dirty(tiers: Tiers, thread_id: str) -> set[Name]:
    """The names of the rows in the log."""
    request = hot.log_read(tiers.keys.thread(thread_id), thread_id, _ALL_BYTES, _NO_INCARNATION, 0)
    batch = log_batch(thread_id, await tiers.hot.call(request))
    return set(named(rows_of(batch))) if batch else set()


def _differences(
    entries: Sequence[HotCheckpoint], cold: Rows, floor: str, dirty: set[Name], result: Verified
) -> Iterator[Difference]:
    in_cold = named(cold)
    in_hot: dict[Name, Any] = {}
    for entry in entries:
        if entry.row:
            in_hot |= named(Rows([entry.row], entry.blobs, entry.writes))
    for name, content in in_hot.items():
        if name in dirty:
            result.dirty += 1
            continue
        result.rows += 1
        if name not in in_cold:
            yield _difference(name, Fact.HOT_ALONE)
        elif in_cold[name] != content and not _may_differ(name, floor):
            yield _difference(name, Fact.DIFFERS)
    for name in in_cold:
        if name[0] == "checkpoint" and name[2] >= floor and name not in in_hot:
            yield _difference(name, Fact.COLD_ALONE)


def _may_differ(name: Name, floor: str) -> bool:
    """Below the floor hot does not know the first value of an ordinary write; readers take the one of cold."""
    return name[0] == "write" and name[2] < floor and not name[4].startswith("-")


def named(rows: Rows) -> dict[Name, Any]:
    """The content of each row by its name; JSON as values, since JSONB spells it in its own way."""
    named: dict[Name, Any] = {}
    for row in rows.checkpoints:
        named["checkpoint", row.namespace, row.checkpoint_id] = _content(row)
    for blob in rows.blobs:
        named["blob", blob.namespace, blob.channel, blob.version] = _content(blob)
    for write in merge_writes(rows.writes):
        named["write", write.namespace, write.checkpoint_id, write.task_id, str(write.idx)] = _content(write)
    return named


def _content(row: CheckpointRow | BlobRow | WriteRow) -> tuple[Any, ...]:
    match row:
        case CheckpointRow():
            return row.parent_id, json.loads(row.checkpoint), json.loads(row.metadata)
        case BlobRow():
            return row.type, row.data
        case WriteRow():
            return row.task_path, row.channel, row.type, row.data


def _difference(name: Name, fact: Fact) -> Difference:
    return Difference(name[1], name[0], name[2:], fact)
