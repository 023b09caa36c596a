"""Listing and counting threads over both tiers."""

from datetime import UTC, datetime, timedelta

import psycopg
from langchain_core.runnables import RunnableConfig
from psycopg import sql
from psycopg.types.json import Jsonb

from saver import TierConfig, TieredSaver
from saver.archive import archive
from saver.connect import Tiers
from saver.statements import statements
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


async def test_checkpoints_of_a_subgraph_count_while_the_root_is_cold(saver: TieredSaver, tiers: Tiers) -> None:
    """Found by the property test."""
    await Thread(saver, "t").put({"x": [0]})
    await saver.demote("t")
    await Thread(saver, "t", "child").put({"x": [1]})

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


async def test_pages_follow_each_other_over_both_tiers(saver: TieredSaver) -> None:
    for number in range(7):
        await put_for(saver, Thread(saver, f"t{number}"), "ann")
        if number < 4:
            await saver.demote(f"t{number}")

    pages = [await saver.list_threads({"user_id": "ann"}, limit=3)]
    while pages[-1]:
        assert len(pages) < 9
        pages.append(await saver.list_threads({"user_id": "ann"}, limit=3, after=pages[-1][-1]))

    assert [[info.thread_id for info in page] for page in pages] == [["t6", "t5", "t4"], ["t3", "t2", "t1"], ["t0"], []]


async def test_pages_follow_each_other_among_threads_archived_at_one_moment(saver: TieredSaver, tiers: Tiers) -> None:
    names = [f"t{number}" for number in range(5)]
    for name in names:
        await put_for(saver, Thread(saver, name), "ann")
    await archive(tiers, names)

    found = await saver.list_threads(limit=2)
    found += await saver.list_threads(limit=2, after=found[-1])
    found += await saver.list_threads(limit=2, after=found[-1])

    assert sorted(info.thread_id for info in found) == names


async def test_threads_are_counted_over_both_tiers(saver: TieredSaver) -> None:
    for name, user in (("cold", "ann"), ("other", "bob"), ("hot", "ann")):
        await put_for(saver, Thread(saver, name), user)
    await saver.demote("cold")
    await saver.demote("other")

    assert [await saver.count_threads({"user_id": user}) for user in ("ann", "bob", "eve")] == [2, 1, 0]


async def test_first_activity_and_size_are_those_of_both_tiers(saver: TieredSaver, tiers: Tiers) -> None:
    thread = Thread(saver, "t")
    await thread.put({"x": ["a" * 5000]})
    [hot] = await saver.list_threads()
    await archive(tiers, ["t"])
    [clean] = await saver.list_threads()
    await thread.put({"x": ["b" * 3000]})

    [both] = await saver.list_threads()

    assert [info.first_activity for info in (hot, clean, both)] == [datetime(2020, 1, 1, tzinfo=UTC)] * 3
    assert hot.size_bytes > 5000
    assert 0 < clean.size_bytes < both.size_bytes
    assert both.last_activity - clean.last_activity < timedelta(minutes=5)


async def test_newest_checkpoint_speaks_for_its_thread_when_it_is_cold(saver: TieredSaver) -> None:
    thread = Thread(saver, "t")
    await put_for(saver, thread, "ann")
    await saver.demote("t")
    await put_for(saver, thread, "bob")
    await saver.demote("t")

    assert [await saver.list_threads({"user_id": user}) != [] for user in ("ann", "bob")] == [False, True]


async def test_what_changes_with_every_step_is_no_label_but_filters(
    saver: TieredSaver, config: TierConfig, postgres_url: str
) -> None:
    await put_for(saver, Thread(saver, "t"), "ann")
    await saver.demote("t")

    with psycopg.connect(postgres_url) as connection:
        labels = sql.SQL("select metadata from {}").format(sql.Identifier(config.postgres_schema, "tier_labels"))
        assert connection.execute(labels).fetchall() == [({"user_id": "ann"},)]
    assert [info.thread_id for info in await saver.list_threads({"source": "loop", "user_id": "ann"})] == ["t"]
    assert await saver.list_threads({"source": "input", "user_id": "ann"}) == []


async def test_deleted_thread_leaves_no_label(saver: TieredSaver, config: TierConfig, postgres_url: str) -> None:
    await put_for(saver, Thread(saver, "t"), "ann")
    await saver.demote("t")

    await saver.adelete_thread("t")

    with psycopg.connect(postgres_url) as connection:
        labels = sql.SQL("select 1 from {}").format(sql.Identifier(config.postgres_schema, "tier_labels"))
        assert connection.execute(labels).fetchall() == []
    assert await saver.count_threads({"user_id": "ann"}) == 0


async def test_threads_of_a_user_are_found_by_index_in_a_large_table(
    saver: TieredSaver, config: TierConfig, postgres_url: str
) -> None:
    schema = sql.Identifier(config.postgres_schema)
    fill = sql.SQL(
        "insert into {}.tier_labels select n::text, jsonb_build_object('user_id', n / 10)"
        " from generate_series(1, 20000) as n"
    )
    wanted: dict[str, object] = {"labels": Jsonb({"user_id": 7}), "filter": None, "skip": []}
    place = {"moment": "infinity", "after": "", "limit": 9}
    texts = statements(config.postgres_schema)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(fill.format(schema))
        connection.execute(sql.SQL("analyze {}.tier_labels").format(schema))
        plans = [
            str(connection.execute(b"explain " + texts[name], {**wanted, **place}).fetchall())
            for name in ("find_threads", "count_found")
        ]

    assert all("tier_labels_metadata" in plan for plan in plans), plans
