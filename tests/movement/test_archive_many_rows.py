"""Many rows and large ones get into the stock tables as one by one, whether they are new or there already."""

import secrets

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection, sql
from psycopg.rows import TupleRow

from saver import TierConfig, TieredSaver
from saver.archive import archive
from saver.connect import Tiers
from tests.builders import Thread

MEGABYTE = 1 << 20
MANY = 60  # with a blob and a write each, more rows than those for which COPY pays


class StoppedError(Exception):
    """The archiver died between its commit and its acknowledgement."""


async def stop(at: str) -> None:
    if at == "archive: committed":
        raise StoppedError


async def grown(saver: TieredSaver, steps: int) -> Thread:
    thread = Thread(saver)
    for number in range(steps):
        await thread.put({"list": [number]})
        await thread.write(("list", [number]), ("__resume__", number))
    return thread


async def stock_values(config: TierConfig, thread: Thread) -> list[object]:
    async with await other_writer(config) as connection:
        stock = AsyncPostgresSaver(connection)  # type: ignore[arg-type]  # it makes its own rows
        return [
            (found.checkpoint["channel_values"], found.pending_writes) async for found in stock.alist(thread.config())
        ]


async def other_writer(config: TierConfig) -> AsyncConnection[TupleRow]:
    connection = await AsyncConnection.connect(config.postgres_url.get_secret_value(), autocommit=True)
    await connection.execute(sql.SQL("set search_path to {}").format(sql.Identifier(config.postgres_schema)))
    return connection


async def own_values(thread: Thread) -> list[object]:
    return [
        (found.checkpoint["channel_values"], found.pending_writes)
        async for found in thread.saver.alist(thread.config())
    ]


async def test_a_log_larger_than_the_socket_holds_is_archived(saver: TieredSaver, tiers: Tiers) -> None:
    thread = Thread(saver)
    for _ in range(6):
        await thread.put({"value": secrets.token_bytes(2 * MEGABYTE)})

    done = await archive(tiers, [thread.thread_id], wait=True)

    assert done.clean == {thread.thread_id}
    assert done.size_bytes > 12 * MEGABYTE


async def test_many_new_rows_are_read_alike_by_the_stock_saver(
    saver: TieredSaver, tiers: Tiers, config: TierConfig
) -> None:
    thread = await grown(saver, MANY)
    before = await own_values(thread)

    done = await archive(tiers, [thread.thread_id])

    assert done.clean == {thread.thread_id}
    assert await stock_values(config, thread) == before


async def test_rows_that_a_stopped_archiver_committed_are_archived_again(
    saver: TieredSaver, tiers: Tiers, config: TierConfig
) -> None:
    thread = await grown(saver, MANY)
    go_on, tiers.pause = tiers.pause, stop
    try:
        await archive(tiers, [thread.thread_id])
    except StoppedError:
        tiers.pause = go_on
    await thread.write(("__resume__", "last"))

    done = await archive(tiers, [thread.thread_id])

    assert done.clean == {thread.thread_id}
    assert await stock_values(config, thread) == await own_values(thread)


async def test_rows_that_somebody_else_wrote_do_not_stop_a_batch(
    saver: TieredSaver, tiers: Tiers, config: TierConfig
) -> None:
    thread = await grown(saver, MANY)
    statement = """insert into checkpoint_writes (thread_id, checkpoint_id, task_id, idx, channel, type, blob)
                   values (%s, %s, 'task', 0, 'list', 'null', '')"""
    async with await other_writer(config) as connection:
        await connection.execute(statement, [thread.thread_id, thread.checkpoint_id])

    done = await archive(tiers, [thread.thread_id])

    found = await stock_values(config, thread)
    assert done.clean == {thread.thread_id}
    assert len(found) == MANY
    assert found[1:] == (await own_values(thread))[1:]
