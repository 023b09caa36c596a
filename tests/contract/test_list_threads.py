"""Listing threads over both tiers."""

from langchain_core.runnables import RunnableConfig

from saver import TierConfig, TieredSaver
from saver.archive import archive
from saver.connect import Tiers
from tests.builders import Thread, checkpoint_of


async def put_for(saver: TieredSaver, thread: Thread, user: str) -> None:
    config = thread.config(thread.checkpoint_id)
    config["metadata"] = {"user_id": user}
    checkpoint = checkpoint_of({}, {})
    await saver.aput(config, checkpoint, {"source": "loop", "step": 1}, {})
    thread.checkpoint_id = checkpoint["id"]


async def test_threads_of_a_user_are_found_in_both_tiers_newest_first(saver: TieredSaver) -> None:
    threads = [Thread(saver, name) for name in ("cold", "other", "clean", "dirty")]
    for thread in threads:
        await put_for(saver, thread, "bob" if thread.thread_id == "other" else "ann")
    await saver.demote("cold")
    await archive(saver._runtime.tiers, ["clean"])
    await put_for(saver, threads[3], "ann")

    found = await saver.list_threads({"user_id": "ann"}, limit=10)

    tiers = {(info.thread_id, info.tier, info.checkpoints) for info in found}
    assert tiers == {("dirty", "hot", 2), ("clean", "hot", 1), ("cold", "cold", 1)}
    assert found[0].thread_id == "dirty"
    assert found == sorted(found, key=lambda info: info.last_activity, reverse=True)
    assert all(info.metadata["user_id"] == "ann" for info in found)


async def test_limit_keeps_the_last_active(saver: TieredSaver) -> None:
    for number in range(5):
        await put_for(saver, Thread(saver, f"t{number}"), "ann")

    found = await saver.list_threads(limit=2)

    assert [info.thread_id for info in found] == ["t4", "t3"]


async def test_checkpoints_in_both_tiers_are_counted_once(saver: TieredSaver, tiers: Tiers) -> None:
    thread = Thread(saver, "t")
    for number in range(3):
        await thread.put({"x": [number]})
    await archive(tiers, ["t"])
    await thread.put({"x": [3]})

    [info] = await saver.list_threads()

    assert info.checkpoints == 4


async def test_checkpoints_of_two_namespaces_with_one_id_are_two(saver: TieredSaver, tiers: Tiers) -> None:
    """Found by the property test."""
    await Thread(saver, "t", "child").put({"x": [0]}, id_="1")
    await saver.demote("t")
    await Thread(saver, "t").put({"x": [1]}, id_="1")

    [info] = await saver.list_threads()

    assert info.checkpoints == 2


def test_blocking_family_lists_too(config: TierConfig) -> None:
    with TieredSaver(config) as saver:
        where: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        saver.put(where, checkpoint_of({}, {}), {"source": "input", "step": -1}, {})
        saver.demote("t")

        [info] = saver.list_threads()

    assert (info.thread_id, info.tier) == ("t", "cold")


async def test_thread_that_left_hot_after_it_was_seen_dirty_is_told_of_by_cold(
    saver: TieredSaver, tiers: Tiers
) -> None:
    thread = Thread(saver, "t")
    await thread.put({"x": [1]})
    await saver.demote("t")
    await tiers.hot.command("ZADD", tiers.keys.thread("t").dirty, 1, "t")

    [info] = await saver.list_threads()

    assert (info.thread_id, info.tier) == ("t", "cold")
