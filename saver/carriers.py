"""
Who carries requests to Redis: `AsyncHot` for event loops, `BlockingHot` for threads.

Both repeat a request once when the connection was lost: every script may run twice. Both load a script that the server
does not know, and both give up within TIER_REDIS_TIMEOUT.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import hiredis
import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.retry import Retry

from saver.config import TierConfig
from saver.errors import HotTierError
from saver.hot import Request
from saver.scripts import all_scripts
from saver.wire import CallTimeout, ConnectionLost, Encodable, Place, Wire, history_in, is_replica, packed

WIRES = 2  # shared connections of one event loop: a large value on one does not hold up the other
MOST_TRIES = WIRES + 1  # every connection may turn out to be dead when it is used
MOST_IN_ONE_WRITE = 500

_ABOUT_DATA = ("ERR", "WRONGTYPE")
_REASONS = {
    "OOM": "Redis is full (maxmemory); raise it, lower TIER_DEMOTE_AFTER, or wait for workers to archive and demote",
    "READONLY": "Redis is a read-only replica; the connection looks for the new primary",
    "LOADING": "Redis is loading its data; try again in a moment",
    "MASTERDOWN": "this Redis replica has lost its primary",
    "CLUSTERDOWN": "the Redis cluster is down",
    "NOAUTH": "Redis wants a password; put it into TIER_REDIS_URL",
    "WRONGPASS": "Redis refused the user or the password of TIER_REDIS_URL",
    "NOPERM": "the Redis user lacks a right; see the ACL rule in the README",
    "MISCONF": "Redis cannot persist and refuses writes; look into its log",
    "BUSY": "Redis is busy with a script",
}


def explained(error: Exception) -> HotTierError:
    """What an error of Redis means to the user; the text of the server is not quoted, it may hold content."""
    if isinstance(error, (CallTimeout, TimeoutError, redis.exceptions.TimeoutError)):
        return HotTierError("Redis did not answer within TIER_REDIS_TIMEOUT; check the server and the network")
    text = str(error)
    for word, reason in _REASONS.items():
        if text.startswith(word) or f"{word} command" in text or f"-{word}" in text or f" {word} " in text[:80]:
            return HotTierError(reason)
    if isinstance(error, (hiredis.ReplyError, ResponseError)):
        code = text.partition(" ")[0][:20] or "no reason"
        message = f"Redis refused a command ({code}); check its log"
        return HotTierError(message, is_refusal=code in _ABOUT_DATA)
    return HotTierError("Redis cannot be reached or closed the connection; check the server and TIER_REDIS_URL")


class AsyncHot:
    """Redis for one event loop, over a few shared connections that open when needed."""

    def __init__(self, config: TierConfig) -> None:
        self._timeout = config.redis_timeout.total_seconds()
        self._url = config.redis_url.get_secret_value()
        self._wires: list[Wire | None] = [None] * WIRES
        self._opening = [asyncio.Lock() for _ in range(WIRES)]
        self._next = 0

    @property
    def history(self) -> str:
        """The history seen last, or empty before the first call."""
        return next((wire.history for wire in self._wires if wire is not None), "")

    async def close(self) -> None:
        for wire in self._wires:
            if wire is not None:
                wire.close()

    async def call(self, request: Request) -> Any:
        """Run one script. Raises HotTierError."""
        return await self._repeat(lambda wire: self._run(wire, request))

    async def call_many(self, requests: Sequence[Request]) -> list[Any]:
        """Run many scripts in few round trips, each atomic for itself. Raises HotTierError if one failed."""
        replies: list[Any] = []
        for first in range(0, len(requests), MOST_IN_ONE_WRITE):
            part = requests[first : first + MOST_IN_ONE_WRITE]
            replies += await self._repeat(lambda wire, part=part: self._run_many(wire, part))  # type: ignore[misc]
        return replies

    async def command(self, *command: Encodable) -> Any:
        """One plain command that may be repeated. Raises HotTierError."""
        return await self._repeat(lambda wire: wire.call(command))

    async def commands(self, commands: Sequence[Sequence[Encodable]]) -> list[Any]:
        """Many plain commands in one write. Raises HotTierError if one failed."""

        async def run(wire: Wire) -> list[Any]:
            replies = await asyncio.gather(*(wire.submit(command) for command in commands))
            for reply in replies:
                if isinstance(reply, hiredis.ReplyError):
                    raise reply
            return list(replies)

        replies: list[Any] = await self._repeat(run)
        return replies

    async def _repeat(self, run: Callable[[Wire], Any]) -> Any:
        wire = None
        for is_last in (False, True):
            try:
                wire = await self._wire()
                return await run(wire)
            except ConnectionLost as error:
                if is_last:
                    raise explained(error) from error
            except hiredis.ReplyError as error:
                if wire is not None and str(error).startswith("READONLY"):
                    wire.close()
                raise explained(error) from error
            except (CallTimeout, OSError) as error:
                raise explained(error) from error
        raise AssertionError

    async def _wire(self) -> Wire:
        self._next = slot = (self._next + 1) % WIRES
        wire = self._wires[slot]
        if wire is not None and not wire.is_lost:
            return wire
        async with self._opening[slot]:
            wire = self._wires[slot]
            if wire is None or wire.is_lost:
                wire = self._wires[slot] = await Wire.open(Place.from_url(self._url), self._timeout)
                await asyncio.gather(*(wire.call(("SCRIPT", "LOAD", one.source)) for one in all_scripts()))
            return wire

    async def _run(self, wire: Wire, request: Request) -> Any:
        try:
            return await wire.call(request.command(wire.history))
        except hiredis.ReplyError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise
        await wire.call(("SCRIPT", "LOAD", request.script.source))
        return await wire.call(request.command(wire.history))

    async def _run_many(self, wire: Wire, requests: Sequence[Request]) -> list[Any]:
        replies = await asyncio.gather(*(wire.submit(request.command(wire.history)) for request in requests))
        for number, reply in enumerate(replies):
            if isinstance(reply, hiredis.ReplyError):
                if not str(reply).startswith("NOSCRIPT"):
                    raise reply
                replies[number] = await self._run(wire, requests[number])
        return list(replies)


class BlockingHot:
    """Redis for threads, over a pool of plain connections."""

    def __init__(self, config: TierConfig) -> None:
        seconds = config.redis_timeout.total_seconds()
        self._pool = redis.BlockingConnectionPool.from_url(
            config.redis_url.get_secret_value(),
            max_connections=config.redis_pool_size,
            timeout=seconds,
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            retry=Retry(NoBackoff(), 0),
            redis_connect_func=_greet,
        )
        self.history = ""

    def close(self) -> None:
        self._pool.disconnect()  # type: ignore[no-untyped-call]

    def call(self, request: Request) -> Any:
        """Run one script. Raises HotTierError."""
        for is_last in (False, True):
            try:
                return self._once(request)
            except (redis.exceptions.ConnectionError, OSError) as error:
                if is_last:
                    raise explained(error) from error
            except RedisError as error:
                raise explained(error) from error
        raise AssertionError

    def _once(self, request: Request) -> Any:
        connection = self._pool.get_connection()
        try:
            self.history = history = connection.tier_history
            try:
                return _exchange(connection, request.command(history))
            except NoScriptError:
                _exchange(connection, ("SCRIPT", "LOAD", request.script.source))
                return _exchange(connection, request.command(history))
        except (redis.exceptions.ReadOnlyError, RedisError, OSError) as error:
            if not isinstance(error, ResponseError) or isinstance(error, redis.exceptions.ReadOnlyError):
                connection.disconnect()
            raise
        except BaseException:
            # An interrupt may have left a reply on its way.
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)  # type: ignore[no-untyped-call]


def _exchange(connection: Any, command: Sequence[Encodable]) -> Any:
    connection.send_packed_command([packed(command)])
    return connection.read_response(disable_decoding=True)


def _greet(connection: Any) -> None:
    connection.on_connect()
    connection.tier_history = history_in(_exchange(connection, ("INFO", "replication")))
