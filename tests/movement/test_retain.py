"""Retain: a thread goes as a whole, at its age, and only when nobody needs it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypedDict

import psycopg
import pytest
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from psycopg import sql

from jobs.retain import Retained, retain
from jobs.retention import Place
from saver import TierConfig, TieredSaver
from saver.connect import Tiers
from tests.builders import Thread, checkpoint_of
from tests.movement.pauses import done_or_waiting, stopped
from tests.movement.steps import with_settings

YEAR = timedelta(days=365)
TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")


class State(TypedDict):
    answer: str


async def archived(saver: TieredSaver, count: int = 1) -> list[Thread]:
    """Threads in cold, with rows in every table."""
    threads = [Thread(saver) for _ in range(count)]
    for thread in threads:
        await thread.put({"x": [1], "y": "text"})
        await thread.write(("x", [2]))
        await saver.demote(thread.thread_id)
    return threads


def make_old(postgres_url: str, tiers: Tiers, *thread_ids: str) -> None:
    """Let the threads look as if they had been written two years ago."""
    schema = tiers.config.postgres_schema
    rows = sql.Identifier(schema, "checkpoints")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        query = sql.SQL("update {} set last_activity = now() - interval '2 years' where thread_id = any(%s)")
        connection.execute(query.format(sql.Identifier(schema, "tier_threads")), (list(thread_ids),))
        query = sql.SQL(
            "update {} set checkpoint = jsonb_set(checkpoint, '{{ts}}', to_jsonb((now() - interval '2 years')::text))"
            " where thread_id = any(%s)"
        )
        connection.execute(query.format(rows), (list(thread_ids),))


def rows_left(postgres_url: str, tiers: Tiers, *thread_ids: str) -> int:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        return sum(
            connection.execute(
                sql.SQL("select count(*) from {} where thread_id = any(%s)").format(
                    sql.Identifier(tiers.config.postgres_schema, table)
                ),
                (list(thread_ids),),
            ).fetchall()[0][0]
            for table in TABLES
        )


async def test_old_threads_go_whole_and_young_ones_stay(tiers: Tiers, saver: TieredSaver, postgres_url: str) -> None:
    old, young = await archived(saver, 5), await archived(saver, 5)
    make_old(postgres_url, tiers, *(thread.thread_id for thread in old))
    before = rows_left(postgres_url, tiers, *(thread.thread_id for thread in young))

    done = await retain(with_settings(tiers, retain_for=YEAR))

    assert (done.deleted, done.place) == (5, None)
    assert rows_left(postgres_url, tiers, *(thread.thread_id for thread in old)) == 0
    assert rows_left(postgres_url, tiers, *(thread.thread_id for thread in young)) == before
    assert [await thread.latest() for thread in old] == [None] * 5


async def test_off_deletes_nothing(tiers: Tiers, saver: TieredSaver, postgres_url: str) -> None:
    [thread] = await archived(saver)
    make_old(postgres_url, tiers, thread.thread_id)

    done = await retain(tiers)

    assert (done.deleted, done.place) == (0, None)
    assert await thread.values() is not None


async def test_thread_in_redis_is_in_use(tiers: Tiers, saver: TieredSaver, postgres_url: str) -> None:
    [thread] = await archived(saver)
    await saver.promote(thread.thread_id)
    make_old(postgres_url, tiers, thread.thread_id)

    done = await retain(with_settings(tiers, retain_for=YEAR))

    assert (done.deleted, done.in_use) == (0, 1)
    await saver.demote(thread.thread_id)
    assert await thread.values() is not None


async def test_thread_archived_before_the_lock_is_young_again(
    tiers: Tiers, saver: TieredSaver, postgres_url: str
) -> None:
    [thread] = await archived(saver)
    make_old(postgres_url, tiers, thread.thread_id)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        table = sql.Identifier(tiers.config.postgres_schema, "tier_threads")
        connection.execute(sql.SQL("update {} set last_activity = now() - interval '400 days'").format(table))

    assert (await retain(with_settings(tiers, retain_for=YEAR + timedelta(days=90)))).deleted == 0
    assert (await retain(with_settings(tiers, retain_for=YEAR))).deleted == 1


async def test_thread_archived_between_the_search_and_the_lock_stays(
    tiers: Tiers, saver: TieredSaver, postgres_url: str
) -> None:
    [thread] = await archived(saver)
    make_old(postgres_url, tiers, thread.thread_id)

    async with stopped(retaining := with_settings(tiers, retain_for=YEAR), "retain: found", retain(retaining)):
        newest = await thread.put({"x": [2]})
        await saver.demote(thread.thread_id)

    assert (await thread.ids())[0] == newest
    assert await thread.values() == {"x": [2]}


async def test_load_that_read_before_a_retention_is_refused(
    tiers: Tiers, saver: TieredSaver, postgres_url: str
) -> None:
    [thread] = await archived(saver)
    make_old(postgres_url, tiers, thread.thread_id)

    async with stopped(saver._runtime.tiers, "load: read", saver.promote(thread.thread_id)):
        done = await retain(with_settings(tiers, retain_for=YEAR))

    assert done.deleted == 1
    assert await thread.latest() is None


@pytest.mark.parametrize("step", ["retain: locked", "retain: absent", "retain: deleted"])
async def test_put_during_a_retention_begins_anew(
    tiers: Tiers, saver: TieredSaver, postgres_url: str, step: str
) -> None:
    [thread] = await archived(saver)
    make_old(postgres_url, tiers, thread.thread_id)

    async with stopped(retaining := with_settings(tiers, retain_for=YEAR), step, retain(retaining)):
        late = asyncio.ensure_future(thread.put({"x": [2]}))
        await done_or_waiting(tiers, late)
    newest = await late

    assert await thread.ids() == [newest]
    assert await thread.values() == {"x": [2]}


async def test_run_that_is_cut_short_goes_on_from_its_place(
    tiers: Tiers, saver: TieredSaver, postgres_url: str
) -> None:
    threads = await archived(saver, 6)
    make_old(postgres_url, tiers, *(thread.thread_id for thread in threads))
    impatient = with_settings(tiers, retain_for=YEAR, batch_threads=1)

    runs: list[Retained] = []
    place: Place | None = Place("delete")
    while place is not None:
        assert len(runs) < 20
        runs.append(await retain(impatient, place, seconds=0.01))
        place = runs[-1].place

    assert len(runs) > 1
    assert sum(run.deleted for run in runs) == 6
    assert rows_left(postgres_url, tiers, *(thread.thread_id for thread in threads)) == 0


async def test_second_run_does_nothing_while_one_is_at_it(
    tiers: Tiers, saver: TieredSaver, postgres_url: str, another: Callable[[], Awaitable[Tiers]]
) -> None:
    [thread] = await archived(saver)
    make_old(postgres_url, tiers, thread.thread_id)
    other = with_settings(await another(), retain_for=YEAR)
    seen: list[Retained] = []

    async def run_again(point: str) -> None:
        if point == "retain: locked":
            seen.append(await retain(other))

    first = with_settings(tiers, retain_for=YEAR)
    first.pause = run_again
    done = await retain(first)

    assert done.deleted == 1
    assert [(run.is_elsewhere, run.deleted) for run in seen] == [(True, 0)]


async def test_put_of_an_agent_that_knew_the_thread_begins_anew(
    tiers: Tiers, saver: TieredSaver, postgres_url: str
) -> None:
    [thread] = await archived(saver)
    make_old(postgres_url, tiers, thread.thread_id)
    await retain(with_settings(tiers, retain_for=YEAR))

    newest = await thread.put({"x": [3]})
    await saver.demote(thread.thread_id)

    assert await thread.ids() == [newest]
    assert await thread.values() == {"x": [3]}


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize(("waiting", "deleted"), [("keep", 0), ("expire", 1)])
async def test_thread_that_waits_for_a_person_goes_only_when_told(
    tiers: Tiers, saver: TieredSaver, postgres_url: str, is_nested: bool, waiting: str, deleted: int
) -> None:
    """RET-05: by age, with either rule; whole or not at all."""

    def ask(state: State) -> State:
        return {"answer": str(interrupt("how are you?"))}

    inner = StateGraph(State).add_node("ask", ask).add_edge(START, "ask")
    node: Any = inner.compile() if is_nested else ask
    graph = StateGraph(State).add_node("outer", node).add_edge(START, "outer").compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "waits"}}
    await graph.ainvoke({"answer": ""}, config)
    await saver.demote("waits")
    make_old(postgres_url, tiers, "waits")

    done = await retain(with_settings(tiers, retain_for=YEAR, retain_waiting=waiting))

    assert (done.deleted, done.waiting) == (deleted, 1 - deleted)
    if waiting == "keep":
        assert await graph.ainvoke(Command(resume="fine"), config) == {"answer": "fine"}


async def test_thread_that_was_answered_waits_no_more(tiers: Tiers, saver: TieredSaver, postgres_url: str) -> None:
    def ask(state: State) -> State:
        return {"answer": str(interrupt("how are you?"))}

    graph = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "answered"}}
    await graph.ainvoke({"answer": ""}, config)
    await graph.ainvoke(Command(resume="fine"), config)
    await saver.demote("answered")
    make_old(postgres_url, tiers, "answered")

    assert (await retain(with_settings(tiers, retain_for=YEAR))).deleted == 1


async def test_threads_of_the_stock_saver_are_retained_by_their_newest_checkpoint(
    tiers: Tiers, config: TierConfig, postgres_url: str
) -> None:
    ids = {"old": "2001-01-01T00:00:00+00:00", "odd": "yesterday"}
    await _write_with_stock_saver(postgres_url, config, ids)

    done = await retain(with_settings(tiers, retain_for=YEAR))

    assert (done.adopted, done.deleted) == (2, 1)
    assert rows_left(postgres_url, tiers, "old") == 0
    assert rows_left(postgres_url, tiers, "odd") > 0


async def test_thread_that_the_stock_saver_went_on_with_is_not_old(
    tiers: Tiers, saver: TieredSaver, config: TierConfig, postgres_url: str
) -> None:
    [thread] = await archived(saver)
    make_old(postgres_url, tiers, thread.thread_id)
    await _write_with_stock_saver(postgres_url, config, {thread.thread_id: "2999-01-01T00:00:00+00:00"})

    done = await retain(with_settings(tiers, retain_for=YEAR))

    assert done.deleted == 0
    assert rows_left(postgres_url, tiers, thread.thread_id) > 0


async def _write_with_stock_saver(postgres_url: str, config: TierConfig, moments: dict[str, str]) -> None:
    url = f"{postgres_url}?options=-csearch_path%3D{config.postgres_schema}"
    async with AsyncPostgresSaver.from_conn_string(url) as stock:
        for thread_id, moment in moments.items():
            checkpoint = checkpoint_of({"x": [1]}, {"x": "1"})
            checkpoint["ts"] = moment
            where: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
            await stock.aput(where, checkpoint, {"source": "loop", "step": 1}, {"x": "1"})
