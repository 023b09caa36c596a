"""
List: checkpoints of one thread or of all, newest first by id, over the union of the tiers, a page at a time.

A page asks hot, then cold, and gives out only what lies above the end of both answers, so no later page can bring
something that belonged before it.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple
from psycopg.types.json import Jsonb

from saver import hot
from saver.codec import Codec
from saver.cold import rows_by_thread
from saver.connect import Tiers
from saver.errors import HotTierError
from saver.hot import WHOLE, HotCheckpoint, HotPage, Status
from saver.keys import Keys
from saver.load import heal, page_of
from saver.operations import Context, as_rows, decoded, merged
from saver.rows import CheckpointRow, Rows
from saver.steps import Slow, Steps
from saver.storable import contains

PAGE = 100
MOST_ATTEMPTS = 12

Place = tuple[str, str, str]  # checkpoint id, thread id, namespace: the order of the listing


@dataclass(frozen=True, slots=True)
class Query:
    """What LangGraph asked for; None does not filter."""

    thread_id: str | None
    namespace: str | None
    checkpoint_id: str
    before: str
    filter: dict[str, Any] | None


@dataclass(slots=True)
class Found:
    """A page: rows of one checkpoint each, in order, and where the next page begins (None: the end)."""

    entries: list[tuple[Place, Rows]]
    end: Place | None


class Listing:
    """A walk down the listing; call `next_page` until `is_done`."""

    def __init__(self, context: Context, codec: Codec, query: Query, limit: int | None) -> None:
        self.is_done = limit is not None and limit <= 0
        self._context = context
        self._codec = codec
        self._query = query
        self._left = limit
        self._after: Place | None = None
        self._resident: dict[Place, HotCheckpoint] | None = None

    def next_page(self) -> Steps[list[CheckpointTuple]]:
        size = PAGE if self._left is None or self._query.filter else min(PAGE, self._left)
        if self._query.thread_id is not None:
            found = yield from _page(self._context.keys, self._query, self._after, size)
        else:
            if self._resident is None:
                self._resident = yield Slow(resident_entries, (self._query,))
            found = yield from _page_of_all(self._resident, self._query, self._after, size)
        self._after = found.end
        tuples = []
        for place, rows in found.entries:
            if not rows.checkpoints or not self._passes(rows.checkpoints[0]):
                continue
            tuples.append((yield from decoded(self._context, self._codec, place[1], rows)))
            if len(tuples) == self._left:
                break
        if self._left is not None:
            self._left -= len(tuples)
        self.is_done = found.end is None or self._left == 0
        return tuples

    def _passes(self, row: CheckpointRow) -> bool:
        return not self._query.filter or contains(json.loads(row.metadata), self._query.filter)


def _page(keys: Keys, query: Query, after: Place | None, size: int) -> Steps[Found]:
    """The next page of the listing of one thread."""
    thread_id = query.thread_id or ""
    cursor = (after[0], after[2]) if after else ("", "")
    request = hot.list_page(
        keys.thread(thread_id), thread_id, query.namespace, query.checkpoint_id, query.before, size, cursor
    )
    for _ in range(MOST_ATTEMPTS):
        answer = hot.page_read((yield request))
        if answer.status is not Status.SUSPECT:
            break
        yield Slow(heal, (thread_id,))
    else:
        raise HotTierError("the thread kept changing its history; try again")
    entries = _placed(answer, thread_id)
    if _hot_suffices(answer, query, size):
        return _joined(entries, len(entries) >= size, [], False)
    below = [place for place in entries if place[0] < (answer.floors.get(place[2]) or WHOLE)]
    records = yield Slow(read_cold, (query, after, size, below))
    return _joined(entries, len(entries) >= size, records, _count(records) >= size)


def _count(records: list[Any]) -> int:
    return sum(1 for record in records if record[0] == "c")


def _placed(answer: HotPage, thread_id: str) -> dict[Place, HotCheckpoint]:
    return {(entry.checkpoint_id, thread_id, entry.namespace): entry for entry in answer.entries}


def _hot_suffices(answer: HotPage, query: Query, size: int) -> bool:
    """Whether hot holds everything of one namespace down to the end of its answer."""
    if answer.status is not Status.OK or query.namespace is None:
        return False
    floor = answer.floors.get(query.namespace, WHOLE)
    if floor is None:
        return False
    if floor == WHOLE or (query.checkpoint_id and query.checkpoint_id >= floor):
        return True
    return len(answer.entries) >= size and answer.entries[-1].checkpoint_id >= floor


async def read_cold(tiers: Tiers, query: Query, after: Place | None, size: int, in_hot: Sequence[Place]) -> list[Any]:
    """The next page of cold, and what cold has of some checkpoints of which hot has a part."""
    parameters = {
        "thread_id": query.thread_id,
        "namespace": query.namespace,
        "checkpoint_id": query.checkpoint_id or None,
        "before": query.before or None,
        "after": list(after) if after else None,
        "filter": Jsonb(query.filter) if query.filter else None,
        "threads_in_hot": [thread_id for _, thread_id, _ in in_hot],
        "namespaces_in_hot": [namespace for _, _, namespace in in_hot],
        "ids_in_hot": [checkpoint_id for checkpoint_id, _, _ in in_hot],
        "limit": size,
    }
    return await tiers.cold.fetch("read_page", parameters)


def _joined(entries: dict[Place, HotCheckpoint], hot_is_full: bool, records: list[Any], cold_is_full: bool) -> Found:
    cold = dict(_cold_entries(records))
    ends = [min(entries)] if hot_is_full and entries else []
    ends += [min(place for place, rows in cold.items() if rows.checkpoints)] if cold_is_full else []
    end = max(ends) if ends else None
    places = sorted((place for place in {*entries, *cold} if end is None or place >= end), reverse=True)
    return Found([(place, _merged(entries.get(place), cold.get(place))) for place in places], end)


def _merged(in_hot: HotCheckpoint | None, in_cold: Rows | None) -> Rows:
    return merged(as_rows(in_hot) if in_hot else Rows(), in_cold or Rows())


def _cold_entries(records: list[Any]) -> Iterator[tuple[Place, Rows]]:
    """Split records into one Rows per checkpoint; a blob goes to every checkpoint whose versions name it."""
    for thread_id, rows in rows_by_thread(records).items():
        entries: dict[tuple[str, str], Rows] = {}
        for write in rows.writes:
            entries.setdefault((write.checkpoint_id, write.namespace), Rows()).writes.append(write)
        blobs = {(blob.namespace, blob.channel, blob.version): blob for blob in rows.blobs}
        for row in rows.checkpoints:
            entry = entries.setdefault((row.checkpoint_id, row.namespace), Rows())
            entry.checkpoints.append(row)
            names = hot.channel_versions(row).items()
            entry.blobs += [blobs[key] for c, v in names if (key := (row.namespace, c, str(v))) in blobs]
        for (checkpoint_id, namespace), entry in entries.items():
            yield (checkpoint_id, thread_id, namespace), entry


async def resident_entries(tiers: Tiers, query: Query) -> dict[Place, HotCheckpoint]:
    """Every checkpoint that hot holds of any thread: for listings without a thread."""
    entries: dict[Place, HotCheckpoint] = {}
    for partition in range(tiers.keys.partitions):
        members = await tiers.hot.command("ZRANGE", tiers.keys.idle(partition), 0, -1)
        for thread_id in (member.decode() for member in members):
            entries |= await entries_of(tiers, replace(query, thread_id=thread_id), thread_id)
    return entries


async def entries_of(tiers: Tiers, query: Query, thread_id: str) -> dict[Place, HotCheckpoint]:
    entries: dict[Place, HotCheckpoint] = {}
    cursor = ("", "")
    while True:
        request = hot.list_page(
            tiers.keys.thread(thread_id), thread_id, query.namespace, query.checkpoint_id, query.before, PAGE, cursor
        )
        answer = await page_of(tiers, thread_id, request)
        entries |= _placed(answer, thread_id)
        if len(answer.entries) < PAGE:
            return entries
        cursor = (answer.entries[-1].checkpoint_id, answer.entries[-1].namespace)


def _page_of_all(entries: dict[Place, HotCheckpoint], query: Query, after: Place | None, size: int) -> Steps[Found]:
    """The next page over all threads, given what hot holds."""
    places = sorted((place for place in entries if after is None or place < after), reverse=True)
    part = {place: entries[place] for place in places[:size]}
    records = yield Slow(read_cold, (query, after, size, list(part)))
    return _joined(part, len(part) >= size, records, _count(records) >= size)
