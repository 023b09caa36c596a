"""Deletion by run finds its checkpoints by an index, which no run id is too long for."""

import json
import secrets
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from saver import TierConfig, TieredSaver
from saver.connect import Tiers, connect
from saver.statements import statements
from tests.builders import Thread
from tests.stock import stock_saver


@pytest.fixture
def member_url(postgres_url: str, schema: str) -> Iterator[str]:
    """The address for a user who owns nothing, named like the schema."""
    role, password = sql.Identifier(schema), secrets.token_hex(8)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login password {}").format(role, sql.Literal(password)))
        yield make_conninfo(postgres_url, user=schema, password=password)
        connection.execute(sql.SQL("drop owned by {}").format(role))
        connection.execute(sql.SQL("drop role {}").format(role))


def grant(postgres_url: str, schema: str) -> None:
    """Let the member make tables in the schema and work on those that are there."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for text in ("usage, create on schema {0}", "select, insert, update, delete on all tables in schema {0}"):
            connection.execute(sql.SQL(f"grant {text} to {{0}}").format(sql.Identifier(schema)))


def fill(postgres_url: str, schema: str, count: int, padding: int = 1) -> None:
    """Checkpoints of as many runs and threads, and some without a run."""
    query = """
insert into {}.checkpoints (thread_id, checkpoint_id, checkpoint, metadata)
select 't' || n, '1', (select jsonb_agg(md5(n || ' ' || m)) from generate_series(1, %s) as m),
       case when mod(n, 3) > 0 then jsonb_build_object('run_id', 'run-' || n) else '{{}}' end
  from generate_series(1, %s) as n
"""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL(query).format(sql.Identifier(schema)), (padding, count))
        connection.execute(sql.SQL("analyze {}.checkpoints").format(sql.Identifier(schema)))


def plan_of(postgres_url: str, schema: str, run_ids: list[str]) -> str:
    with psycopg.connect(postgres_url) as connection:
        query = b"explain (format json) " + statements(schema)["threads_of_runs"]
        [found] = connection.execute(query, {"run_ids": run_ids}).fetchall()
    return json.dumps(found[0])


async def test_deletion_by_run_does_not_read_the_whole_table(tiers: Tiers, postgres_url: str, schema: str) -> None:
    fill(postgres_url, schema, 5000)

    plan = plan_of(postgres_url, schema, ["run-1", "run-4000", "unknown"])

    assert "checkpoints_run_id" in plan
    assert "Seq Scan" not in plan
    found = await tiers.cold.fetch("threads_of_runs", {"run_ids": ["run-1", "run-4000", "unknown"]})
    assert sorted(found) == [("t1",), ("t4000",)]


async def test_run_id_of_any_length_is_stored_and_found(
    saver: TieredSaver, thread: Thread, postgres_url: str, schema: str
) -> None:
    run_id = "".join(map(str, range(10_000)))
    await thread.put({"x": [1]}, metadata={"run_id": run_id})
    await saver.demote(thread.thread_id)
    async with stock_saver(postgres_url, schema) as stock:
        found = await stock.aget_tuple(thread.config())
        assert found is not None
        where: Any = {"configurable": {"thread_id": "theirs", "checkpoint_ns": ""}}
        await stock.aput(where, found.checkpoint, found.metadata, {})

    await saver.adelete_for_runs([run_id])

    assert await thread.latest() is None
    assert await Thread(saver, "theirs").latest() is None


async def test_large_table_is_not_held_up_at_the_start(config: TierConfig, postgres_url: str, schema: str) -> None:
    """Its index is left to its owner; what the index is for works without it."""
    async with stock_saver(postgres_url, schema):
        fill(postgres_url, schema, 45_000, padding=50)

    async with connect(config) as tiers:
        found = await tiers.cold.fetch("threads_of_runs", {"run_ids": ["run-1"]})

    assert found == [("t1",)]
    assert "checkpoints_run_id" not in indexes(postgres_url, schema)


async def test_tables_of_another_owner_are_taken_as_they_are(
    config: TierConfig, member_url: str, postgres_url: str, schema: str
) -> None:
    async with stock_saver(postgres_url, schema):
        grant(postgres_url, schema)

    async with TieredSaver(config.model_copy(update={"postgres_url": SecretStr(member_url)})) as saver:
        thread = Thread(saver)
        await thread.put({"x": [1]}, metadata={"run_id": "run-1"})
        await saver.demote(thread.thread_id)
        await saver.adelete_for_runs(["run-1"])

        assert await thread.latest() is None
    assert "checkpoints_run_id" not in indexes(postgres_url, schema)


def indexes(postgres_url: str, schema: str) -> set[str]:
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute("select indexname from pg_indexes where schemaname = %s", (schema,)).fetchall()
    return {name for (name,) in found}
