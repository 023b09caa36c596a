"""Retention by policy: threads and tenants that are kept otherwise than the rest, holds, and shortened threads."""

import asyncio
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from jobs.preview import preview
from jobs.retain import Retained, retain
from jobs.retention import Place
from saver import TierConfig, TieredSaver
from saver.connect import Tiers
from saver.errors import ThreadHeld
from saver.policies import NamedPolicy, remove_policy, set_policy
from tests.builders import Thread
from tests.movement.pauses import stopped
from tests.movement.steps import with_settings
from tests.movement.test_retain import YEAR, make_old, rows_left

HOLD = {"tier_legal_hold": True}


async def cold_thread(saver: TieredSaver, name: str, checkpoints: int = 1, **metadata: Any) -> Thread:
    thread = Thread(saver, name)
    for number in range(checkpoints):
        await thread.put({"x": [number], "y": "text"}, metadata=metadata)
        await thread.write(("x", [number]))
    await saver.demote(name)
    return thread


async def run(tiers: Tiers) -> Retained:
    """A run to its end; it must have told the same before."""
    seen = await preview(tiers)
    total = Retained()
    while total.place is not None:
        part = await retain(tiers, total.place)
        total.add(part)
        total.place = part.place
    told = ("deleted", "shortened", "checkpoints", "waiting", "in_use", "held", "unclear")
    assert [getattr(seen, name) for name in told] == [getattr(total, name) for name in told]
    return total


# ---- how long


async def test_thread_with_a_wish_of_its_own_goes_by_it(tiers: Tiers, saver: TieredSaver, postgres_url: str) -> None:
    names = {"short": "30d", "long": "3000d", "ever": "off"}
    for name, wish in names.items():
        await cold_thread(saver, name, tier_retain_for=wish)
    await cold_thread(saver, "rest")
    make_old(postgres_url, tiers, *names, "rest")

    never = await run(tiers)
    done = await run(with_settings(tiers, retain_for=YEAR))

    assert (never.deleted, done.deleted) == (1, 1)
    assert [rows_left(postgres_url, tiers, name) > 0 for name in (*names, "rest")] == [False, True, True, False]


async def test_threads_of_a_tenant_go_by_its_policy(tiers: Tiers, saver: TieredSaver, postgres_url: str) -> None:
    for name, tenant in (("a", "acme"), ("b", "bolt"), ("c", "calm")):
        await cold_thread(saver, name, tenant=tenant)
    make_old(postgres_url, tiers, "a", "b", "c")
    await set_policy(tiers, NamedPolicy("acme", None, {"tenant": "acme"}, {"tier_retain_for": "30d"}))
    await set_policy(tiers, NamedPolicy("bolt", None, {"tenant": "bolt"}, {"tier_retain_for": "3000d"}))

    assert (await run(tiers)).deleted == 1
    assert (await run(with_settings(tiers, retain_for=YEAR))).deleted == 1
    assert [rows_left(postgres_url, tiers, name) > 0 for name in "abc"] == [False, True, False]


async def test_policy_of_a_thread_goes_before_that_of_its_tenant(
    tiers: Tiers, saver: TieredSaver, postgres_url: str
) -> None:
    await cold_thread(saver, "a", tenant="acme")
    make_old(postgres_url, tiers, "a")
    await set_policy(tiers, NamedPolicy("acme", None, {"tenant": "acme"}, {"tier_retain_for": "30d"}))
    await set_policy(tiers, NamedPolicy("one", "a", None, {"tier_retain_for": "off"}))

    assert (await run(tiers)).deleted == 0
    await remove_policy(tiers, "one")
    assert (await run(tiers)).deleted == 1


async def test_wish_that_cannot_be_read_keeps_the_thread_and_is_counted(
    tiers: Tiers, saver: TieredSaver, postgres_url: str
) -> None:
    await cold_thread(saver, "odd", tier_retain_for="soon")
    make_old(postgres_url, tiers, "odd")

    done = await retain(with_settings(tiers, retain_for=YEAR), Place("delete"))

    assert done.deleted == 0
    assert done.unclear > 0
    assert rows_left(postgres_url, tiers, "odd") > 0


