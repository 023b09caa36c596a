"""Rows that earlier releases of the stock saver left read as they do for it, and the thread goes on."""

from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from psycopg import sql
from psycopg.types.json import Jsonb

from saver import TieredSaver
from saver.connect import Tiers
from tests.builders import Thread
from tests.driven import MOVES
from tests.stock import stock_saver

PACK = JsonPlusSerializer().dumps_typed
CHECKPOINTS: list[dict[str, Any]] = [
    {"v": 1, "id": "1", "ts": "2024-01-01T00:00:00+00:00", "channel_versions": {"x": 1}, "versions_seen": {}},
    {
        "v": 1,
        "id": "2",
        "ts": "no moment",
        "channel_versions": {"x": 2, "e": 2},
        "versions_seen": {},
        "pending_sends": [],
    },
    {"v": 2, "id": "3", "ts": "", "channel_values": None, "channel_versions": {"x": 3}, "versions_seen": {}},
    {
        "v": 4,
        "id": "4",
        "ts": "",
        "channel_values": {"s": "s"},
        "channel_versions": {"x": 3, "s": 4},
        "versions_seen": {},
    },
]
BLOBS = [("x", "1", "json", b'{"a": [1]}'), ("x", "2", *PACK([2])), ("e", "2", "empty", None), ("x", "3", *PACK([3]))]
WRITES = [("2", "task-b", 0, "__pregel_tasks", *PACK("send-b")), ("2", "task-a", 0, "__pregel_tasks", *PACK("send-a"))]


@pytest.fixture
async def old_rows(saver: TieredSaver, thread: Thread, postgres_url: str, schema: str) -> None:
    """No channel values, numbers as versions, JSON blobs, an empty blob, writes without a path, sends at a parent."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("set search_path to {}").format(sql.Identifier(schema)))
        for number, checkpoint in enumerate(CHECKPOINTS):
            connection.execute(
                "insert into checkpoints (thread_id, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata) "
                "values (%s, %s, %s, %s, %s, %s)",
                (
                    thread.thread_id,
                    checkpoint["id"],
                    str(number) or None,
                    "json",
                    Jsonb(checkpoint),
                    Jsonb({"step": number}),
                ),
            )
        for blob in BLOBS:
            connection.execute(
                "insert into checkpoint_blobs values (%s, '', %s, %s, %s, %s)", (thread.thread_id, *blob)
            )
        for write in WRITES:
            connection.execute(
                "insert into checkpoint_writes (thread_id, checkpoint_id, task_id, idx, channel, type, blob) "
                "values (%s, %s, %s, %s, %s, %s, %s)",
                (thread.thread_id, *write),
            )


@pytest.mark.usefixtures("old_rows")
@pytest.mark.parametrize("place", MOVES)
async def test_old_rows_read_as_they_do_for_the_stock_saver(
    saver: TieredSaver, tiers: Tiers, thread: Thread, place: str, postgres_url: str, schema: str
) -> None:
    async with stock_saver(postgres_url, schema) as stock:
        wanted = [await stock.aget_tuple(thread.config(one)) for one in ("1", "2", "3", "4", None)]
        listed = [found async for found in stock.alist(thread.config())]
    await MOVES["promoted" if place == "trimmed" else place](tiers, thread.thread_id)
    if place == "trimmed":
        await Thread(saver, thread.thread_id, checkpoint_id="4").write(("x", "dirty"), task="late", checkpoint_id="0")
        await MOVES[place](tiers, thread.thread_id)

    found = [await saver.aget_tuple(thread.config(one)) for one in ("1", "2", "3", "4", None)]

    assert found == wanted
    assert [one async for one in saver.alist(thread.config())] == listed
    assert found[2] is not None
    assert found[2].checkpoint["channel_values"] == {"x": [3], "__pregel_tasks": ["send-a", "send-b"]}


@pytest.mark.usefixtures("old_rows")
@pytest.mark.parametrize("place", MOVES)
async def test_thread_with_old_rows_goes_on(tiers: Tiers, thread: Thread, place: str) -> None:
    await MOVES[place](tiers, thread.thread_id)
    thread.checkpoint_id, thread.versions = "4", {"x": 3, "s": 4}

    await thread.put({"x": [3], "s": "new"}, changed=["s"], id_="5")
    await MOVES[place](tiers, thread.thread_id)

    assert await thread.values() == {"x": [3], "s": "new"}
    assert await thread.ids() == ["5", "4", "3", "2", "1"]
