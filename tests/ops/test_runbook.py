"""The routine work of RUNBOOK.md, done as it says, keeps every thread."""

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from click.testing import CliRunner
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import sql

from saver import TierConfig, TieredSaver
from tests.builders import Thread
from tests.fix_worker import variables_of
from worker.cli.group import tier

Database = psycopg.Connection[tuple[object, ...]]
RUNBOOK = (Path(__file__).parents[2] / "deploy" / "RUNBOOK.md").read_text()
TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "tier_threads", "tier_labels")


@pytest.fixture
def command(config: TierConfig) -> Callable[..., str]:
    """`tier`, whose success is expected."""

    def run(*arguments: str) -> str:
        ended = CliRunner(env=variables_of(config)).invoke(tier, arguments, catch_exceptions=False)
        assert ended.exit_code == 0, ended.output
        return ended.output

    return run


@pytest.fixture
def database(config: TierConfig) -> Iterator[Database]:
    """Postgres in the schema of the test."""
    with psycopg.connect(config.postgres_url.get_secret_value(), autocommit=True) as connection:
        connection.execute(sql.SQL("set search_path to {}").format(sql.Identifier(config.postgres_schema)))
        yield connection


async def talk(config: TierConfig, *words: str) -> list[str]:
    """A thread with a checkpoint for each word."""
    async with TieredSaver(config) as saver:
        thread = Thread(saver, "kept")
        return [await thread.put({"words": [word]}) for word in words]


async def last_words(config: TierConfig) -> object:
    async with TieredSaver(config) as saver:
        return await Thread(saver, "kept").values()


def forget(config: TierConfig, pattern: str) -> None:
    """What the redis-cli lines of the runbook do."""
    with redis.Redis.from_url(config.redis_url.get_secret_value()) as client:
        for key in client.scan_iter(match=pattern):
            client.unlink(key)


async def test_another_number_of_partitions(config: TierConfig, command: Callable[..., str]) -> None:
    ids = await talk(config, "a", "b")

    await asyncio.to_thread(command, "demote", "--all")
    forget(config, f"{config.key_prefix}:settings")
    changed = config.model_copy(update={"partitions": 7})

    async with TieredSaver(changed) as saver:
        assert await Thread(saver, "kept").ids() == ids[::-1]


async def test_a_new_and_empty_redis(config: TierConfig, command: Callable[..., str]) -> None:
    ids = await talk(config, "a", "b")

    await asyncio.to_thread(command, "demote", "--all")
    moved = config.model_copy(update={"key_prefix": f"{config.key_prefix}-moved"})

    async with TieredSaver(moved) as saver:
        thread = Thread(saver, "kept", checkpoint_id=ids[-1])
        assert await thread.ids() == ids[::-1]
        await thread.put({"words": ["c"]})
        assert await thread.values() == {"words": ["c"]}


async def test_a_restored_postgres(config: TierConfig, command: Callable[..., str], database: Database) -> None:
    ids = await talk(config, "backed up")
    await asyncio.to_thread(command, "demote", "--all")
    for table in TABLES:
        database.execute(f"create table backup_{table} as select * from {table}")
    async with TieredSaver(config) as saver:
        thread = Thread(saver, "kept", checkpoint_id=ids[-1])
        await thread.put({"words": ["lost"]})
        await saver.demote("kept")
        await saver.promote("kept")

    for table in TABLES:
        database.execute(f"truncate {table}; insert into {table} select * from backup_{table}")
    database.execute("select setval('tier_incarnation', 1)")
    forget(config, f"{config.key_prefix}*")
    [advance] = re.findall(r"`(select setval.*?;)`", RUNBOOK)
    database.execute(advance)

    assert await last_words(config) == {"words": ["backed up"]}
    async with TieredSaver(config) as saver:
        thread = Thread(saver, "kept", checkpoint_id=ids[-1])
        await thread.put({"words": ["after"]})
        await saver.demote("kept")
        assert await saver.tier_of("kept") == "cold"
        assert await thread.values() == {"words": ["after"]}


async def test_leaving(config: TierConfig, command: Callable[..., str], database: Database) -> None:
    ids = await talk(config, "a", "b")

    await asyncio.to_thread(command, "demote", "--all")
    await asyncio.to_thread(command, "verify")
    [drop] = re.findall(r"`(drop table.*?;)`", RUNBOOK)
    database.execute(drop)

    url = f"{config.postgres_url.get_secret_value()}?options=-csearch_path%3D{config.postgres_schema}"
    async with AsyncPostgresSaver.from_conn_string(url) as stock:
        found = [one.checkpoint["id"] async for one in stock.alist({"configurable": {"thread_id": "kept"}})]
        latest = await stock.aget_tuple({"configurable": {"thread_id": "kept"}})
    assert found == ids[::-1]
    assert latest
    assert latest.checkpoint["channel_values"] == {"words": ["b"]}
