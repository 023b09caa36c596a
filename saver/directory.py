"""
Which threads there are, over both tiers, last active first.

Postgres knows every archived thread; Redis knows what is not archived yet and what was touched last.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from psycopg.types.json import Jsonb

from saver import hot
from saver.codec import contains
from saver.connect import Tiers
from saver.demote import Tier
from saver.hot import Status
from saver.load import heal

MOST_DIRTY = 10_000  # threads not archived yet that one listing looks at, last written first
MOST_CHECKPOINTS = 100_000  # of one thread, counted in hot


class ThreadInfo(NamedTuple):
    """A thread as a listing shows it."""

    thread_id: str
    tier: Tier
    last_activity: datetime
    checkpoints: int
    metadata: dict[str, Any]


async def list_threads(tiers: Tiers, metadata: Mapping[str, Any] | None, limit: int) -> list[ThreadInfo]:
    """
    Threads whose newest checkpoint has this metadata (JSONB containment), last active first.

    A thread that no worker has archived yet is found too. Raises HotTierError, ColdTierError.
    """
    heads = await _heads(tiers, await _not_archived(tiers))
    waiting = await _matching(tiers, heads, dict(metadata or {}), limit)
    # Only what hot has told of: a thread that left it since is told of by cold.
    parameters = {"skip": list(heads), "filter": Jsonb(dict(metadata)) if metadata else None, "limit": limit}
    records = await tiers.cold.fetch("list_threads", parameters)
    archived = await _touched(tiers, [ThreadInfo(r[0], "cold", r[1], r[3], json.loads(r[2])) for r in records])
    found = sorted([*waiting, *archived], key=lambda info: info.last_activity, reverse=True)
    return found[:limit]


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
    replies = await tiers.hot.call_many(
        [hot.list_page(tiers.keys.thread(thread_id), thread_id, "", "", "", 1) for thread_id in thread_ids]
    )
    for thread_id, reply in zip(thread_ids, replies, strict=True):
        head = hot.page_read(reply)
        if head.status is Status.SUSPECT:
            await heal(tiers, thread_id)
        elif head.entries and (row := head.entries[0].row):
            found[thread_id] = json.loads(row.metadata)
    return found


async def _matching(
    tiers: Tiers, heads: Mapping[str, dict[str, Any]], wanted: dict[str, Any], limit: int
) -> list[ThreadInfo]:
    start = datetime.fromtimestamp(0, UTC)
    found = [ThreadInfo(i, "hot", start, 0, metadata) for i, metadata in heads.items() if contains(metadata, wanted)]
    touched = await _touched(tiers, found)
    newest = sorted(touched, key=lambda info: info.last_activity, reverse=True)[:limit]
    return [info._replace(checkpoints=await _count(tiers, info.thread_id)) for info in newest]


async def _touched(tiers: Tiers, infos: Sequence[ThreadInfo]) -> list[ThreadInfo]:
    """With the last access that Redis knows of, which also tells that the thread is hot."""
    commands = [("ZSCORE", tiers.keys.thread(info.thread_id).idle, info.thread_id) for info in infos]
    scores = await tiers.hot.commands(commands)
    return [
        info
        if score is None
        else info._replace(tier="hot", last_activity=datetime.fromtimestamp(float(score) / 1000, UTC))
        for info, score in zip(infos, scores, strict=True)
    ]


async def _count(tiers: Tiers, thread_id: str) -> int:
    request = hot.list_page(tiers.keys.thread(thread_id), thread_id, None, "", "", MOST_CHECKPOINTS)
    rows = [entry.row for entry in hot.page_read(await tiers.hot.call(request)).entries if entry.row]
    parameters = {
        "thread_id": thread_id,
        "namespaces": [row.namespace for row in rows],
        "checkpoint_ids": [row.checkpoint_id for row in rows],
    }
    [(others,)] = await tiers.cold.fetch("count_others", parameters)
    return len(rows) + int(others)


def _pairs(reply: Sequence[Any]) -> "zip[tuple[Any, Any]]":
    return zip(reply[::2], reply[1::2], strict=True)
