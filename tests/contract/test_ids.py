"""Ids of any kind and with any characters are taken; what Postgres could not store or index is refused at put."""

from typing import Any
from uuid import UUID

import pytest

from saver import InvalidThread, TieredSaver
from saver.connect import Tiers
from tests.builders import Thread, checkpoint_of
from tests.driven import MOVES

STRANGE = ["a:b", "\n", "c1:", "{p000}", "ü😀", "'\"\\", "%s", "*", "w0:1:0", "N", "\x7f\x01", " ", "a|b,c"]
REFUSED = ["nul\0", "x" * 3000, "ü" * 1500, "\ud800"]


@pytest.mark.parametrize("thread_id", ["t", 7, UUID(int=3), "a}b{c", "{", "x:y", "ü😀", "with space\n", "'; --"])
async def test_any_id_reads_back_from_either_tier(saver: TieredSaver, thread_id: Any) -> None:
    thread = Thread(saver, thread_id)
    await thread.put({"x": [1]})
    in_hot = await thread.values()

    await saver.demote(thread_id)

    assert in_hot == await thread.values() == {"x": [1]}
    assert await saver.tier_of(thread_id) == "cold"
    found = await saver.aget_tuple(thread.config())
    assert found is not None
    assert found.config["configurable"]["thread_id"] == str(thread_id)


@pytest.mark.parametrize("thread_id", ["nul\0", "x" * 3000, "ü" * 1500, "\ud800", None])
async def test_id_that_postgres_cannot_take_is_refused_at_put(saver: TieredSaver, thread_id: Any) -> None:
    with pytest.raises(InvalidThread):
        await Thread(saver, thread_id).put({"x": [1]})


@pytest.mark.parametrize("strange", STRANGE)
async def test_every_id_may_hold_any_character(saver: TieredSaver, tiers: Tiers, strange: str) -> None:
    """Threads, namespaces, checkpoints, tasks and channels."""
    thread = Thread(saver, f"t{strange}", namespace=f"n{strange}")
    older = await thread.put({strange: [1], "plain": strange}, id_=f"1{strange}")
    await thread.write((strange, 2), task=strange)
    newer = await thread.put({strange: [2], "plain": strange}, id_=f"2{strange}")

    for place in MOVES:
        await MOVES[place](tiers, thread.thread_id)

        assert await thread.values() == {strange: [2], "plain": strange}
        assert await thread.ids() == [newer, older]
        found = await saver.aget_tuple(thread.config(older))
        assert found is not None
        assert found.checkpoint["channel_values"] == {strange: [1], "plain": strange}
        assert found.pending_writes == [(strange, strange, 2)]


@pytest.mark.parametrize("bad", REFUSED)
async def test_every_id_of_a_put_is_checked(saver: TieredSaver, thread: Thread, bad: str) -> None:
    checkpoint = checkpoint_of({"x": [1]}, {"x": "1"})
    named = checkpoint_of({bad: [1]}, {bad: "1"})
    versioned = checkpoint_of({"x": [1]}, {"x": bad})
    calls: list[tuple[Any, Any]] = [
        (thread.config() | {"configurable": {"thread_id": "t", "checkpoint_ns": bad}}, checkpoint),
        (thread.config(bad), checkpoint),
        (thread.config(), checkpoint | {"id": bad}),
        (thread.config(), named),
        (thread.config(), versioned),
    ]
    for config, one in calls:
        with pytest.raises(InvalidThread):
            await saver.aput(config, one, {}, dict(one["channel_versions"]))

    assert await thread.latest() is None
    assert await saver.list_threads() == []


@pytest.mark.parametrize("bad", REFUSED)
async def test_every_id_of_writes_is_checked(saver: TieredSaver, thread: Thread, bad: str) -> None:
    await thread.put({"x": [1]}, id_="1")

    for config, channel, task in (
        (thread.config(bad), "x", "task"),
        (thread.config("1"), bad, "task"),
        (thread.config("1"), "x", bad),
    ):
        with pytest.raises(InvalidThread):
            await saver.aput_writes(config, [(channel, 1)], task)

    found = await thread.latest()
    assert found is not None
    assert found.pending_writes == []


async def test_namespace_that_is_not_told_is_the_root(saver: TieredSaver, tiers: Tiers) -> None:
    whole: Any = {"configurable": {"thread_id": "t"}}
    stored = await saver.aput(whole, checkpoint_of({"x": [1]}, {"x": "1"}, "1"), {}, {"x": "1"})
    await saver.aput_writes(stored, [], "a task without writes")

    for place in MOVES:
        await MOVES[place](tiers, "t")
        found = await saver.aget_tuple(whole)
        assert found is not None
        assert found.config == stored == {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1"}}
        assert found.pending_writes == []
        assert await saver.aget_tuple({"configurable": {"thread_id": "t", "checkpoint_id": "unknown"}}) is None


async def test_ids_may_come_out_of_order_and_again(saver: TieredSaver, tiers: Tiers, thread: Thread) -> None:
    for place, ids in zip(MOVES, (["3", "9"], ["5", "1"], ["7", "9"], ["2", "5"]), strict=True):
        for id_ in ids:
            thread.checkpoint_id = None
            await thread.put({"x": [place, id_]}, id_=id_, metadata={"step": place})
        await MOVES[place](tiers, thread.thread_id)

    found = [one async for one in saver.alist(thread.config())]

    last_put = {"9": "trimmed", "7": "trimmed", "5": "promoted", "3": "hot", "2": "promoted", "1": "evicted"}
    assert [one.checkpoint["id"] for one in found] == list(last_put)
    for one in found:
        put = last_put[one.checkpoint["id"]]
        assert dict(one.metadata)["step"] == put
        assert one.checkpoint["channel_values"]["x"] == [put, one.checkpoint["id"]]
    assert await thread.latest() == found[0]
