"""Demote: an idle thread leaves Redis once it is in Postgres, and never before."""

import pytest

from jobs.demote import demote_due
from saver import TieredSaver
from saver.connect import Tiers
from tests.builders import Thread
from tests.movement.steps import SOON, archive_all, cold_ids, refuse, with_settings


async def test_idle_thread_is_archived_and_leaves_redis(tiers: Tiers, saver: TieredSaver) -> None:
    thread = Thread(saver)
    ids = [await thread.put({"x": [number]}) for number in range(3)]

    done = await demote_due(with_settings(tiers, demote_after=SOON), tiers.keys.partition(thread.thread_id))

    assert (done.demoted, done.archived.threads, done.is_done) == (1, 1, True)
    assert await saver.tier_of(thread.thread_id) == "cold"
    assert await cold_ids(tiers, thread) == ids[::-1]


async def test_thread_in_use_stays_hot(tiers: Tiers, saver: TieredSaver) -> None:
    thread = Thread(saver)
    await thread.put({"x": [1]})

    done = await demote_due(tiers, tiers.keys.partition(thread.thread_id))

    assert (done.demoted, done.is_done) == (0, True)
    assert await saver.tier_of(thread.thread_id) == "hot"


async def test_read_before_the_drop_keeps_the_thread_hot(tiers: Tiers, saver: TieredSaver) -> None:
    thread = Thread(saver)
    await thread.put({"x": [1]})
    long_ago = str(tiers.keys.partitions)
    keys = tiers.keys.thread(thread.thread_id)
    await tiers.hot.command("ZADD", keys.idle, long_ago, thread.thread_id)

    async def read(point: str) -> None:
        if point == "archive: committed":
            await thread.latest()

    tiers.pause = read
    done = await demote_due(tiers, tiers.keys.partition(thread.thread_id))

    assert (done.demoted, done.archived.threads) == (0, 1)
    assert await saver.tier_of(thread.thread_id) == "hot"


async def test_more_threads_than_a_batch_leave_in_one_turn(tiers: Tiers, saver: TieredSaver) -> None:
    threads = [Thread(saver) for _ in range(30)]
    for thread in threads:
        await thread.put({"x": [1]})

    small = with_settings(tiers, demote_after=SOON, batch_threads=4)
    done = [await demote_due(small, partition) for partition in range(tiers.keys.partitions)]

    assert sum(one.demoted for one in done) == 30
    assert await tiers.hot.command("EXISTS", *(tiers.keys.thread(one.thread_id).thread for one in threads)) == 0


@pytest.mark.parametrize("batch_threads", [1, 200])
async def test_thread_set_aside_stays_and_does_not_starve_others(
    tiers: Tiers, saver: TieredSaver, postgres_url: str, batch_threads: int
) -> None:
    poison = Thread(saver)
    others = [Thread(saver) for _ in range(8)]
    for thread in (poison, *others):
        await thread.put({"x": [1]})
    refuse(postgres_url, tiers, poison.thread_id)
    soon = with_settings(tiers, archive_after=SOON, demote_after=SOON, batch_threads=batch_threads)
    await archive_all(soon)

    done = [await demote_due(soon, partition) for partition in range(tiers.keys.partitions)]

    assert sum(one.demoted for one in done) == 8
    assert sum(one.archived.quarantined for one in done) == 0
    assert await saver.tier_of(poison.thread_id) == "hot"
