"""Delete: nothing of a thread is left in either tier, wherever it was, and its neighbours stay."""

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import redis
from psycopg import sql

from saver import TierConfig, TieredSaver
from saver.archive import archive
from saver.connect import Tiers
from tests.builders import Thread
from tests.driven import MOVES
from tests.movement.pauses import Pause

MARKER = "ERASE-ME-42"
NAME = "thread-of-ada"


async def half_archived(tiers: Tiers, thread_id: str) -> None:
    """As a worker leaves it that is killed between commit and acknowledgement."""
    pause = tiers.pause = Pause("archive: committed")
    moving = asyncio.ensure_future(archive(tiers, [thread_id]))
    await asyncio.wait_for(pause.reached.wait(), 10)
    moving.cancel()
    await asyncio.wait({moving})


PLACES = {**{name: MOVES[name] for name in ("hot", "evicted", "promoted")}, "half archived": half_archived}


async def fill(saver: TieredSaver, thread_id: str, mark: str) -> None:
    """A thread with a mark wherever a value or a name can have one."""
    for namespace in ("", "child"):
        thread = Thread(saver, thread_id, namespace)
        await thread.put({"text": mark, mark: ["named"]}, metadata={"user": mark})
        await thread.put({"text": mark, mark: ["named"], "messages": [f"you said {mark}"]}, metadata={"user": mark})
        await thread.write(("text", mark), ("messages", [mark]))


def redis_content(redis_url: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Every key with everything in it, as text."""
    with redis.Redis.from_url(redis_url, decode_responses=False) as client:
        for key in client.scan_iter(match=f"{prefix}*", count=1000):
            match client.type(key):
                case b"hash":
                    content: Any = client.hgetall(key)
                case b"list":
                    content = client.lrange(key, 0, -1)
                case b"zset":
                    content = client.zrange(key, 0, -1, withscores=True)
                case b"set":
                    content = client.smembers(key)
                case _:
                    content = client.get(key)
            yield key.decode(), str(content)


def rows_with(postgres_url: str, schema: str, text: str) -> dict[str, int]:
    """How many rows of each table of the schema have a text, in clear or as bytes."""
    found = {}
    with psycopg.connect(postgres_url) as connection:
        query = "select table_name from information_schema.tables where table_schema = %s"
        for (table,) in connection.execute(query, (schema,)).fetchall():
            count = sql.SQL("select count(*) from {} as one where one::text like any(%s)")
            likes = [f"%{text}%", f"%{text.encode().hex()}%"]
            [(rows,)] = connection.execute(count.format(sql.Identifier(schema, table)), (likes,)).fetchall()
            found[table] = rows
    return {table: rows for table, rows in found.items() if rows}


@pytest.mark.parametrize("place", PLACES)
async def test_nothing_is_left_in_either_tier(
    saver: TieredSaver, tiers: Tiers, config: TierConfig, redis_url: str, postgres_url: str, place: str
) -> None:
    """RET-01."""
    schema, neighbour = config.postgres_schema, f"{NAME}-2"
    await fill(saver, NAME, MARKER)
    await fill(saver, neighbour, "keep-me")
    await PLACES[place](tiers, NAME)
    before = [await Thread(saver, neighbour, namespace).latest() for namespace in ("", "child")]

    await saver.adelete_thread(NAME)

    left = [text for key, content in redis_content(redis_url, config.key_prefix) for text in (key, content)]
    assert not [text for text in left if MARKER in text or NAME in text.replace(neighbour, "")]
    assert rows_with(postgres_url, schema, MARKER) == {}
    assert rows_with(postgres_url, schema, f"{NAME},") in ({}, {"tier_threads": 1})  # a tombstone: its name alone
    assert await saver.tier_of(NAME) is None
    for namespace in ("", "child"):
        assert await Thread(saver, NAME, namespace).ids() == []
    assert [await Thread(saver, neighbour, namespace).latest() for namespace in ("", "child")] == before
    await saver.adelete_thread(NAME)
    await saver.adelete_thread("unknown")


async def test_the_search_finds_what_was_not_deleted(
    saver: TieredSaver, config: TierConfig, redis_url: str, postgres_url: str
) -> None:
    await fill(saver, NAME, MARKER)
    in_redis = [text for one in redis_content(redis_url, config.key_prefix) for text in one]

    await saver.demote(NAME)

    assert any(MARKER in text for text in in_redis)
    assert any(NAME in text for text in in_redis)
    tables = {"checkpoints", "checkpoint_blobs", "checkpoint_writes", "tier_labels"}
    assert set(rows_with(postgres_url, config.postgres_schema, MARKER)) == tables
