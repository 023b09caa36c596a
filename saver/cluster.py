"""
Redis Cluster: one carrier for each node, and every request on its way to the node that serves its slot.

All keys of a partition share a slot, so a request that concerns one thread or one partition goes to one node. What
concerns several partitions is split; its parts leave at the same time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from threading import Lock
from typing import Any, TypeVar

import hiredis
import redis
from pydantic import SecretStr
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import RedisError

from saver.carriers import AsyncHot, BlockingHot, exchange, explained
from saver.config import TierConfig
from saver.errors import HotTierError
from saver.hot import Request
from saver.seeds import Host, Seeds
from saver.slots import Pause, Refresh, Send, SlotMap, Step, Way, slot_of, slot_of_command, way
from saver.urls import tls_defaults
from saver.wire import Encodable, Wire

_ASKING, _SLOTS = ("ASKING",), "CLUSTER SLOTS"
_SHARE = 4  # of the time of a call: a node that does not answer leaves time for the others

T = TypeVar("T")
Command = Sequence[Encodable]
Carry = Callable[["_Node", bool], Awaitable[list[Any]]]


class _Node(AsyncHot):
    """One node of the cluster."""

    async def asking(self, commands: Sequence[Command]) -> list[Any]:
        """Commands on a slot that is on its way to this node. Raises HotTierError if one failed."""

        async def run(wire: Wire) -> list[Any]:
            sent = [wire.submit(part) for command in commands for part in (_ASKING, command)]
            replies = (await asyncio.gather(*sent))[1::2]
            for reply in replies:
                if isinstance(reply, hiredis.ReplyError):
                    raise reply
            return replies

        replies: list[Any] = await self._repeat(run)
        return replies


class ClusterHot:
    """A Redis Cluster for one event loop. Its methods are those of `AsyncHot`."""

    def __init__(self, config: TierConfig) -> None:
        self._config = config
        self._seeds = Seeds.from_url(config.redis_url.get_secret_value())
        self._seconds = config.redis_timeout.total_seconds()
        self._slots = SlotMap(self._seeds.hosts)
        self._nodes: dict[Host, _Node] = {}
        self._refreshing: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        await asyncio.gather(*(node.close() for node in self._nodes.values()))

    async def call(self, request: Request) -> Any:
        """Run one script. Raises HotTierError."""
        [reply] = await self._calls(slot_of(request.keys[0]), [request])
        return reply

    async def call_many(self, requests: Sequence[Request]) -> list[Any]:
        """Run many scripts, those of one partition together, each atomic for itself. Raises HotTierError."""
        return await _in_parts(requests, lambda request: slot_of(request.keys[0]), self._calls)

    async def command(self, *command: Encodable) -> Any:
        """One plain command that may be repeated. Raises HotTierError."""
        [reply] = await self._commands(slot_of_command(command), [command])
        return reply

    async def commands(self, commands: Sequence[Command]) -> list[Any]:
        """Many plain commands, those of one partition together. Raises HotTierError if one failed."""
        return await _in_parts(commands, slot_of_command, self._commands)

    async def everywhere(self, *command: Encodable) -> list[Any]:
        """One plain command to each node that serves slots. Raises HotTierError if one failed."""
        await self._refresh()
        return await asyncio.gather(*(self._node(host).command(*command) for host in self._slots.primaries))

    async def urls(self) -> list[str]:
        """The address of each node that serves slots, as that of a single Redis. Raises HotTierError."""
        await self._refresh()
        return [self._seeds.url_of(host) for host in self._slots.primaries]

    # ---- on the way

    async def _calls(self, slot: int, requests: Sequence[Request]) -> list[Any]:
        async def send(node: _Node, is_asking: bool) -> list[Any]:
            if is_asking:
                return await node.asking([request.command for request in requests])
            return await node.call_many(requests)

        return await self._go(way(self._slots, slot, self._seconds), send)

    async def _commands(self, slot: int, commands: Sequence[Command]) -> list[Any]:
        async def send(node: _Node, is_asking: bool) -> list[Any]:
            return await (node.asking(commands) if is_asking else node.commands(commands))

        return await self._go(way(self._slots, slot, self._seconds), send)

    async def _go(self, steps: Way, send: Carry) -> list[Any]:
        async def take(step: Step) -> Any:
            match step:
                case Send(host, is_asking):
                    return await send(self._node(host), is_asking)
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                case Refresh():
                    await self._refresh()
            return None

        try:
            step = next(steps)
            while True:
                try:
                    answer = await take(step)
                except HotTierError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as stop:
            replies: list[Any] = stop.value
            return replies

    def _node(self, host: Host) -> _Node:
        node = self._nodes.get(host)
        if node is None:
            node = self._nodes[host] = _Node(_config_of(self._config, self._seeds, host))
        return node

    async def _refresh(self) -> None:
        """Learn the map, once for everybody who asks at the same time."""
        if self._slots.is_fresh:
            return
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._learn())
            # Everybody who waited may have been cancelled: then nobody else looks at its failure.
            self._refreshing.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._refreshing)

    async def _learn(self) -> None:
        failure: Exception = OSError()
        for host in self._slots.to_ask:
            url = self._seeds.url_of(host)
            client = AsyncRedis.from_url(url, **_asking_options(url, self._seconds))
            try:
                self._slots.learn(await client.execute_command(_SLOTS), host)
            except (RedisError, OSError) as error:
                failure = error
            else:
                return
            finally:
                await client.aclose()
        raise _no_map(failure) from failure


async def _in_parts(
    items: Sequence[T], slot: Callable[[T], int], send: Callable[[int, list[T]], Awaitable[list[Any]]]
) -> list[Any]:
    """Send what belongs to each slot on its own way, all at once; the replies in the order of the items."""
    places: dict[int, list[int]] = {}
    for place, item in enumerate(items):
        places.setdefault(slot(item), []).append(place)
    parts = await asyncio.gather(*(send(number, [items[at] for at in where]) for number, where in places.items()))
    replies: list[Any] = [None] * len(items)
    for where, part in zip(places.values(), parts, strict=True):
        for at, reply in zip(where, part, strict=True):
            replies[at] = reply
    return replies


class _BlockingNode(BlockingHot):
    """One node of the cluster."""

    def asking(self, request: Request) -> Any:
        """One script on a slot that is on its way to this node. Raises HotTierError."""

        def run(connection: Any) -> Any:
            exchange(connection, _ASKING)
            return exchange(connection, request.command)

        return self._repeat(run)


class BlockingClusterHot:
    """A Redis Cluster for threads."""

    def __init__(self, config: TierConfig) -> None:
        self._config = config
        self._seeds = Seeds.from_url(config.redis_url.get_secret_value())
        self._seconds = config.redis_timeout.total_seconds()
        self._slots = SlotMap(self._seeds.hosts)
        self._nodes: dict[Host, _BlockingNode] = {}
        self._changing = Lock()

    def close(self) -> None:
        for node in self._nodes.values():
            node.close()

    def call(self, request: Request) -> Any:
        """Run one script. Raises HotTierError."""
        steps = way(self._slots, slot_of(request.keys[0]), self._seconds)
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._take(step, request)
                except HotTierError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as stop:
            return stop.value

    def _take(self, step: Step, request: Request) -> Any:
        match step:
            case Send(host, is_asking):
                node = self._node(host)
                return node.asking(request) if is_asking else node.call(request)
            case Pause(seconds):
                time.sleep(seconds)
            case Refresh():
                with self._changing:
                    if not self._slots.is_fresh:
                        self._learn()
        return None

    def _node(self, host: Host) -> _BlockingNode:
        node = self._nodes.get(host)
        if node is None:
            with self._changing:
                if (node := self._nodes.get(host)) is None:
                    node = self._nodes[host] = _BlockingNode(_config_of(self._config, self._seeds, host))
        return node

    def _learn(self) -> None:
        failure: Exception = OSError()
        for host in self._slots.to_ask:
            url = self._seeds.url_of(host)
            try:
                with redis.Redis.from_url(url, **_asking_options(url, self._seconds)) as client:
                    self._slots.learn(client.execute_command(_SLOTS), host)
            except (RedisError, OSError) as error:
                failure = error
            else:
                return
        raise _no_map(failure) from failure


def _config_of(config: TierConfig, seeds: Seeds, host: Host) -> TierConfig:
    return config.model_copy(update={"redis_url": SecretStr(seeds.url_of(host))})


def _asking_options(url: str, seconds: float) -> dict[str, Any]:
    patience = seconds / _SHARE
    return {**tls_defaults(url), "socket_timeout": patience, "socket_connect_timeout": patience}


def _no_map(failure: Exception) -> HotTierError:
    if "cluster support disabled" in str(failure):
        return HotTierError("the Redis of TIER_REDIS_URL is no cluster: write redis:// or rediss://")
    return explained(failure)
