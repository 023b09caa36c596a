"""
Redis as the doctor asks it: a client of its own, which gets along without the right to INFO or CONFIG.

The saver's own connections cannot: they learn the history of the server from INFO before anything else.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Self

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from saver.carriers import explained
from saver.config import TierConfig
from saver.errors import HotTierError
from saver.sentinel import client_options


class Refused(NamedTuple):
    """A command that the user may not send: at all, or on this key."""

    command: str
    is_for_key: bool


class RedisClient:
    """One connection. An answer that the server refuses is None, a server that does not answer is a HotTierError."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    @classmethod
    @asynccontextmanager
    async def open(cls, config: TierConfig, url: str) -> AsyncIterator[Self]:
        """Connect and log in. Raises HotTierError."""
        seconds = config.redis_timeout.total_seconds()
        pool = ConnectionPool(
            **client_options(url, seconds),
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            retry=Retry(NoBackoff(), 0),
        )
        client = Redis(connection_pool=pool, single_connection_client=True)
        try:
            await cls._enter(client)
            yield cls(client)
        finally:
            await client.aclose()
            await pool.aclose()

    @staticmethod
    async def _enter(client: Redis) -> None:
        try:
            await client.initialize()
        except (RedisError, OSError) as error:
            raise explained(error) from error

    async def ask(self, *command: str | int) -> Any:
        """The reply, or None when the server refuses this command to us. Raises HotTierError for anything else."""
        try:
            return await self._client.execute_command(*command)  # type: ignore[no-untyped-call]
        except (NoPermissionError, ResponseError):
            return None
        except (RedisError, OSError) as error:
            raise explained(error) from error

    async def info(self, section: str) -> dict[str, Any] | None:
        """A section of INFO, or None without the right to it."""
        found = await self.ask("INFO", section)
        return found if isinstance(found, dict) else None

    async def greeting(self) -> dict[str, Any] | None:
        """What HELLO tells of the server, in the words of INFO, or None without the right to it."""
        found = await self.ask("HELLO")
        if not isinstance(found, list | dict):
            return None
        pairs = found.items() if isinstance(found, dict) else zip(found[::2], found[1::2], strict=True)
        told = {name.decode(): value.decode() for name, value in pairs if isinstance(value, bytes)}
        kind = "valkey_version" if told.get("server") == "valkey" else "redis_version"
        role = "master" if told.get("role") == "master" else "slave"
        return {kind: told.get("version"), "redis_mode": told.get("mode"), "role": role}

    async def setting(self, name: str) -> str | None:
        """A line of redis.conf, or None without the right to CONFIG GET."""
        found = await self.ask("CONFIG", "GET", name)
        return found[1].decode() if isinstance(found, list) and len(found) == 2 else None

    async def refused(self, commands: Sequence[Sequence[str | int]]) -> list[Refused] | None:
        """
        Which of these commands this user may not send, or None when that cannot be learned.

        Redis checks the rights of a command when it is queued in a transaction. This one is thrown away, so nothing
        is done. ACL DRYRUN would need a right that no agent should have.
        """
        if self._client.connection is None or await self.ask("MULTI") is None:
            return None
        try:
            answers = [await self._queue(command) for command in commands]
            await self._send("DISCARD")
        except (RedisError, OSError) as error:
            raise explained(error) from error
        return [answer for answer in answers if answer]

    async def _queue(self, command: Sequence[str | int]) -> Refused | None:
        try:
            await self._send(*command)
        except NoPermissionError as error:
            return Refused(str(command[0]).lower(), is_for_key="key" in str(error))
        except ResponseError as error:
            if str(error).startswith("MOVED"):
                return None  # a node of a cluster looks at the rights first
            raise HotTierError(f"Redis does not know {command[0]}; check its version") from error
        return None

    async def _send(self, *command: str | int) -> None:
        connection = self._client.connection
        if connection is None:
            raise HotTierError("Redis closed the connection; check the server")
        await connection.send_command(*command)
        await connection.read_response()
