"""
Every interleaving of design section 6 that one process can show: a mover stops at a named point, the world goes on, the
mover continues. Each test fails when the guard it is about is taken out.
"""

import asyncio

import pytest

from saver import hot
from saver.archive import archive
from saver.connect import Tiers
from saver.demote import demote
from saver.destroy import delete
from saver.load import promote
from tests.builders import Thread
from tests.fix_tiers import Open
from tests.movement.pauses import antedate, cold_ids, done_or_waiting, stopped


@pytest.mark.parametrize("point", ["archive: locked", "archive: log read", "archive: rows sent", "archive: committed"])
async def test_put_during_archive_stays_in_the_log(tiers: Tiers, thread: Thread, point: str) -> None:
    first = await thread.put({"x": [1]})

    async with stopped(tiers, point, archive(tiers, [thread.thread_id])):
        second = await thread.put({"x": [2]})
        await thread.write(("x", [3]))

    assert await thread.ids() == [second, first]
    await demote(tiers, thread.thread_id)
    assert await thread.ids() == [second, first]
    found = await thread.latest()
    assert found is not None
    assert found.pending_writes == [("task", "x", [3])]


@pytest.mark.parametrize("point", ["archive: log read", "archive: committed"])
async def test_thread_dirtied_during_archive_is_not_evicted(tiers: Tiers, thread: Thread, point: str) -> None:
    await thread.put({"x": [1]})

    async with stopped(tiers, point, archive(tiers, [thread.thread_id])):
        await thread.put({"x": [2]})

    reply = await tiers.hot.call(hot.evict(tiers.keys.thread(thread.thread_id), thread.thread_id, 0))
    assert hot.Evicted(reply) is hot.Evicted.NOT_ARCHIVED


async def test_second_archiver_leaves_a_held_thread_alone(tiers: Tiers, thread: Thread, another: Open) -> None:
    await thread.put({"x": [1]})
    other = await another()

    async with stopped(tiers, "archive: rows sent", archive(tiers, [thread.thread_id])):
        skipped = await archive(other, [thread.thread_id])
        assert skipped.threads == 0

    assert len(await cold_ids(tiers, thread)) == 1


async def test_late_acknowledgement_does_not_shorten_a_newer_incarnation(
    tiers: Tiers, thread: Thread, another: Open
) -> None:
    await thread.put({"x": [1]})
    other = await another()

    async with stopped(tiers, "archive: committed", archive(tiers, [thread.thread_id])):
        await demote(other, thread.thread_id)
        second = await thread.put({"x": [2]})

    await demote(tiers, thread.thread_id)
    assert (await cold_ids(tiers, thread))[0] == second


@pytest.mark.parametrize("meanwhile", ["evicted", "deleted", "loaded and written"])
async def test_load_is_refused_when_the_thread_changed_after_the_read(
    tiers: Tiers, thread: Thread, another: Open, meanwhile: str
) -> None:
    await thread.put({"x": [1]})
    await demote(tiers, thread.thread_id)
    other = await another()

    async with stopped(tiers, "load: read", promote(tiers, thread.thread_id)):
        if meanwhile == "deleted":
            await delete(other, thread.thread_id)
        else:
            await promote(other, thread.thread_id)
            await thread.put({"x": [2]})
            if meanwhile == "evicted":
                await demote(other, thread.thread_id)

    assert await thread.values() == (None if meanwhile == "deleted" else {"x": [2]})


@pytest.mark.parametrize("point", ["archive: locked", "archive: log read", "archive: rows sent", "archive: committed"])
async def test_delete_wins_over_an_archiver_at_every_step(
    tiers: Tiers, thread: Thread, another: Open, point: str
) -> None:
    await thread.put({"x": [1]})
    other = await another()

    async with stopped(tiers, point, archive(tiers, [thread.thread_id])):
        deletion = asyncio.create_task(delete(other, thread.thread_id))
        await done_or_waiting(tiers, deletion)

    await asyncio.wait_for(deletion, 20)
    assert await thread.latest() is None
    assert await cold_ids(tiers, thread) == []


