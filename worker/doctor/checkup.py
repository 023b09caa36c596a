"""All checks, one after the other, whatever is down."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

from saver.cluster import ClusterHot
from saver.config import TierConfig, unknown_variables
from saver.errors import ColdTierError, HotTierError
from saver.routes import hot_for_loop
from saver.urls import is_cluster
from worker.doctor import clock, libraries, postgres, redis, workers
from worker.doctor.postgres_client import PostgresClient
from worker.doctor.redis_client import RedisClient
from worker.doctor.report import Report

SUBJECTS = ("configuration", "redis", "queue", "postgres", "workers", "clocks", "libraries")


async def check_up(config: TierConfig) -> list[Report]:
    """Look at both tiers, the queue if it is elsewhere, the clocks and the libraries; change nothing."""
    reports = {name: Report(name) for name in SUBJECTS}
    nodes: list[Report] = []
    offsets: dict[str, clock.Offset] = {}
    _check_configuration(reports["configuration"])
    async with AsyncExitStack() as stack:
        hot = await _redis(stack, config, reports["redis"], nodes)
        if config.queue_url != config.redis_url:
            await _queue(stack, config, reports["queue"])
        cold = await _postgres(stack, config, reports["postgres"])
        try:
            if hot:
                await workers.examine(config, await _asker(stack, config, hot), reports["workers"])
                offsets["Redis"] = await clock.measure(lambda: _redis_time(hot))
            if cold:
                offsets["Postgres"] = await clock.measure(lambda: _postgres_time(cold))
        except (HotTierError, ColdTierError) as error:
            reports["clocks"].cannot_see(str(error))
    clock.examine(offsets, reports["clocks"])
    if len(offsets) < 2:
        reports["clocks"].cannot_see("every clock: not all servers told their time")
    libraries.examine(config, reports["libraries"])
    told = (reports.pop("configuration"), reports.pop("redis"), *nodes, *reports.values())
    return [report for report in told if report.facts or report.findings or report.unseen]


def _check_configuration(report: Report) -> None:
    for name, meant in unknown_variables().items():
        hint = f"is it meant to be {meant}?" if meant else "take it away, or look for its name in deploy/env.example"
        report.find(f"{name} is not a variable of this release", "it has no effect", hint)


async def _redis(stack: AsyncExitStack, config: TierConfig, report: Report, nodes: list[Report]) -> RedisClient | None:
    """Look at the Redis of the hot tier, or at each node of a cluster. Returns one of them, to ask for its clock."""
    client = None
    try:
        for url in await _addresses(config):
            if is_cluster(config.redis_url.get_secret_value()):
                nodes.append(report := Report(f"redis {urlsplit(url).netloc.rpartition('@')[2]}"))
            client = await stack.enter_async_context(RedisClient.open(config, url))
            await redis.examine(config, client, report)
    except HotTierError as error:
        report.find(f"the hot tier does not answer: {error}", "agents can neither read nor write", _look_at("Redis"))
        return None
    return client


async def _asker(stack: AsyncExitStack, config: TierConfig, client: RedisClient) -> Callable[..., Awaitable[Any]]:
    """Who answers for any key: this server, or of a cluster the node that has it."""
    if not is_cluster(config.redis_url.get_secret_value()):
        return client.ask
    hot = hot_for_loop(config)
    stack.push_async_callback(hot.close)
    return hot.command


async def _addresses(config: TierConfig) -> list[str]:
    hot = hot_for_loop(config)
    try:
        return await hot.urls() if isinstance(hot, ClusterHot) else [config.redis_url.get_secret_value()]
    finally:
        await hot.close()


async def _queue(stack: AsyncExitStack, config: TierConfig, report: Report) -> None:
    try:
        client = await stack.enter_async_context(RedisClient.open(config, config.queue_url.get_secret_value()))
        await redis.examine(config, client, report, is_queue=True)
    except HotTierError as error:
        report.find(
            f"the queue of TIER_QUEUE_URL does not answer: {error}",
            "no job runs: nothing is archived, demoted or promoted",
            _look_at("Redis"),
        )


async def _postgres(stack: AsyncExitStack, config: TierConfig, report: Report) -> PostgresClient | None:
    try:
        client = await stack.enter_async_context(PostgresClient.open(config))
        await postgres.examine(config, client, report)
    except ColdTierError as error:
        report.find(
            f"the cold tier does not answer: {error}",
            "nothing is archived, and threads that are not in Redis cannot be read",
            _look_at("Postgres"),
        )
        return None
    return client


def _look_at(server: str) -> str:
    return f"see that {server} runs and that its address is right, then run tier doctor again"


async def _redis_time(client: RedisClient) -> float:
    told = await client.ask("TIME")
    if told is None:
        raise HotTierError("the clock of Redis: the user may not use TIME")
    seconds, microseconds = told
    return int(seconds) + int(microseconds) / 1e6


async def _postgres_time(client: PostgresClient) -> float:
    [found] = await client.fetch("doctor_clock")
    return float(found["seconds"])
