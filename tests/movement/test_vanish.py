"""TIER_ON_IDLE=expire: threads that live in Redis alone and vanish when nobody uses them."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from jobs.demote import demote_due
from saver import TierConfig, TieredSaver
from saver.connect import Tiers, connect
from tests.builders import Thread, checkpoint_of
from tests.fix_worker import StartWorker, has
from tests.movement.steps import archive_all, cold_ids, is_in, with_settings
from tests.stock import rows
from tests.waiting import eventually_async

LONG = timedelta(hours=1)
SHORT = timedelta(milliseconds=300)
ABSENT = -2


@pytest.fixture
def short_lived(config: TierConfig) -> TierConfig:
    return config.model_copy(update={"on_idle": "expire", "demote_after": SHORT})


@pytest_asyncio.fixture
async def vanishing(config: TierConfig) -> AsyncIterator[TieredSaver]:
    """A saver whose threads vanish an hour after their last access."""
    async with TieredSaver(config.model_copy(update={"on_idle": "expire", "demote_after": LONG})) as opened:
        yield opened


async def begun(saver: TieredSaver, **metadata: Any) -> Thread:
    thread = Thread(saver)
    await thread.put({"x": [1], "y": "text"}, metadata=metadata)
    await thread.write(("x", [2]))
    return thread


def in_postgres(postgres_url: str, config: TierConfig, thread: Thread) -> int:
    return sum(map(len, rows(postgres_url, config.postgres_schema, thread.thread_id).values()))


async def keys_of(tiers: Tiers, thread: Thread) -> int:
    return int(await tiers.hot.command("EXISTS", *tiers.keys.thread(thread.thread_id)[:3]))


async def end_of(tiers: Tiers, thread: Thread) -> int:
    """When both keys of a thread end; -1 for never."""
    keys = tiers.keys.thread(thread.thread_id)
    found = {await tiers.hot.command("PEXPIRETIME", key) for key in (keys.thread, keys.log)} - {ABSENT}
    assert len(found) == 1, "the rows and their log end at different moments"
    return int(found.pop())


async def test_thread_vanishes_by_itself_and_nothing_of_it_is_in_postgres(
    short_lived: TierConfig, tiers: Tiers, postgres_url: str
) -> None:
    async with TieredSaver(short_lived) as saver:
        thread = await begun(saver)
        assert await thread.values() == {"x": [1], "y": "text"}

        await eventually_async(lambda: is_in(saver, thread, None))

    keys = tiers.keys.thread(thread.thread_id)
    assert await tiers.hot.command("EXISTS", keys.thread, keys.log) == 0
    assert in_postgres(postgres_url, short_lived, thread) == 0


async def test_blocking_family_begins_threads_that_vanish(short_lived: TierConfig, tiers: Tiers) -> None:
    with TieredSaver(short_lived) as saver:
        where: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        saver.put(where, checkpoint_of({}, {}), {"source": "input", "step": -1}, {})

    assert await end_of(tiers, Thread(saver, "t")) > 0


async def test_every_access_puts_the_end_off(vanishing: TieredSaver, tiers: Tiers) -> None:
    thread = await begun(vanishing)
    ends = [await end_of(tiers, thread)]

    for access in (thread.latest, lambda: thread.write(("x", [3])), lambda: thread.put({"x": [4]})):
        await eventually_async(lambda: _has_ticked(tiers, ends[-1]))
        await access()
        ends.append(await end_of(tiers, thread))

    assert ends == sorted(set(ends))


async def _has_ticked(tiers: Tiers, end: int) -> bool:
    seconds, microseconds = await tiers.hot.command("TIME")
    return int(seconds) * 1000 + int(microseconds) // 1000 > end - LONG.total_seconds() * 1000 + 1


async def test_archiver_and_trimmer_leave_it_alone(vanishing: TieredSaver, tiers: Tiers, postgres_url: str) -> None:
    thread = await begun(vanishing)
    at_once = with_settings(tiers, archive_after=timedelta(0), hot_checkpoints=1)

    done = await archive_all(at_once)

    assert done.threads == 0
    assert in_postgres(postgres_url, vanishing.config, thread) == 0


async def test_demoter_clears_the_indexes_behind_it(short_lived: TierConfig, tiers: Tiers) -> None:
    async with TieredSaver(short_lived) as saver:
        thread = await begun(saver)
        await eventually_async(lambda: is_in(saver, thread, None))
    index = tiers.keys.thread(thread.thread_id).idle
    worker = with_settings(tiers, on_idle="expire", demote_after=SHORT)

    done = await demote_due(worker, tiers.keys.partition(thread.thread_id))

    assert (done.vanished, done.demoted, done.archived.threads) == (1, 0, 0)
    assert await tiers.hot.command("ZCARD", index) == 0


async def test_worker_counts_what_vanished(
    short_lived: TierConfig, start_worker: StartWorker, postgres_url: str
) -> None:
    worker = start_worker(on_idle="expire", archive_after="100ms", demote_after="300ms").ready()
    async with TieredSaver(short_lived) as saver:
        threads = [await begun(saver) for _ in range(5)]

    await eventually_async(lambda: has(worker, "tier_vanished_threads_total", 5), within_seconds=20)

    assert sum(in_postgres(postgres_url, short_lived, thread) for thread in threads) == 0


async def test_thread_that_asks_for_it_is_archived(vanishing: TieredSaver, tiers: Tiers) -> None:
    kept, later = await begun(vanishing, tier_on_idle="archive"), await begun(vanishing)
    await later.put({"x": [5]}, metadata={"tier_on_idle": "archive"})

    await archive_all(with_settings(tiers, archive_after=timedelta(0)))

    assert await end_of(tiers, kept) < 0
    assert [await cold_ids(tiers, thread) for thread in (kept, later)] == [await kept.ids(), await later.ids()]


async def test_thread_that_is_demoted_by_name_is_archived(vanishing: TieredSaver) -> None:
    thread = await begun(vanishing)

    await vanishing.demote(thread.thread_id)

    assert await vanishing.tier_of(thread.thread_id) == "cold"
    assert await thread.values() == {"x": [1], "y": "text"}


async def test_thread_that_postgres_has_does_not_vanish(
    vanishing: TieredSaver, saver: TieredSaver, tiers: Tiers
) -> None:
    old = await begun(saver)
    await saver.demote(old.thread_id)
    again = Thread(vanishing, old.thread_id, checkpoint_id=old.checkpoint_id, versions=old.versions)

    await again.put({"x": [6], "y": "text"})

    assert await end_of(tiers, again) < 0


async def test_thread_goes_on_as_an_archived_one_where_nothing_vanishes_any_more(
    vanishing: TieredSaver, saver: TieredSaver, tiers: Tiers
) -> None:
    old = await begun(vanishing)
    again = Thread(saver, old.thread_id, checkpoint_id=old.checkpoint_id, versions=old.versions)

    await again.put({"x": [6], "y": "text"})
    await archive_all(with_settings(tiers, archive_after=timedelta(0)))

    assert await end_of(tiers, again) < 0
    assert await cold_ids(tiers, again) == await again.ids()


async def test_deleted_thread_leaves_nothing_in_either_tier(
    vanishing: TieredSaver, tiers: Tiers, postgres_url: str
) -> None:
    thread = await begun(vanishing)

    await vanishing.adelete_thread(thread.thread_id)

    assert (await keys_of(tiers, thread), in_postgres(postgres_url, vanishing.config, thread)) == (0, 0)
    assert await thread.latest() is None


async def test_copied_thread_is_archived_with_its_copy(vanishing: TieredSaver, tiers: Tiers) -> None:
    thread = await begun(vanishing)

    await vanishing.acopy_thread(thread.thread_id, "copy")

    assert await Thread(vanishing, "copy").values() == {"x": [1], "y": "text"}
    keys = tiers.keys.thread(thread.thread_id)
    assert await tiers.hot.command("PTTL", keys.thread) == -1


async def test_runs_are_deleted_from_threads_that_vanish(vanishing: TieredSaver) -> None:
    thread = Thread(vanishing)
    await thread.put({"x": [1]}, metadata={"run_id": "first"})
    newest = await thread.put({"x": [2]}, metadata={"run_id": "second"})
    other = await begun(vanishing)

    await vanishing.adelete_for_runs(["first"])

    assert await thread.ids() == [newest]
    assert await vanishing.tier_of(other.thread_id) == "hot"


async def test_threads_that_vanish_are_listed(vanishing: TieredSaver) -> None:
    thread = await begun(vanishing, user_id="ann")
    await begun(vanishing, user_id="bob")

    [info] = await vanishing.list_threads({"user_id": "ann"})

    assert (info.thread_id, info.tier, info.checkpoints) == (thread.thread_id, "hot", 1)


async def test_thread_survives_a_restart_of_redis(vanishing: TieredSaver, tiers: Tiers) -> None:
    thread = await begun(vanishing)
    keys = tiers.keys.thread(thread.thread_id)
    await _forge_history(tiers, keys.thread)

    assert await thread.values() == {"x": [1], "y": "text"}
    await thread.put({"x": [7], "y": "text"})

    assert len(await thread.ids()) == 2
    assert await end_of(tiers, thread) > 0


async def _forge_history(tiers: Tiers, key: str) -> None:
    """The history of the server is another one than the thread was written under."""
    text = (
        "local i, _, t, c, l = cmsgpack.unpack(redis.call('HGET', KEYS[1], 's'))"
        " redis.call('HSET', KEYS[1], 's', cmsgpack.pack(i, 'another', t, c, l))"
    )
    await tiers.hot.command("EVAL", text, 1, key)


async def test_a_worker_that_does_not_expire_archives_what_would_have_vanished(
    vanishing: TieredSaver, config: TierConfig
) -> None:
    thread = await begun(vanishing)

    async with connect(config.model_copy(update={"demote_after": timedelta(0)})) as worker:
        done = await demote_due(worker, worker.keys.partition(thread.thread_id))

    assert (done.demoted, done.vanished) == (1, 0)
    assert await vanishing.tier_of(thread.thread_id) == "cold"