@pytest.mark.parametrize("point", ["destroy: locked", "destroy: evicted", "destroy: changed"])
async def test_put_during_delete_is_either_deleted_or_whole(
    tiers: Tiers, thread: Thread, another: Open, point: str
) -> None:
    await thread.put({"x": [1], "same": [1]})
    await archive(tiers, [thread.thread_id])

    async with stopped(tiers, point, delete(tiers, thread.thread_id)):
        late = asyncio.create_task(thread.put({"x": [2], "same": [1]}, changed=["x"]))
        await done_or_waiting(tiers, late)

    second = await asyncio.wait_for(late, 20)
    await demote(tiers, thread.thread_id)
    assert await thread.ids() in ([second], [])
    assert await thread.values() in ({"x": [2], "same": [1]}, None)


async def test_two_deletes_at_once_both_succeed(tiers: Tiers, thread: Thread, another: Open) -> None:
    await thread.put({"x": [1]})
    other = await another()

    async with stopped(tiers, "destroy: evicted", delete(tiers, thread.thread_id)):
        second = asyncio.create_task(delete(other, thread.thread_id))
        await done_or_waiting(tiers, second)

    await asyncio.wait_for(second, 20)
    assert await thread.latest() is None


async def test_writes_before_their_checkpoint_survive_a_demotion_in_between(tiers: Tiers, thread: Thread) -> None:
    await thread.put({"x": [1]})
    early = "ffffffff-0000-6000-8000-000000000000"

    await thread.write(("x", ["early"]), checkpoint_id=early)
    await demote(tiers, thread.thread_id)
    await thread.put({"x": [2]}, id_=early)

    found = await thread.latest()
    assert found is not None
    assert found.pending_writes == [("task", "x", ["early"])]


async def test_put_of_an_older_id_never_becomes_the_head(tiers: Tiers, thread: Thread) -> None:
    head = await thread.put({"x": [2]})
    await demote(tiers, thread.thread_id)

    older = await thread.put({"x": [1]}, id_="00000000-0000-6000-8000-000000000000")

    assert await thread.ids() == [head, older]
    await demote(tiers, thread.thread_id)
    assert await thread.ids() == [head, older]


async def test_fork_from_a_trimmed_checkpoint_carries_its_blobs(tiers: Tiers, thread: Thread) -> None:
    await thread.put({"x": [1], "y": [1]})
    old_versions = dict(thread.versions)
    for number in range(2, 6):
        await thread.put({"x": [number], "y": [number]})
    await archive(tiers, [thread.thread_id])
    assert await tiers.hot.call(hot.trim(tiers.keys.thread(thread.thread_id), thread.thread_id, 1)) > 0

    thread.versions = old_versions
    await thread.put({"x": ["fork"], "y": [1]}, changed=["x"])

    assert await thread.values() == {"x": ["fork"], "y": [1]}


async def test_redis_emptied_serves_what_was_archived(tiers: Tiers, thread: Thread) -> None:
    first = await thread.put({"x": [1]})
    await archive(tiers, [thread.thread_id])
    await thread.put({"x": [2]})
    keys = tiers.keys.thread(thread.thread_id)

    await tiers.hot.command("UNLINK", *keys)

    assert await thread.ids() == [first]
    third = await thread.put({"x": [3]})
    assert await thread.ids() == [third, first]


async def test_copy_from_before_a_failover_is_archived_and_loaded_again(tiers: Tiers, thread: Thread) -> None:
    first = await thread.put({"x": [1]})
    await archive(tiers, [thread.thread_id])
    second = await thread.put({"x": [2]})

    await antedate(tiers, thread)

    assert await thread.ids() == [second, first]
    assert await thread.values() == {"x": [2]}
    assert await cold_ids(tiers, thread) == [second, first]


async def test_ghost_of_a_deleted_thread_is_dropped(tiers: Tiers, thread: Thread) -> None:
    await thread.put({"x": [1]})
    keys = tiers.keys.thread(thread.thread_id)
    dumps = {key: await tiers.hot.command("DUMP", key) for key in (keys.thread, keys.log)}
    await archive(tiers, [thread.thread_id])
    await demote(tiers, thread.thread_id)
    await thread.put({"x": [2]})
    await delete(tiers, thread.thread_id)

    for key, value in dumps.items():
        await tiers.hot.command("RESTORE", key, 0, value)
    result = await archive(tiers, [thread.thread_id])

    assert result.ghosts == 1
    assert await thread.latest() is None
    assert await cold_ids(tiers, thread) == []
