"""Older values become patches of newer ones in Redis, and nobody who reads, trims or archives sees a difference."""

import secrets
from typing import Any

from jobs.trim import trim
from jobs.verify import verify
from saver import TierConfig, TieredSaver, hot
from saver.archive import archive
from saver.connect import Tiers
from saver.logged import log_batch, rows_of
from tests.builders import Thread
from tests.movement.steps import with_settings
from tests.stock import stock_saver

MANY = 40


def message() -> str:
    return secrets.token_hex(400)


async def conversation(saver: TieredSaver, steps: int) -> tuple[Thread, list[dict[str, Any]]]:
    thread = Thread(saver)
    values: list[dict[str, Any]] = []
    for number in range(steps):
        values.append(
            {"messages": [message() for _ in range(3)] if not values else [*values[-1]["messages"], message()]}
        )
        await thread.put(values[-1])
        await thread.write(("messages", number))
    return thread, values


async def marks(tiers: Tiers, thread: Thread) -> str:
    """How each blob of a thread is packed, one letter each."""
    found = await tiers.hot.command("HGETALL", tiers.keys.thread(thread.thread_id).thread)
    return "".join(
        sorted(value[:1].decode() for name, value in zip(found[::2], found[1::2], strict=True) if name[:1] == b"b")
    )


async def listed(saver: Any, thread: Thread) -> list[dict[str, Any]]:
    return [found.checkpoint["channel_values"] async for found in saver.alist(thread.config())]


async def test_older_values_take_little_room_and_are_read_as_before(tiers: Tiers, saver: TieredSaver) -> None:
    thread, values = await conversation(saver, MANY)

    assert await marks(tiers, thread) == "nn" + "p" * (MANY - 2)
    assert await listed(saver, thread) == values[::-1]
    assert await thread.values() == values[-1]
    ids = (await thread.ids())[::-1]
    for id_, value in zip(ids, values, strict=True):
        found = await saver.aget_tuple(thread.config(id_))
        assert found is not None
        assert found.checkpoint["channel_values"] == value


async def test_patched_values_are_archived_whole(tiers: Tiers, saver: TieredSaver, postgres_url: str) -> None:
    thread, values = await conversation(saver, MANY)

    await archive(tiers, [thread.thread_id])

    async with stock_saver(postgres_url, tiers.config.postgres_schema) as stock:
        assert await listed(stock, thread) == values[::-1]
    assert not (await verify(tiers, thread.thread_id)).differences


async def test_batch_is_bounded_by_what_patches_become(tiers: Tiers, saver: TieredSaver) -> None:
    thread, _ = await conversation(saver, MANY)
    keys = tiers.keys.thread(thread.thread_id)

    batch = log_batch(thread.thread_id, await tiers.hot.call(hot.log_read(keys, thread.thread_id, 20_000, -1, 0)))

    assert batch is not None
    rows = rows_of(batch)
    assert 0 < rows.size_bytes < 40_000
    assert len(rows.blobs) < MANY / 2
    assert not batch.is_all


async def test_batches_of_a_part_of_the_patches_archive_everything(
    tiers: Tiers, saver: TieredSaver, postgres_url: str
) -> None:
    thread, values = await conversation(saver, MANY)
    small = with_settings(tiers, batch_bytes=20_000)

    while not (await archive(small, [thread.thread_id])).clean:
        pass

    async with stock_saver(postgres_url, tiers.config.postgres_schema) as stock:
        assert await listed(stock, thread) == values[::-1]


async def test_trim_keeps_what_a_patch_in_use_is_made_of(tiers: Tiers, saver: TieredSaver) -> None:
    thread, values = await conversation(saver, 5)
    first = await saver.aget_tuple(thread.config((await thread.ids())[-1]))
    assert first is not None
    thread.versions |= first.checkpoint["channel_versions"]
    await thread.put(values[0] | {"x": [1]}, changed=["x"])  # a fork back: its messages are those of the first
    await archive(tiers, [thread.thread_id])

    await trim(with_settings(tiers, hot_checkpoints=1), [thread.thread_id])

    assert await thread.values() == values[0] | {"x": [1]}
    assert await tiers.hot.command("HLEN", tiers.keys.thread(thread.thread_id).thread) < 5 * 4


async def test_value_loaded_from_postgres_is_no_part_of_a_patch(tiers: Tiers, saver: TieredSaver) -> None:
    thread, values = await conversation(saver, 3)
    await saver.demote(thread.thread_id)
    await saver.promote(thread.thread_id)

    values.append({"messages": [*values[-1]["messages"], message()]})
    await thread.put(values[-1])

    assert "p" not in await marks(tiers, thread)
    assert await listed(saver, thread) == values[::-1]


async def test_two_agents_on_one_thread_read_what_was_stored(saver: TieredSaver, config: TierConfig) -> None:
    async with TieredSaver(config) as other_saver:
        thread = Thread(saver)
        values: list[dict[str, Any]] = []
        for number in range(12):
            thread.saver = (saver, other_saver)[number // 2 % 2]
            values.append({"messages": [*(values[-1]["messages"] if values else []), message()]})
            await thread.put(values[-1])

        assert await listed(saver, thread) == values[::-1]
        assert await listed(other_saver, thread) == values[::-1]


async def test_first_value_of_a_version_stays_whatever_the_second_agent_knows(
    saver: TieredSaver, config: TierConfig
) -> None:
    """Both store the same version: the second one's memory is of a value that Redis does not hold."""
    async with TieredSaver(config) as other_saver:
        thread = Thread(saver)
        kept, dropped = {"messages": [message(), message()]}, {"messages": [message(), message()]}
        await thread.put(kept)
        twin = Thread(other_saver, thread.thread_id, versions=dict(thread.versions))
        newest = {"messages": [*dropped["messages"], message()]}
        await other_saver.aput(
            twin.config(),
            (await thread.latest()).checkpoint | {"id": "1" * 36, "channel_values": dropped},  # type: ignore[union-attr]
            {"source": "loop", "step": 1},
            dict(thread.versions),
        )
        twin.checkpoint_id = "1" * 36

        await twin.put(newest)

        assert await listed(saver, thread) == [newest, kept, kept]
