"""Trim: a thread in use keeps its newest checkpoints hot, once all are archived."""

from jobs.trim import trim
from saver import TieredSaver, hot
from saver.archive import archive
from saver.connect import Tiers
from tests.builders import Thread
from tests.movement.steps import with_settings


async def hot_ids(tiers: Tiers, thread: Thread) -> list[str]:
    keys = tiers.keys.thread(thread.thread_id)
    reply = await tiers.hot.call(hot.list_page(keys, thread.thread_id, thread.namespace, "", "", 100))
    return [entry.checkpoint_id for entry in hot.page_read(reply).entries]


async def test_archived_thread_keeps_its_newest_checkpoints(tiers: Tiers, saver: TieredSaver) -> None:
    thread = Thread(saver)
    ids = [await thread.put({"x": [number]}) for number in range(5)]
    await archive(tiers, [thread.thread_id])

    dropped = await trim(with_settings(tiers, hot_checkpoints=2), [thread.thread_id])

    assert dropped > 0
    assert await hot_ids(tiers, thread) == ids[:2:-1]
    assert await thread.ids() == ids[::-1]


async def test_thread_that_is_not_archived_keeps_all(tiers: Tiers, saver: TieredSaver) -> None:
    thread = Thread(saver)
    ids = [await thread.put({"x": [number]}) for number in range(5)]

    dropped = await trim(with_settings(tiers, hot_checkpoints=2), [thread.thread_id])

    assert dropped == 0
    assert await hot_ids(tiers, thread) == ids[::-1]


async def test_all_keeps_all(tiers: Tiers, saver: TieredSaver) -> None:
    thread = Thread(saver)
    ids = [await thread.put({"x": [number]}) for number in range(20)]
    await archive(tiers, [thread.thread_id])

    dropped = await trim(with_settings(tiers, hot_checkpoints=None), [thread.thread_id])

    assert dropped == 0
    assert await hot_ids(tiers, thread) == ids[::-1]
