"""Each fault of a server shows in the metrics of agents and workers, and they tell when it is over."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple

import pytest
from prometheus_client import REGISTRY

from saver import ColdTierError, HotTierError, TieredSaver
from saver.connect import Tiers
from saver.demote import demote
from tests.builders import Thread
from tests.faults import outages
from tests.faults.world import World
from tests.fix_worker import StartWorker, Worker
from tests.waiting import eventually_async

in_time = partial(eventually_async, within_seconds=60)  # processes start and stop, on a busy machine too

FAILED = "tier_job_failures_total{{job=archive,reason={}}}"
HOT, COLD = "tier_up{tier=hot}", "tier_up{tier=cold}"


class Told(NamedTuple):
    """A fault, the tier it is in, what else tells of it, and whether the tier still answers."""

    fault: outages.Fault
    tier: str
    answers: bool = False


FAULTS = [
    Told(outages.postgres_refused, "cold"),
    Told(outages.postgres_hung, "cold"),
    Told(outages.postgres_crowded, "cold"),
    Told(outages.postgres_read_only, "cold", answers=True),
    Told(outages.postgres_disk_full, "cold", answers=True),
    Told(outages.redis_refused, "hot"),
    Told(outages.redis_hung, "hot"),
    Told(outages.redis_read_only, "hot"),
    Told(outages.redis_full, "hot", answers=True),
]
IDS = [told.fault.__name__ for told in FAULTS]


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_worker_lives_through_each_fault_and_tells_of_it(
    world: World, agent: TieredSaver, start_worker: StartWorker
) -> None:
    names = {name.removeprefix("TIER_").lower(): value for name, value in world.variables.items()}
    worker = start_worker(**names | {"archive_after": "400ms", "demote_after": "1h"}).ready()

    for told in FAULTS:
        thread = Thread(agent)
        await thread.put({"x": [1]})
        await thread.write(("x", [1]))
        before = await asyncio.to_thread(worker.metrics)
        with told.fault(world):
            await in_time(lambda told=told, before=before: is_told(worker, told, before))  # type: ignore[misc]
        await in_time(lambda thread=thread: is_healed(world, worker, thread))  # type: ignore[misc]
        assert not worker.ended, (told.fault.__name__, worker.log)


async def is_told(worker: Worker, told: Told, before: dict[str, float]) -> bool:
    metrics = await asyncio.to_thread(worker.metrics)
    if told.tier == "hot":
        return metrics.get(HOT) == told.answers
    failed = FAILED.format("cold")
    return metrics.get(COLD) == told.answers and metrics[failed] > before[failed] and metrics["tier_dirty_threads"] > 0


async def is_healed(world: World, worker: Worker, thread: Thread) -> bool:
    """Both tiers answer, nothing waits, and what was written before the fault is in Postgres."""
    metrics = await asyncio.to_thread(worker.metrics)
    is_up = metrics.get(HOT) == metrics.get(COLD) == 1
    return is_up and metrics.get("tier_dirty_threads") == 0 and bool(world.cold_ids(thread.thread_id))


@pytest.mark.parametrize("told", FAULTS, ids=IDS)
async def test_an_agent_counts_what_fails_by_tier(
    world: World, either_family: TieredSaver, worker: Tiers, told: Told
) -> None:
    cold, hot = Thread(either_family), Thread(either_family)
    await cold.put({"x": [1]})
    await hot.put({"x": "x" * 1000})
    await demote(worker, cold.thread_id)
    calls = {
        "put": lambda: hot.put({"x": "x" * 100_000}),
        "get_tuple": cold.latest,
        "delete_thread": lambda: either_family.adelete_thread(hot.thread_id),
    }

    with told.fault(world):
        failed = {name: await count(name, call) for name, call in calls.items()}

    reasons = {reason for reason, _ in failed.values() if reason}
    assert reasons <= {told.tier}
    assert all(counted == (reason is not None) for reason, counted in failed.values())
    if not told.answers:
        assert reasons == {told.tier}
        assert failed["get_tuple"][0] == told.tier


async def count(operation: str, call: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[str | None, int]:
    """Which tier a call failed on, and by how much the counter of that rose."""
    before = {tier: _errors(operation, tier) for tier in ("hot", "cold")}
    try:
        await call()
    except HotTierError:
        tier = "hot"
    except ColdTierError:
        tier = "cold"
    else:
        return None, int(sum(_errors(operation, tier) - before[tier] for tier in before))
    return tier, int(_errors(operation, tier) - before[tier])


def _errors(operation: str, reason: str) -> float:
    labels = {"operation": operation, "reason": reason}
    return REGISTRY.get_sample_value("tier_operation_errors_total", labels) or 0
