"""The stock tables partitioned by thread: the shipped migration, and every statement asks by thread id."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import dict_row

from jobs.retain import retain
from jobs.retention import Place
from saver import TierConfig, TieredSaver
from saver.connect import Tiers, connect
from saver.statements import statements
from tests.builders import Thread

MIGRATION = Path(__file__).parents[2] / "deploy" / "partition_tables.sql"
TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
# What is about all threads by its nature: who is idle, counts, threads by what they say, runs by their id.
ABOUT_ALL_THREADS = {
    *(
        "adopt",
        "all_threads",
        "any_shortening",
        "count_cold",
        "find_threads",
        "idle_since",
        "labelled_threads",
        "overlong",
    ),
    *("threads_of_runs", "wishing"),
}
CONDITIONS = ("Index Cond", "Filter", "Recheck Cond", "Hash Cond", "Merge Cond", "Join Filter")


@pytest.fixture
def owner(postgres_url: str, schema: str) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    """Who migrates, in the schema of the test."""
    with psycopg.connect(
        postgres_url, autocommit=True, row_factory=dict_row, options=f"-c search_path={schema} -c tier.partitions=8"
    ) as connection:
        yield connection


def partition(owner: psycopg.Connection[dict[str, Any]]) -> None:
    owner.execute(MIGRATION.read_bytes())


def shape(owner: psycopg.Connection[dict[str, Any]]) -> dict[str, list[str]]:
    """Columns, keys, indexes, owner and rights of the tables, in words."""
    queries = {
        "columns": "select attname || ' ' || atttypid::regtype || ' ' || attnotnull as told from pg_attribute"
        " where attrelid = %s::regclass and attnum > 0",
        "keys": "select pg_get_constraintdef(oid) as told from pg_constraint where conrelid = %s::regclass"
        " and contype = 'p'",
        "indexes": "select replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ') as told from pg_index"
        " where indrelid = %s::regclass",
        "rights": "select relowner::regrole || ' ' || coalesce(relacl::text, '') as told from pg_class"
        " where oid = %s::regclass",
    }
    return {
        f"{name} of {table}": sorted(row["told"] for row in owner.execute(query.encode(), (table,)).fetchall())
        for name, query in queries.items()
        for table in TABLES
    }


@pytest_asyncio.fixture
async def partitioned(
    config: TierConfig, owner: psycopg.Connection[dict[str, Any]]
) -> AsyncIterator[tuple[TieredSaver, Thread]]:
    """A saver on tables that were partitioned with a thread in them."""
    async with TieredSaver(config) as saver:
        thread = Thread(saver)
        await thread.put({"x": [1]})
        await thread.write(("x", ["pending"]))
        await saver.demote(thread.thread_id)
        partition(owner)
        yield saver, thread


async def test_the_migration_changes_nothing_but_the_partitions(
    config: TierConfig, owner: psycopg.Connection[dict[str, Any]]
) -> None:
    async with TieredSaver(config):
        owner.execute("grant select, insert on checkpoints to public")
        before = shape(owner)

        partition(owner)
        partition(owner)

        assert shape(owner) == before
        kinds = owner.execute("select relkind::text from pg_class where oid = 'checkpoint_blobs'::regclass").fetchall()
        assert kinds == [{"relkind": "p"}]


async def test_threads_move_as_before(partitioned: tuple[TieredSaver, Thread]) -> None:
    saver, thread = partitioned
    first = thread.checkpoint_id
    assert await thread.values() == {"x": [1]}

    threads = [Thread(saver) for _ in range(30)]
    for one in threads:
        await one.put({"x": [1]}, metadata={"user_id": "u"})
        await saver.demote(one.thread_id)
    second = await thread.put({"x": [2]})
    await saver.demote(thread.thread_id)

    assert await thread.ids() == [second, first]
    assert len(await saver.list_threads({"user_id": "u"})) == 30
    await saver.aprune([thread.thread_id])
    assert await thread.ids() == [second]
    await saver.acopy_thread(thread.thread_id, "copy")
    await saver.adelete_thread(thread.thread_id)
    assert await thread.latest() is None
    assert await saver.aget_tuple({"configurable": {"thread_id": "copy", "checkpoint_ns": ""}}) is not None


async def test_old_threads_are_retained(partitioned: tuple[TieredSaver, Thread], config: TierConfig) -> None:
    _, thread = partitioned
    async with connect(config.model_copy(update={"retain_for": config.archive_after / 1000})) as tiers:
        done = await retain(tiers, Place("delete"))
        [(size_bytes,)] = await tiers.cold.fetch("cold_bytes", {"schema": config.postgres_schema})

    assert done.deleted == 1
    assert await thread.latest() is None
    assert size_bytes > 100_000  # of the parts, since a partitioned table has none of its own


def test_the_stock_saver_works_as_before(
    partitioned: tuple[TieredSaver, Thread], owner: psycopg.Connection[dict[str, Any]]
) -> None:
    _, thread = partitioned
    stock = PostgresSaver(owner)
    stock.setup()

    found = stock.get_tuple(thread.config())
    assert found is not None
    assert found.checkpoint["channel_values"] == {"x": [1]}
    assert found.pending_writes == [("task", "x", ["pending"])]
    stock.put_writes(found.config, [("x", 2)], "another")
    stock.delete_thread(thread.thread_id)
    assert stock.get_tuple(thread.config()) is None


async def test_every_statement_asks_by_thread_id(
    tiers: Tiers, config: TierConfig, owner: psycopg.Connection[dict[str, Any]]
) -> None:
    """So that tables may be spread by it. Postgres itself parses and plans the statements."""
    if owner.info.server_version < 160_000:
        pytest.skip("EXPLAIN (GENERIC_PLAN) needs Postgres 16")
    without = set()
    for name, text in statements(config.postgres_schema).items():
        query = text.decode()
        if query.startswith("copy") or name.startswith("doctor"):
            continue
        if not all(_is_by_thread(scan, plan) for plan in [_plan(owner, query)] for scan in _scans(plan)):
            without.add(name)

    assert without == ABOUT_ALL_THREADS


def _plan(owner: psycopg.Connection[dict[str, Any]], query: str) -> dict[str, Any]:
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", query)))
    for number, name in enumerate(names, 1):
        query = query.replace(f"%({name})s", f"${number}")
    raw = psycopg.RawCursor(owner, row_factory=dict_row)
    [row] = raw.execute(f"explain (generic_plan, verbose, format json) {query}".encode()).fetchall()
    found: dict[str, Any] = row["QUERY PLAN"][0]["Plan"]
    return found


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _scans(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Where a table that holds threads is read."""
    of_threads = (*TABLES, "tier_threads", "tier_labels")
    return [node for node in _nodes(plan) if "Scan" in node["Node Type"] and node.get("Relation Name") in of_threads]


def _is_by_thread(scan: dict[str, Any], plan: dict[str, Any]) -> bool:
    conditions = " ".join(str(node[kind]) for node in _nodes(plan) for kind in CONDITIONS if kind in node)
    column = rf"\(?{scan['Alias']}\.thread_id\)?"
    return re.search(rf"{column} = |= {column}(?!\w)", conditions) is not None
