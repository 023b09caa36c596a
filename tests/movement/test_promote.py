"""Promote: what was read from cold comes back, ahead of the next write."""

from jobs.promote import promote_everywhere, promote_wanted
from saver import TieredSaver, hot
from saver.connect import Tiers
from tests.builders import Thread
from tests.movement.steps import with_settings


async def promote_all(tiers: Tiers) -> tuple[int, int, int]:
    """One turn in every partition: promoted, unknown, failed."""
    done = [await promote_wanted(tiers, partition) for partition in range(tiers.keys.partitions)]
    return sum(one.promoted for one in done), sum(one.unknown for one in done), sum(one.failed for one in done)


async def wanted(tiers: Tiers) -> int:
    cards = [("ZCARD", tiers.keys.wanted(partition)) for partition in range(tiers.keys.partitions)]
    return sum(await tiers.hot.commands(cards))


async def test_thread_that_was_read_from_cold_comes_back(tiers: Tiers, saver: TieredSaver) -> None:
    threads = [Thread(saver) for _ in range(12)]
    for thread in threads:
        await thread.put({"x": [1]})
        await saver.demote(thread.thread_id)
        await thread.latest()

    assert await promote_all(tiers) == (12, 0, 0)

    assert [await saver.tier_of(thread.thread_id) for thread in threads] == ["hot"] * 12
    assert await wanted(tiers) == 0


async def test_lasting_namespaces_come_along_and_those_of_one_call_do_not(tiers: Tiers, saver: TieredSaver) -> None:
    thread = Thread(saver)
    await thread.put({"x": [1]})
    for namespace in ("keep", "sub:1234"):
        await Thread(saver, thread.thread_id, namespace).put({"x": [2]})
    await saver.demote(thread.thread_id)
    await thread.latest()

    await promote_all(tiers)

    reply = await tiers.hot.call(
        hot.list_page(tiers.keys.thread(thread.thread_id), thread.thread_id, None, "", "", 100)
    )
    loaded = {space for space, floor in hot.page_read(reply).floors.items() if floor is not None}
    assert loaded == {"", "keep"}


async def test_unknown_thread_is_not_wanted_any_more_and_takes_no_room(tiers: Tiers, saver: TieredSaver) -> None:
    thread = Thread(saver)
    assert await thread.latest() is None
    assert await wanted(tiers) == 1

    assert await promote_all(tiers) == (0, 1, 0)

    assert await wanted(tiers) == 0
    assert await tiers.hot.command("EXISTS", tiers.keys.thread(thread.thread_id).thread) == 0


async def test_one_turn_serves_all_partitions(tiers: Tiers, saver: TieredSaver) -> None:
    threads = [Thread(saver) for _ in range(12)]
    for thread in threads:
        await thread.put({"x": [1]})
        await saver.demote(thread.thread_id)
        await thread.latest()

    done = await promote_everywhere(tiers)

    assert (done.promoted, done.unknown, done.failed, done.is_done) == (12, 0, 0, True)
    assert await wanted(tiers) == 0


async def test_thread_that_is_hot_by_now_is_not_wanted_any_more(tiers: Tiers, saver: TieredSaver) -> None:
    thread = Thread(saver)
    await thread.put({"x": [1]})
    await saver.demote(thread.thread_id)
    await thread.latest()
    await thread.put({"x": [2]})

    promoted, _, failed = await promote_all(tiers)

    assert (promoted, failed, await wanted(tiers)) == (0, 0, 0)


async def test_as_many_checkpoints_come_back_as_configured(tiers: Tiers, saver: TieredSaver) -> None:
    thread = Thread(saver)
    ids = [await thread.put({"x": [number]}) for number in range(5)]
    await saver.demote(thread.thread_id)
    await thread.latest()

    await promote_all(with_settings(tiers, promote_checkpoints=3))

    reply = await tiers.hot.call(hot.list_page(tiers.keys.thread(thread.thread_id), thread.thread_id, "", "", "", 100))
    assert [entry.checkpoint_id for entry in hot.page_read(reply).entries] == ids[:1:-1]