@pytest.mark.parametrize(("wish", "deleted"), [("keep", 0), ("expire", 1)])
async def test_waiting_thread_of_a_tenant_is_spared_or_not(
    tiers: Tiers, saver: TieredSaver, postgres_url: str, wish: str, deleted: int
) -> None:
    thread = await cold_thread(saver, "waits", tenant="acme")
    await thread.write(("__interrupt__", "how are you?"))
    await saver.demote("waits")
    make_old(postgres_url, tiers, "waits")
    await set_policy(tiers, NamedPolicy("acme", None, {"tenant": "acme"}, {"tier_retain_waiting": wish}))
    other = "expire" if wish == "keep" else "keep"

    done = await run(with_settings(tiers, retain_for=YEAR, retain_waiting=other))

    assert (done.deleted, done.waiting) == (deleted, 1 - deleted)


# ---- holds


@pytest.mark.parametrize("whom", [NamedPolicy("case", "t", None, HOLD), NamedPolicy("case", None, {"case": 7}, HOLD)])
async def test_held_thread_is_deleted_by_nobody_until_it_is_released(
    tiers: Tiers, saver: TieredSaver, postgres_url: str, whom: NamedPolicy
) -> None:
    thread = await cold_thread(saver, "t", 3, case=7, run_id="r")
    await cold_thread(saver, "other", 3)
    make_old(postgres_url, tiers, "t")
    await set_policy(tiers, whom)
    before = rows_left(postgres_url, tiers, "t")

    done = await run(with_settings(tiers, retain_for=YEAR, keep_checkpoints=1))
    for refused in (
        saver.adelete_thread("t"),
        saver.aprune(["t", "other"]),
        saver.aprune(["t"], strategy="delete"),
        saver.adelete_for_runs(["r"]),
    ):
        with pytest.raises(ThreadHeld, match="legal hold"):
            await refused

    assert (done.deleted, done.held, done.shortened) == (0, 1, 1)
    assert rows_left(postgres_url, tiers, "t") == before
    await remove_policy(tiers, "case")
    await saver.adelete_thread("t")
    assert await thread.latest() is None


async def test_thread_that_holds_itself_is_held_before_it_is_archived(saver: TieredSaver) -> None:
    thread = Thread(saver, "t")
    await thread.put({"x": [1]}, metadata=HOLD)

    with pytest.raises(ThreadHeld):
        await saver.adelete_thread("t")

    assert await thread.values() == {"x": [1]}


async def test_held_thread_can_be_written_copied_and_read(saver: TieredSaver, tiers: Tiers) -> None:
    thread = await cold_thread(saver, "t")
    await set_policy(tiers, NamedPolicy("case", "t", None, HOLD))

    await thread.put({"x": [9]})
    await saver.acopy_thread("t", "copy")

    assert await Thread(saver, "copy").values() == {"x": [9]}


# ---- how many checkpoints


async def test_long_threads_keep_their_newest_checkpoints(tiers: Tiers, saver: TieredSaver) -> None:
    long, short = await cold_thread(saver, "long", 6), await cold_thread(saver, "short", 2)
    ids = await long.ids()

    done = await run(with_settings(tiers, keep_checkpoints=2))
    again = await run(with_settings(tiers, keep_checkpoints=2))

    assert (done.shortened, done.checkpoints, again.shortened) == (1, 4, 0)
    assert (await long.ids(), len(await short.ids())) == (ids[:2], 2)
    assert await long.values() == {"x": [5], "y": "text"}


async def test_thread_is_shortened_again_when_it_grew_or_the_number_shrank(tiers: Tiers, saver: TieredSaver) -> None:
    thread = await cold_thread(saver, "t", 4)
    lengths = []
    for keep, more in ((3, 0), (3, 2), (1, 0)):
        for number in range(more):
            await thread.put({"x": [number]})
        await saver.demote("t")
        await run(with_settings(tiers, keep_checkpoints=keep))
        lengths.append(len(await thread.ids()))

    assert lengths == [3, 3, 1]


