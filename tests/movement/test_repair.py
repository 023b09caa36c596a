"""Repair: a tier gets back what it has lost and the other holds, and nothing is lost by it."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, LiteralString

import psycopg
import pytest

from jobs.repair import repair
from jobs.verify import Fact, Verified, verify
from saver import TieredSaver
from saver.connect import Tiers
from saver.demote import demote
from saver.destroy import delete
from tests.builders import Thread
from tests.movement.pauses import antedate, cold_ids, stopped
from tests.movement.steps import in_cold
from tests.stock import rows, stock_saver

Change = Callable[[LiteralString], None]
SPECIAL = "__error__"


@pytest.fixture
def change_cold(tiers: Tiers, thread: Thread) -> Change:
    """Does something to the thread's rows behind our back; the statement ends where `where thread_id = ...` begins."""

    def change(statement: LiteralString) -> None:
        options = f"-c search_path={tiers.config.postgres_schema}"
        with psycopg.connect(tiers.config.postgres_url.get_secret_value(), options=options) as connection:
            connection.execute(f"{statement} where thread_id = %s", (thread.thread_id,))

    return change


@pytest.fixture
async def archived(tiers: Tiers, saver: TieredSaver, thread: Thread) -> Thread:
    """A clean hot thread with checkpoints, an ordinary write and a special one, in two namespaces."""
    for number in range(3):
        await thread.put({"x": ["large", number], "y": {"n": number}}, changed=["x", "y"])
        await thread.write(("x", [number]), task=f"task-{number}")
    await thread.write((SPECIAL, "last"), task="task-2")
    child = Thread(saver, thread.thread_id, namespace="child")
    await child.put({"z": [1, 2]})
    await demote_and_load(tiers, saver, thread, child)
    return thread


async def demote_and_load(tiers: Tiers, saver: TieredSaver, *threads: Thread) -> None:
    """Archive everything; afterwards hot has it, and nothing waits."""
    await demote(tiers, threads[0].thread_id)
    for thread in threads:
        await saver.promote(thread.thread_id)
        assert await thread.values()


async def repaired(tiers: Tiers, thread: Thread) -> tuple[Verified, Verified]:
    """What was found, and what was left."""
    found = await verify(tiers, thread.thread_id)
    return found, await repair(tiers, thread.thread_id, found)


@pytest.mark.parametrize("table", ["checkpoints", "checkpoint_blobs", "checkpoint_writes"])
async def test_rows_that_postgres_lost_are_archived_again(
    tiers: Tiers, archived: Thread, change_cold: Change, table: LiteralString
) -> None:
    change_cold(f"delete from {table}")

    found, left = await repaired(tiers, archived)

    assert found.differences
    assert {one.fact for one in found.differences} == {Fact.HOT_ALONE}
    assert left.differences == ()
    assert await in_cold(tiers, [archived])


async def test_a_thread_that_postgres_lost_as_a_whole_is_read_by_the_stock_saver_again(
    tiers: Tiers, archived: Thread, change_cold: Change
) -> None:
    before = await archived.latest()
    for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "tier_threads"):
        change_cold(f"delete from {table}")

    await repaired(tiers, archived)

    config = tiers.config
    async with stock_saver(config.postgres_url.get_secret_value(), config.postgres_schema) as stock:
        read = await stock.aget_tuple(archived.config())
    assert before is not None
    assert read is not None
    assert read.checkpoint["channel_values"] == before.checkpoint["channel_values"]
    assert read.pending_writes == before.pending_writes
    assert read.metadata == before.metadata


async def test_an_older_checkpoint_row_in_postgres_gives_way_to_the_one_in_use(
    tiers: Tiers, archived: Thread, change_cold: Change
) -> None:
    change_cold("update checkpoints set metadata = '{\"step\": -5}'")
    change_cold("update checkpoint_writes set blob = case when idx < 0 then '\\x00' else blob end")

    found, left = await repaired(tiers, archived)

    assert {(one.kind, one.fact) for one in found.differences} >= {
        ("checkpoint", Fact.DIFFERS),
        ("write", Fact.DIFFERS),
    }
    assert left.differences == ()
    assert await metadata_in_cold(tiers, archived) == {"source": "loop", "step": 1}


