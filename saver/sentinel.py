"""
Redis behind Sentinels: every new connection asks them first where the primary is.

A connection ends when its server stops being the primary (every script says so), and the next one leads to the new
primary. What the new one lacks is told by its history, as after any failover.
"""

from typing import Any

import redis
import redis.asyncio
from pydantic import SecretStr
from redis.asyncio.connection import parse_url
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.exceptions import RedisError
from redis.sentinel import Sentinel

from saver.carriers import AsyncHot, BlockingHot
from saver.config import TierConfig
from saver.seeds import Host, Seeds
from saver.urls import is_behind_sentinels, tls_defaults
from saver.wire import Place

_SHARE = 4  # of the time of a call: a Sentinel that does not answer leaves time for the others


class SentinelHot(AsyncHot):
    """Redis for one event loop, wherever the Sentinels say it is."""

    def __init__(self, config: TierConfig) -> None:
        super().__init__(config)
        self._seeds = Seeds.from_url(config.redis_url.get_secret_value())

    async def _place(self) -> Place:
        try:
            return Place.from_url(self._seeds.url_of(await primary(self._seeds, self._timeout)))
        except RedisError as error:
            raise OSError("no Sentinel knows a primary") from error


class BlockingSentinelHot(BlockingHot):
    """Redis for threads, wherever the Sentinels say it is."""

    def __init__(self, config: TierConfig) -> None:
        seeds = Seeds.from_url(config.redis_url.get_secret_value())
        options = _options(seeds, config.redis_timeout.total_seconds())
        sentinels: Any = Sentinel(seeds.hosts, sentinel_kwargs=options)  # type: ignore[no-untyped-call]
        base: Any = redis.SSLConnection if seeds.scheme == "rediss" else redis.Connection

        class Following(base):  # type: ignore[misc]
            """A connection to the primary of the moment."""

            def _connect(self) -> Any:
                self.host, self.port = sentinels.discover_master(seeds.service)
                return super()._connect()

        # The host stands in for the one that is asked for at each connection.
        one = config.model_copy(update={"redis_url": SecretStr(seeds.url_of(seeds.hosts[0]))})
        super().__init__(one, connection_class=Following)


async def primary(seeds: Seeds, seconds: float) -> Host:
    """Where the primary is. Raises RedisError when no Sentinel that answers knows one."""
    sentinels: Any = AsyncSentinel(seeds.hosts, sentinel_kwargs=_options(seeds, seconds))  # type: ignore[no-untyped-call]
    try:
        host: Host = await sentinels.discover_master(seeds.service)
    finally:
        for client in sentinels.sentinels:
            await client.aclose()
    return host


def client_options(url: str, seconds: float) -> dict[str, Any]:
    """How clients of redis-py in an event loop reach the Redis of an address, also of one behind Sentinels."""
    if not is_behind_sentinels(url):
        return {**tls_defaults(url), **parse_url(url)}
    seeds = Seeds.from_url(url)
    base: Any = redis.asyncio.SSLConnection if seeds.scheme == "rediss" else redis.asyncio.Connection

    class Following(base):  # type: ignore[misc]
        """A connection to the primary of the moment."""

        async def _connect(self) -> None:
            self.host, self.port = await primary(seeds, seconds)
            await super()._connect()

    return {**client_options(seeds.url_of(seeds.hosts[0]), seconds), "connection_class": Following}


def _options(seeds: Seeds, seconds: float) -> dict[str, Any]:
    """How to reach a Sentinel: with the TLS of the address, with its own user and password, and not for long."""
    reached = client_options(seeds.url_of(seeds.hosts[0]), seconds)
    patience = seconds / _SHARE
    return {
        **{name: value for name, value in reached.items() if name.startswith("ssl_")},
        **seeds.sentinel,
        "ssl": seeds.scheme == "rediss",
        "socket_timeout": patience,
        "socket_connect_timeout": patience,
    }
