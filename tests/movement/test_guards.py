"""
One test for each guard that no interleaving needs to show. `mutants.py` takes the guards out one by one.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from langgraph.checkpoint.base import CheckpointTuple

from saver import ColdTierError, StaleRun, TierConfig, TieredSaver, hot
from saver.archive import archive
from saver.connect import Tiers, connect
from saver.demote import demote
from saver.destroy import delete
from saver.load import promote
from saver.logged import log_batch
from saver.rows import Rows
from tests.builders import Thread, checkpoint_of
from tests.fix_tiers import Open
from tests.movement.pauses import antedate, cold_ids, stopped, trim

ERROR = "__error__"  # a special write: the last one counts


async def by_id(thread: Thread, checkpoint_id: str) -> CheckpointTuple:
    found = await thread.saver.aget_tuple(thread.config(checkpoint_id))
    assert found is not None
    return found


async def grown(thread: Thread, count: int = 4) -> list[str]:
    return [await thread.put({"x": [number]}) for number in range(count)]


# ---- trim and reads below the floor


async def test_dirty_thread_is_not_trimmed(tiers: Tiers, thread: Thread) -> None:
    ids = await grown(thread)

    assert await trim(tiers, thread) == -1

    assert await thread.ids() == ids[::-1]


async def test_checkpoint_below_the_floor_is_read_from_cold(tiers: Tiers, thread: Thread) -> None:
    ids = await grown(thread)
    await archive(tiers, [thread.thread_id])
    await trim(tiers, thread)

    assert (await by_id(thread, ids[0])).checkpoint["channel_values"] == {"x": [0]}
    assert await thread.ids() == ids[::-1]


async def test_head_is_complete_after_a_trim(tiers: Tiers, thread: Thread) -> None:
    await thread.put({"x": [0], "old": ["kept"]})
    for number in range(1, 4):
        await thread.put({"x": [number], "old": ["kept"]}, changed=["x"])
    await archive(tiers, [thread.thread_id])

    assert await trim(tiers, thread) > 0

    assert await thread.values() == {"x": [3], "old": ["kept"]}


async def test_row_put_again_below_the_floor_keeps_its_writes(tiers: Tiers, thread: Thread) -> None:
    first = await thread.put({"x": [0]})
    await thread.write(("x", ["write"]))
    await grown(thread)
    await demote(tiers, thread.thread_id)
    await promote(tiers, thread.thread_id)

    await thread.put({"x": ["again"]}, id_=first)

    found = await by_id(thread, first)
    assert found.checkpoint["channel_values"] == {"x": ["again"]}
    assert found.pending_writes == [("task", "x", ["write"])]


async def test_below_the_floor_the_first_ordinary_and_the_last_special_write_count(
    tiers: Tiers, thread: Thread
) -> None:
    first = await thread.put({"x": [0]})
    await thread.write(("x", "first"))
    await thread.write((ERROR, "first"))
    await grown(thread)
    await demote(tiers, thread.thread_id)
    await promote(tiers, thread.thread_id)

    await thread.write(("x", "second"), checkpoint_id=first)
    await thread.write((ERROR, "second"), checkpoint_id=first)

    expected = {("task", "x", "first"), ("task", ERROR, "second")}
    assert {*((await by_id(thread, first)).pending_writes or ())} == expected
    await demote(tiers, thread.thread_id)
    assert {*((await by_id(thread, first)).pending_writes or ())} == expected


async def test_first_ordinary_and_last_special_write_count_in_hot(thread: Thread) -> None:
    head = await thread.put({"x": [0]})

    for value in ("first", "second"):
        await thread.write(("x", value))
        await thread.write((ERROR, value))

    found = await by_id(thread, head)
    assert {*(found.pending_writes or ())} == {("task", "x", "first"), ("task", ERROR, "second")}


async def test_get_finds_what_left_hot_between_its_two_reads(saver: TieredSaver, thread: Thread, tiers: Tiers) -> None:
    async with stopped(saver._runtime.tiers, "get: hot read", thread.latest()) as reading:
        head = await Thread(saver, thread.thread_id).put({"x": [1]})
        await demote(tiers, thread.thread_id)

    found = await reading
    assert found is None or found.checkpoint["id"] == head
    assert (await by_id(thread, head)).checkpoint["id"] == head


async def test_get_finds_what_leaves_hot_while_it_reads_cold(saver: TieredSaver, thread: Thread, tiers: Tiers) -> None:
    await thread.put({"x": [1]})

    async def leave(point: str) -> None:
        if point == "get: cold read":
            await demote(tiers, thread.thread_id)

    saver._runtime.tiers.pause = leave
    assert await thread.values() == {"x": [1]}


async def test_get_that_began_after_a_put_never_misses_it(
    saver: TieredSaver, thread: Thread, tiers: Tiers, another: Open
) -> None:
    first = await thread.put({"x": [1]})
    await demote(tiers, thread.thread_id)
    other = await another()
    await promote(other, thread.thread_id)
    second = await thread.put({"x": [2]})
    await demote(other, thread.thread_id)

    async with stopped(saver._runtime.tiers, "get: hot read", thread.latest()) as reading:
        await promote(other, thread.thread_id)

    assert (await reading).checkpoint["id"] == second > first


# ---- load


async def test_namespace_that_was_not_loaded_is_not_taken_for_empty(tiers: Tiers, saver: TieredSaver) -> None:
    root, child = Thread(saver, "t"), Thread(saver, "t", "child")
    await root.put({"x": [1]})
    older = await child.put({"y": [1]})
    await demote(tiers, "t")

    await root.put({"x": [2]})

    assert await child.values() == {"y": [1]}
    newer = await child.put({"y": [2]})
    assert await child.ids() == [newer, older]


async def test_token_from_before_a_failover_is_void(tiers: Tiers, thread: Thread) -> None:
    await thread.put({"x": [1]})
    await demote(tiers, thread.thread_id)
    keys = tiers.keys.thread(thread.thread_id)
    await tiers.hot.command("SET", keys.token, "another-history:token")

    request = hot.hydrate(keys, thread.thread_id, "another-history:token", 1, "", "", [], Rows())

    assert await tiers.hot.call(request) == 0


# ---- archive


class Interrupted(Exception):  # noqa: N818 - stands for whatever ends a worker
    """Ends a piece of work at a pause point."""


async def test_copy_that_does_not_commit_keeps_the_log(tiers: Tiers, thread: Thread) -> None:
    head = await thread.put({"x": [1]})

    async def break_off(point: str) -> None:
        if point == "archive: rows sent":
            raise Interrupted

    tiers.pause = break_off
    with pytest.raises(Interrupted):
        await archive(tiers, [thread.thread_id])

    assert await cold_ids(tiers, thread) == []
    reply = await tiers.hot.call(hot.evict(tiers.keys.thread(thread.thread_id), thread.thread_id, 0))
    assert hot.Evicted(reply) is hot.Evicted.NOT_ARCHIVED
    assert await thread.ids() == [head]


async def test_acknowledged_thread_that_is_written_stays_dirty(tiers: Tiers, thread: Thread) -> None:
    await thread.put({"x": [1]})
    keys = tiers.keys.thread(thread.thread_id)

    async with stopped(tiers, "archive: committed", archive(tiers, [thread.thread_id])):
        await thread.put({"x": [2]})

    assert await tiers.hot.command("ZSCORE", keys.dirty, thread.thread_id) is not None
    await archive(tiers, [thread.thread_id])
    assert await tiers.hot.command("ZSCORE", keys.dirty, thread.thread_id) is None


async def test_log_is_read_under_the_lock(tiers: Tiers, thread: Thread, another: Open) -> None:
    await thread.put({"x": [0]})
    await thread.write((ERROR, "first"))
    other = await another()

    async with stopped(tiers, "archive: begins", archive(tiers, [thread.thread_id])):
        await thread.write((ERROR, "second"))
        await archive(other, [thread.thread_id])

    await demote(tiers, thread.thread_id)
    found = await thread.latest()
    assert found is not None
    assert found.pending_writes == [("task", ERROR, "second")]


async def test_row_put_again_during_its_archive_is_archived_again(tiers: Tiers, thread: Thread) -> None:
    first = await thread.put({"x": [1]})

    async with stopped(tiers, "archive: rows sent", archive(tiers, [thread.thread_id])):
        await thread.put({"x": [2]}, id_=first)

    await demote(tiers, thread.thread_id)
    assert await thread.values() == {"x": [2]}


async def test_part_of_a_log_never_has_a_checkpoint_without_its_blobs(config: TierConfig, thread: Thread) -> None:
    for number in range(6):
        await thread.put({"x": [f"{number}" * 4000], "y": [number]})
    small = config.model_copy(update={"batch_bytes": 100})
    async with connect(small) as tiers:
        for _ in range(100):
            result = await archive(tiers, [thread.thread_id])
            rows = await tiers.cold.read_newest(thread.thread_id, "", 100)
            for row in rows.checkpoints:
                there = {(blob.channel, blob.version) for blob in rows.blobs}
                assert there >= {(c, v) for c, v in hot.channel_versions(row).items()}
            if thread.thread_id in result.clean:
                break

        assert len(await cold_ids(tiers, thread)) == 6


async def test_row_logged_again_behind_the_cut_waits_for_its_blobs(config: TierConfig, thread: Thread) -> None:
    first = await thread.put({"x": ["a" * 3000]})
    await thread.put({"x": ["b" * 3000]})
    await thread.put({"x": ["c" * 3000]}, id_=first)
    small = config.model_copy(update={"batch_bytes": 100})
    async with connect(small) as tiers:
        while True:
            result = await archive(tiers, [thread.thread_id])
            rows = await tiers.cold.read_newest(thread.thread_id, "", 100)
            there = {(blob.channel, blob.version) for blob in rows.blobs}
            for row in rows.checkpoints:
                assert there >= {(c, v) for c, v in hot.channel_versions(row).items()}
            if thread.thread_id in result.clean:
                break

    assert (await by_id(thread, first)).checkpoint["channel_values"] == {"x": ["c" * 3000]}


async def test_suspect_copy_does_not_take_cold_back(tiers: Tiers, thread: Thread) -> None:
    await thread.put({"x": [0]})
    await thread.write((ERROR, "first"))
    keys = tiers.keys.thread(thread.thread_id)
    before = {key: await tiers.hot.command("DUMP", key) for key in (keys.thread, keys.log)}
    score = await tiers.hot.command("ZSCORE", keys.dirty, thread.thread_id)
    await thread.write((ERROR, "second"))
    await archive(tiers, [thread.thread_id])

    # The copy that a replica had: the log reaches back before what Postgres has, the write after it is lost.
    for key, value in before.items():
        await tiers.hot.command("RESTORE", key, 0, value, "REPLACE")
    await tiers.hot.command("ZADD", keys.dirty, score, thread.thread_id)
    await antedate(tiers, thread)

    found = await thread.latest()
    assert found is not None
    assert found.pending_writes == [("task", ERROR, "second")]


async def test_part_of_a_suspect_log_does_not_cost_the_rest(config: TierConfig, thread: Thread) -> None:
    ids = [await thread.put({"x": [f"{number}" * 4000]}) for number in range(4)]
    small = config.model_copy(update={"batch_bytes": 100})
    async with connect(small) as tiers:
        await antedate(tiers, thread)

        while thread.thread_id not in (await archive(tiers, [thread.thread_id])).clean:
            pass

        assert await cold_ids(tiers, thread) == ids[::-1]


async def test_suspect_copy_that_has_more_by_now_is_not_dropped(tiers: Tiers, thread: Thread) -> None:
    """A second failover, to a server that has more of the same incarnation than the one that was read from."""
    keys = tiers.keys.thread(thread.thread_id)[:2]
    first = await thread.put({"x": [1]})
    short = {key: await tiers.hot.command("DUMP", key) for key in keys}
    second = await thread.put({"x": [2]})
    await antedate(tiers, thread)
    long = {key: await tiers.hot.command("DUMP", key) for key in keys}
    for key, value in short.items():
        await tiers.hot.command("RESTORE", key, 0, value, "REPLACE")
    await antedate(tiers, thread)

    async with stopped(tiers, "archive: committed", archive(tiers, [thread.thread_id])) as archiving:
        for key, value in long.items():
            await tiers.hot.command("RESTORE", key, 0, value, "REPLACE")

    assert (await archiving).partial == {thread.thread_id}
    assert await thread.ids() == [second, first]
    assert await cold_ids(tiers, thread) == [second, first]


async def test_drop_leaves_a_newer_incarnation_alone(tiers: Tiers, thread: Thread) -> None:
    head = await thread.put({"x": [1]})
    keys = tiers.keys.thread(thread.thread_id)

    assert await tiers.hot.call(hot.drop(keys, thread.thread_id, 0)) == -1

    assert await thread.ids() == [head]


async def test_incarnations_are_never_used_again(tiers: Tiers, thread: Thread) -> None:
    seen = []
    for number in range(3):
        await thread.put({"x": [number]})
        batch = log_batch(
            thread.thread_id,
            await tiers.hot.call(hot.log_read(tiers.keys.thread(thread.thread_id), thread.thread_id, 10**6, -1, 0)),
        )
        assert batch is not None
        seen.append(batch.incarnation)
        await tiers.hot.command("UNLINK", *tiers.keys.thread(thread.thread_id))

    assert seen == sorted(set(seen))


# ---- delta channels


def delta(thread: Thread) -> dict[str, Any]:
    return {"source": "loop", "step": 1, "counters_since_delta_snapshot": {"x": [1, 1]}}


async def put_delta(thread: Thread, parent: str | None) -> str:
    checkpoint = checkpoint_of({}, {})
    metadata: Any = delta(thread)
    await thread.saver.aput(thread.config(parent), checkpoint, metadata, {})
    return checkpoint["id"]


async def test_delta_put_on_a_parent_that_is_gone_is_refused(tiers: Tiers, thread: Thread) -> None:
    parent = await put_delta(thread, None)
    await delete(tiers, thread.thread_id)

    with pytest.raises(StaleRun):
        await put_delta(thread, parent)

    assert await thread.latest() is None


async def test_delta_put_of_a_run_from_before_a_failover_is_refused(saver: TieredSaver, thread: Thread) -> None:
    parent = await put_delta(thread, None)
    await thread.latest()
    found = await by_id(thread, parent)
    run = found.config["configurable"]["thread_id"]
    later = replace(thread, thread_id=run)
    assert await put_delta(later, parent) > parent

    run.history = "another-history"

    with pytest.raises(StaleRun):
        await put_delta(later, parent)


# ---- write-through


async def test_write_through_is_in_postgres_when_acknowledged(config: TierConfig, tiers: Tiers) -> None:
    through = config.model_copy(update={"write_mode": "through"})
    async with TieredSaver(through) as saver:
        thread = Thread(saver)
        head = await thread.put({"x": [1]})
        assert await cold_ids(tiers, thread) == [head]

        await thread.write(("x", 2))

    rows = await tiers.cold.read_one(thread.thread_id, "", head)
    assert [write.channel for write in rows.writes] == ["x"]


async def test_write_through_does_not_acknowledge_what_redis_lost(config: TierConfig, tiers: Tiers) -> None:
    through = config.model_copy(update={"write_mode": "through"})
    async with TieredSaver(through) as saver:
        thread = Thread(saver)
        await thread.put({"x": [1]})

        async def lose(point: str) -> None:
            if point == "archive: begins":
                await tiers.hot.command("UNLINK", *tiers.keys.thread(thread.thread_id))

        saver._runtime.tiers.pause = lose
        with pytest.raises(ColdTierError):
            await asyncio.wait_for(thread.put({"x": [2]}), 20)