async def test_a_newer_value_is_never_overwritten(tiers: Tiers, archived: Thread, change_cold: Change) -> None:
    change_cold("delete from checkpoints")
    found = await verify(tiers, archived.thread_id)

    work = repair(tiers, archived.thread_id, found)
    async with stopped(tiers, "repair: logged", work):
        added = await archived.put({"x": ["newer"], "y": {"n": 9}})
        await archived.write((SPECIAL, "newer"), task="task-9")

    assert await cold_ids(tiers, archived) == await archived.ids()
    assert added == archived.checkpoint_id
    assert (await verify(tiers, archived.thread_id)).differences == ()
    assert await archived.values() == {"x": ["newer"], "y": {"n": 9}}


@pytest.mark.parametrize(
    "statement",
    [
        "update checkpoint_blobs set blob = '\\x00'",
        "update checkpoint_writes set blob = case when idx < 0 then blob else '\\x00' end",
    ],
    ids=["blob", "write"],
)
async def test_what_cannot_be_decided_is_kept_in_both_tiers(
    tiers: Tiers, archived: Thread, change_cold: Change, statement: LiteralString
) -> None:
    before = await archived.latest()
    change_cold(statement)
    config = tiers.config
    changed = rows(config.postgres_url.get_secret_value(), config.postgres_schema, archived.thread_id)

    found, left = await repaired(tiers, archived)

    assert {one.fact for one in left.differences} == {Fact.DIFFERS}
    assert left.differences == found.differences
    assert rows(config.postgres_url.get_secret_value(), config.postgres_schema, archived.thread_id) == changed
    assert await archived.latest() == before


async def test_a_checkpoint_that_only_postgres_has_is_read_afterwards(
    tiers: Tiers, archived: Thread, saver: TieredSaver
) -> None:
    config = tiers.config
    async with stock_saver(config.postgres_url.get_secret_value(), config.postgres_schema) as stock:
        read: Any = await stock.aget_tuple(archived.config())
        new: Any = {**read.checkpoint, "id": "ffffffff-0000-6000-8000-000000000000"}
        await stock.aput(read.config, new, {"source": "fork", "step": 9}, {})
    await archived.put({"x": ["not archived"], "y": {}}, changed=["x"])

    found, left = await repaired(tiers, archived)

    assert {one.fact for one in found.differences} == {Fact.COLD_ALONE}
    assert left.differences == ()
    ids = await archived.ids()
    assert ids[0] == new["id"]
    assert archived.checkpoint_id in ids


async def test_nothing_leaves_redis_while_something_is_undecided(
    tiers: Tiers, archived: Thread, change_cold: Change
) -> None:
    change_cold("update checkpoint_blobs set blob = '\\x00'")
    change_cold(
        "insert into checkpoints select thread_id, checkpoint_ns, 'ffff' || checkpoint_id, checkpoint_id, type, "
        "checkpoint, metadata from checkpoints"
    )

    found, left = await repaired(tiers, archived)

    assert {one.fact for one in found.differences} == {Fact.DIFFERS, Fact.COLD_ALONE}
    assert left.differences == found.differences


async def test_repair_does_not_bring_a_deleted_thread_back(tiers: Tiers, archived: Thread, change_cold: Change) -> None:
    change_cold("delete from checkpoints")
    found = await verify(tiers, archived.thread_id)

    await delete(tiers, archived.thread_id)
    left = await repair(tiers, archived.thread_id, found)

    assert not left.is_resident
    assert await archived.values() is None
    assert await cold_ids(tiers, archived) == []


async def test_repair_that_is_killed_after_logging_is_finished_by_the_archive(
    tiers: Tiers, archived: Thread, change_cold: Change
) -> None:
    change_cold("delete from checkpoints")
    found = await verify(tiers, archived.thread_id)
    for _ in range(2):
        with suppress(asyncio.CancelledError):
            async with stopped(tiers, "repair: logged", repair(tiers, archived.thread_id, found)) as work:
                work.cancel()

    await demote(tiers, archived.thread_id)

    assert await in_cold(tiers, [archived])


async def test_a_copy_from_before_a_failover_is_left_to_its_own_rules(
    tiers: Tiers, archived: Thread, change_cold: Change
) -> None:
    change_cold("delete from checkpoints")
    found = await verify(tiers, archived.thread_id)
    await antedate(tiers, archived)

    left = await repair(tiers, archived.thread_id, found)

    assert not left.is_resident


async def metadata_in_cold(tiers: Tiers, thread: Thread) -> Any:
    newest = await tiers.cold.read_newest(thread.thread_id, "", 1)
    return json.loads(newest.checkpoints[0].metadata)
