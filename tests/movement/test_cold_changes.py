"""Prune, copy and deletion by run against an agent that goes on writing, at each of their steps."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from saver import TieredSaver
from saver.connect import Tiers
from saver.copying import copy
from saver.demote import demote
from saver.destroy import delete
from saver.prune import delete_for_runs, keep_newest
from tests.builders import Thread
from tests.movement.pauses import cold_ids, done_or_waiting, stopped

STEPS = ["destroy: locked", "destroy: evicted", "destroy: changed"]


async def grown(thread: Thread, run: str = "run-1") -> list[str]:
    """A dirty thread of four checkpoints."""
    return [await thread.put({"x": [number]}, metadata={"run_id": run}) for number in range(4)]


class Interrupted(Exception):  # noqa: N818 - stands for whatever ends a process
    """Ends a change before its commit."""


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("change", [delete, partial(keep_newest, keep=1)], ids=["delete", "prune"])
async def test_change_that_does_not_commit_costs_nothing(
    tiers: Tiers, thread: Thread, change: Callable[[Tiers, str], Awaitable[None]], step: str
) -> None:
    ids = await grown(thread)

    async def break_off(point: str) -> None:
        if point == step:
            raise Interrupted

    tiers.pause = break_off
    with pytest.raises(Interrupted):
        await change(tiers, thread.thread_id)

    assert await thread.ids() == ids[::-1]
    await demote(tiers, thread.thread_id)
    assert await thread.ids() == ids[::-1] == await cold_ids(tiers, thread)


@pytest.mark.parametrize("step", STEPS)
async def test_put_during_a_prune_is_kept_on_the_newest(tiers: Tiers, thread: Thread, step: str) -> None:
    ids = await grown(thread)

    async with stopped(tiers, step, keep_newest(tiers, thread.thread_id, 1)):
        put = asyncio.ensure_future(thread.put({"x": ["new"]}))
        await done_or_waiting(tiers, put)
    added = await put

    assert await thread.ids() in ([added, ids[-1]], [added])
    assert await thread.values() == {"x": ["new"]}


@pytest.mark.parametrize("step", STEPS)
async def test_put_during_a_deletion_of_runs_is_kept(tiers: Tiers, thread: Thread, step: str) -> None:
    await grown(thread, "old")

    async with stopped(tiers, step, delete_for_runs(tiers, ["old"])):
        put = asyncio.ensure_future(thread.put({"x": ["new"]}, metadata={"run_id": "new"}))
        await done_or_waiting(tiers, put)
    added = await put

    assert await thread.ids() == [added]


@pytest.mark.parametrize("step", ["copy: archived", *STEPS])
async def test_put_during_a_copy_is_in_its_source_and_in_no_half_copy(
    saver: TieredSaver, tiers: Tiers, thread: Thread, step: str
) -> None:
    ids = await grown(thread)
    target = Thread(saver, "target")

    async with stopped(tiers, step, copy(tiers, thread.thread_id, "target")):
        put = asyncio.ensure_future(thread.put({"x": ["new"]}))
        await done_or_waiting(tiers, put)
    added = await put

    assert await thread.ids() == [added, *ids[::-1]]
    copied = await target.ids()
    assert copied in (ids[::-1], [added, *ids[::-1]])
    for checkpoint_id in copied:
        one, other = [await saver.aget_tuple(where.config(checkpoint_id)) for where in (thread, target)]
        assert one is not None
        assert other is not None
        assert other.checkpoint == one.checkpoint


@pytest.mark.parametrize("step", STEPS)
async def test_put_to_the_target_of_a_copy_is_kept(saver: TieredSaver, tiers: Tiers, thread: Thread, step: str) -> None:
    ids = await grown(thread)
    target = Thread(saver, "target")
    first = await target.put({"own": [1]})

    async with stopped(tiers, step, copy(tiers, thread.thread_id, "target")):
        put = asyncio.ensure_future(target.put({"own": [2]}))
        await done_or_waiting(tiers, put)
    second = await put

    assert set(await target.ids()) == {*ids, first, second}
    await saver.demote("target")
    assert set(await cold_ids(tiers, target)) == {*ids, first, second}


async def test_copies_in_opposite_directions_do_not_wait_for_each_other(saver: TieredSaver, tiers: Tiers) -> None:
    one, other = Thread(saver, "one"), Thread(saver, "other")
    ids = {*await grown(one), *await grown(other)}

    work = [partial(copy, tiers, "one", "other"), partial(copy, tiers, "other", "one")] * 5
    async with asyncio.timeout(20):
        await asyncio.gather(*(copying() for copying in work))

    assert set(await one.ids()) == set(await other.ids()) == ids


async def test_run_of_a_thread_that_nobody_archived_is_deleted(saver: TieredSaver, thread: Thread) -> None:
    await grown(thread, "old")
    kept = await thread.put({"x": ["new"]}, metadata={"run_id": "new"})

    await saver.adelete_for_runs(["old"])

    assert await thread.ids() == [kept]
    assert await thread.values() == {"x": ["new"]}


async def test_thread_whose_runs_are_all_deleted_leaves_a_tombstone(
    saver: TieredSaver, tiers: Tiers, thread: Thread
) -> None:
    await grown(thread)

    await saver.adelete_for_runs(["run-1"])

    assert await thread.latest() is None
    assert await saver.tier_of(thread.thread_id) is None
    assert await saver.list_threads() == []
    begun = await thread.put({"x": ["again"]})
    assert await thread.ids() == [begun]
