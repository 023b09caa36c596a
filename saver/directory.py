"""
Which threads there are, over both tiers, last written first.

Postgres knows every archived thread; Redis knows what is not archived yet and what is hot. Postgres finds threads by
what their newest checkpoint says, without looking at the others (`tier_labels`).
"""

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime
from typing import Any, NamedTuple

from psycopg.types.json import Jsonb

from saver import hot
from saver.connect import Tiers
from saver.demote import Tier
from saver.hot import HotCheckpoint, Status
from saver.load import page_of
from saver.rows import Rows
from saver.storable import condition, contains

MOST_DIRTY = 10_000  # threads not archived yet that one listing looks at, last written first
PAGE = 500
MOST_CHECKPOINTS = 100_000  # of one thread, measured in hot
# What changes with every step stands in no label (`step_keys` in `sql/labels.sql`).
STEP_KEYS = frozenset(
    ["source", "step", "parents", "writes", "run_id", "counters_since_delta_snapshot", "delta_writes_versioned"]
)


class ThreadInfo(NamedTuple):
    """
    A thread as a listing shows it.

    The last activity of an archived thread is when it was archived last; the first is what its oldest checkpoint says,
    None if that is no moment. The size is that of its content in Postgres, or in Redis for what is not there yet.
    """

    thread_id: str
    tier: Tier
    last_activity: datetime
    checkpoints: int
    metadata: dict[str, Any]
    first_activity: datetime | None = None
    size_bytes: int = 0


async def list_threads(
    tiers: Tiers, metadata: Mapping[str, Any] | None, limit: int, after: ThreadInfo | None = None
) -> list[ThreadInfo]:
    """
    Threads whose newest checkpoint has this metadata (JSONB containment), last written first.

    `after` is the last one of the page before; a thread that is written meanwhile moves to the front. A thread that no
    worker has archived yet is found too.

    Raises HotTierError, ColdTierError, and InvalidThread for what no metadata could hold.
    """
    wanted = condition(metadata) or {}
    dirty = await _not_archived(tiers)
    heads = await _heads(tiers, dirty)
    waiting = await _matching(tiers, heads, wanted, limit, after)
    archived = await _archived(tiers, list(heads), wanted, limit, after)
    found = sorted([*waiting, *archived], key=lambda info: info.last_activity, reverse=True)
    return await _measured(tiers, found[:limit], set(dirty))


async def count_threads(tiers: Tiers, metadata: Mapping[str, Any]) -> int:
    """
    How many threads' newest checkpoints have this metadata. Raises HotTierError, ColdTierError.

    Not by keys that change with every step, like `step` or `run_id`: these Postgres would have to search for.
    """
    wanted = condition(metadata) or {}
    heads = await _heads(tiers, await _not_archived(tiers))
    waiting = sum(contains(told, wanted) for told in heads.values())
    [(archived,)] = await tiers.replica.fetch("count_found", {"skip": list(heads), "labels": Jsonb(wanted)})
    return waiting + int(archived)


async def matching(tiers: Tiers, metadata: Mapping[str, Any]) -> AsyncIterator[str]:
    """
    The ids of all threads whose newest checkpoint has this metadata, of all threads if that is empty, each once.

    First those that are not archived yet. Threads that only the stock saver wrote have no labels before a retention
    run. Raises HotTierError, ColdTierError.
    """
    heads = await _heads(tiers, await _not_archived(tiers))
    for thread_id, told in heads.items():
        if contains(told, metadata):
            yield thread_id
    statement, after = "labelled_threads" if metadata else "all_threads", ""
    while True:
        where = {"after": after, "limit": PAGE, "labels": Jsonb(dict(metadata))}
        found = [thread_id for (thread_id,) in await tiers.cold.fetch(statement, where)]
        for thread_id in found:
            if thread_id not in heads:
                yield thread_id
        if len(found) < PAGE:
            return
        after = found[-1]


# ---- cold


async def _archived(
    tiers: Tiers, skip: list[str], wanted: dict[str, Any], limit: int, after: ThreadInfo | None
) -> list[ThreadInfo]:
    """Of cold, without what hot has told of: a thread that left hot since is told of by cold."""
    labels = {key: value for key, value in wanted.items() if key not in STEP_KEYS}
    parameters = {
        "skip": skip,
        "filter": Jsonb(wanted) if wanted else None,
        "labels": Jsonb(labels),
        "moment": after.last_activity if after else "infinity",
        "after": after.thread_id if after else "",
        "limit": limit,
    }
    records = await tiers.replica.fetch("find_threads" if labels else "list_threads", parameters)
    found = [ThreadInfo(id_, "cold", moment, 0, json.loads(told)) for id_, moment, told in records]
    scores = await _idle_scores(tiers, found)
    return [info if score is None else info._replace(tier="hot") for info, score in zip(found, scores, strict=True)]