async def test_numbers_of_checkpoints_follow_wishes_and_policies(tiers: Tiers, saver: TieredSaver) -> None:
    await cold_thread(saver, "own", 6, tier_keep_checkpoints=3)
    await cold_thread(saver, "all", 6, tier_keep_checkpoints="off")
    await cold_thread(saver, "acme", 6, tenant="acme")
    await cold_thread(saver, "rest", 6)
    await set_policy(tiers, NamedPolicy("acme", None, {"tenant": "acme"}, {"tier_keep_checkpoints": "2"}))

    unset = (await run(tiers)).shortened
    await run(with_settings(tiers, keep_checkpoints=5))

    assert unset == 2
    assert [len(await Thread(saver, name).ids()) for name in ("own", "all", "acme", "rest")] == [3, 6, 2, 5]


class Delta(TypedDict):
    log: Annotated[list[str], DeltaChannel(lambda old, new: old + [one for part in new for one in part])]


async def test_delta_channels_of_a_shortened_thread_are_still_rebuilt(tiers: Tiers, saver: TieredSaver) -> None:
    graph = StateGraph(Delta).add_node("n", lambda _: {"log": ["o"]}).add_edge(START, "n").compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "delta"}}
    for turn in range(3):
        await graph.ainvoke({"log": [f"i{turn}"]}, config)
    await saver.demote("delta")

    await run(with_settings(tiers, keep_checkpoints=1))

    assert (await graph.aget_state(config)).values["log"] == ["i0", "o", "i1", "o", "i2", "o"]
    assert (await graph.ainvoke({"log": ["i3"]}, config))["log"][-2:] == ["i3", "o"]


class Waits(TypedDict):
    answer: str


async def test_shortened_thread_that_waits_for_a_person_can_be_answered(tiers: Tiers, saver: TieredSaver) -> None:
    def ask(state: Waits) -> Waits:
        return {"answer": str(interrupt("how are you?"))}

    graph = StateGraph(Waits).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "waits"}}
    await graph.ainvoke({"answer": ""}, config)
    await saver.demote("waits")

    done = await run(with_settings(tiers, keep_checkpoints=1))

    assert done.shortened == 1
    assert await graph.ainvoke(Command(resume="fine"), config) == {"answer": "fine"}


async def test_thread_in_redis_is_not_shortened(tiers: Tiers, saver: TieredSaver) -> None:
    thread = await cold_thread(saver, "t", 4)
    await saver.promote("t")

    busy = await run(with_settings(tiers, keep_checkpoints=1))
    await saver.demote("t")
    idle = await run(with_settings(tiers, keep_checkpoints=1))

    assert (busy.shortened, busy.in_use, idle.shortened) == (0, 1, 1)
    assert len(await thread.ids()) == 1


async def test_put_while_its_thread_is_shortened_waits_and_is_kept(tiers: Tiers, saver: TieredSaver) -> None:
    thread = await cold_thread(saver, "t", 4)
    shortening = with_settings(tiers, keep_checkpoints=1)

    async with stopped(shortening, "retain: locked", retain(shortening)):
        put = asyncio.ensure_future(thread.put({"x": [9], "y": "text"}))
    newest = await put
    await saver.demote("t")

    assert (await thread.ids())[0] == newest
    assert await thread.values() == {"x": [9], "y": "text"}


async def test_run_that_is_cut_short_in_any_step_goes_on_from_its_place(
    tiers: Tiers, saver: TieredSaver, postgres_url: str, config: TierConfig
) -> None:
    for number in range(4):
        await cold_thread(saver, f"old{number}")
        await cold_thread(saver, f"own{number}", tier_retain_for="30d")
        await cold_thread(saver, f"long{number}", 3, tier_retain_for="off")
    make_old(postgres_url, tiers, *(f"{kind}{number}" for kind in ("old", "own") for number in range(4)))
    impatient = with_settings(tiers, retain_for=YEAR, keep_checkpoints=1, batch_threads=1)

    runs, place = 0, Place()
    total = Retained()
    while total.place is not None:
        part = await retain(impatient, place, seconds=0.01)
        runs, total.place = runs + 1, part.place
        total.add(part)
        place = part.place or place
        assert runs < 60

    assert runs > 3
    assert (total.deleted, total.shortened, total.checkpoints) == (8, 4, 8)