async def _measured(tiers: Tiers, found: list[ThreadInfo], dirty: Set[str]) -> list[ThreadInfo]:
    """With numbers of checkpoints, first activity and size, over both tiers."""
    ids = [info.thread_id for info in found]
    records = {record[0]: record[1:] for record in await tiers.replica.fetch("measure_threads", {"thread_ids": ids})}
    return [
        await _with_hot(tiers, info, *records[info.thread_id])
        if info.thread_id in dirty
        else info._replace(
            checkpoints=records[info.thread_id][0],
            first_activity=records[info.thread_id][1],
            size_bytes=records[info.thread_id][2],
        )
        for info in found
    ]


# ---- hot


async def _not_archived(tiers: Tiers) -> list[str]:
    # What vanishes is never dirty: there it may be any thread.
    index = tiers.keys.idle if tiers.config.on_idle == "expire" else tiers.keys.dirty
    partitions = range(tiers.keys.partitions)
    commands = [("ZREVRANGE", index(p), 0, MOST_DIRTY - 1, "WITHSCORES") for p in partitions]
    replies = await tiers.hot.commands(commands)
    scored = [(float(score), member.decode()) for reply in replies for member, score in _pairs(reply)]
    return [thread_id for _, thread_id in sorted(scored, reverse=True)[:MOST_DIRTY]]


async def _heads(tiers: Tiers, thread_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The metadata of the newest checkpoint of each thread that hot has."""
    found: dict[str, dict[str, Any]] = {}
    requests = [hot.list_page(tiers.keys.thread(thread_id), thread_id, "", "", "", 1) for thread_id in thread_ids]
    replies = await tiers.hot.call_many(requests)
    for thread_id, request, reply in zip(thread_ids, requests, replies, strict=True):
        head = hot.page_read(reply)
        if head.status is Status.SUSPECT:
            head = await page_of(tiers, thread_id, request)
        if head.entries and (row := head.entries[0].row):
            found[thread_id] = json.loads(row.metadata)
    return found


async def _matching(
    tiers: Tiers,
    heads: Mapping[str, dict[str, Any]],
    wanted: dict[str, Any],
    limit: int,
    after: ThreadInfo | None,
) -> list[ThreadInfo]:
    start = datetime.fromtimestamp(0, UTC)
    found = [ThreadInfo(i, "hot", start, 0, metadata) for i, metadata in heads.items() if contains(metadata, wanted)]
    scores = await _idle_scores(tiers, found)
    touched = [
        info if score is None else info._replace(last_activity=datetime.fromtimestamp(float(score) / 1000, UTC))
        for info, score in zip(found, scores, strict=True)
    ]
    if after is not None:
        touched = [info for info in touched if (info.last_activity, info.thread_id) < (after[2], after[0])]
    return sorted(touched, key=lambda info: info.last_activity, reverse=True)[:limit]


async def _idle_scores(tiers: Tiers, infos: Iterable[ThreadInfo]) -> list[bytes | None]:
    """The last access that Redis knows of, which also tells that the thread is hot."""
    return await tiers.hot.commands(
        [("ZSCORE", tiers.keys.thread(info.thread_id).idle, info.thread_id) for info in infos]
    )


async def _with_hot(
    tiers: Tiers, info: ThreadInfo, checkpoints: int, first: datetime | None, size_bytes: int
) -> ThreadInfo:
    """Measured in both tiers; a checkpoint in both counts once."""
    request = hot.list_page(tiers.keys.thread(info.thread_id), info.thread_id, None, "", "", MOST_CHECKPOINTS)
    entries = hot.page_read(await tiers.hot.call(request)).entries
    where = {"thread_id": info.thread_id, "ids": [entry.checkpoint_id for entry in entries]}
    there = set(await tiers.replica.fetch("those_in_cold", where))
    new = [e for e in entries if e.row and (e.row.namespace, e.checkpoint_id) not in there]
    return info._replace(
        checkpoints=checkpoints + len(new),
        first_activity=first or (_moment(new[-1]) if new else None),
        size_bytes=size_bytes + sum(Rows([e.row] if e.row else [], e.blobs, e.writes).size_bytes for e in new),
    )


def _moment(entry: HotCheckpoint) -> datetime | None:
    try:
        return datetime.fromisoformat(json.loads(entry.row.checkpoint)["ts"]) if entry.row else None
    except (ValueError, KeyError, TypeError):
        return None


def _pairs(reply: Sequence[Any]) -> "zip[tuple[Any, Any]]":
    return zip(reply[::2], reply[1::2], strict=True)
