"""
Who carries requests to Redis: `AsyncHot` for event loops, `BlockingHot` for threads.

Both repeat a request once when the connection was lost: every script may run twice. Both load a script that the server
does not know, and both give up within TIER_REDIS_TIMEOUT.
"""

import asyncio
import re
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
from saver.urls import tls_defaults
from saver.wire import (
    REPLICATION,
    CallTimeout,
    ConnectionLost,
    Encodable,
    Place,
    Wire,
    is_replica,
    packed,
)

WIRES = 2  # shared connections of one event loop: a large value on one does not hold up the other
MOST_TRIES = WIRES + 1  # every connection may turn out to be dead when it is used
MOST_IN_ONE_WRITE = 500
LOST, SLOW = "LOST", "SLOW"  # codes of our own, beside those of Redis

# A script stumbled over what stands in a key; not over a right it lacks, and not because somebody ended it.
_ABOUT_DATA = re.compile(r"(?!.*(killed|user executing)).*(WRONGTYPE|user_script)", re.DOTALL)
_REASONS = {
    "OOM": "Redis is full (maxmemory); raise it, lower TIER_DEMOTE_AFTER, or wait for workers to archive and demote",
    "READONLY": "Redis is a read-only replica; the connection looks for the new primary",
    "LOADING": "Redis is loading its data; try again in a moment",
    "MASTERDOWN": "this Redis replica has lost its primary",
    "CLUSTERDOWN": "the Redis cluster is down, or has no primary for some of its slots",
    "MOVED": "TIER_REDIS_URL names one node of a Redis cluster, and the key is on another; write it as redis+cluster://",
    "TRYAGAIN": "the Redis cluster is moving this part of it to another node; try again in a moment",
    "NOAUTH": "Redis wants a password; put it into TIER_REDIS_URL",
    "WRONGPASS": "Redis refused the user or the password of TIER_REDIS_URL",
    "NOPERM": "the Redis user lacks a right; see deploy/redis.acl, or run tier doctor",
    "ACL failure": "the Redis user lacks a right of a script; see deploy/redis.acl, or run tier doctor",
    "MISCONF": "Redis cannot persist and refuses writes; look into its log",
    "BUSY": "Redis is busy with a script",
}
_WORDS = (  # redis-py cuts the word off and keeps it in the class
    (redis.exceptions.OutOfMemoryError, "OOM"),
    (redis.exceptions.ReadOnlyError, "READONLY"),
    (redis.exceptions.BusyLoadingError, "LOADING"),
    (redis.exceptions.MasterDownError, "MASTERDOWN"),
    (redis.exceptions.ClusterDownError, "CLUSTERDOWN"),
    (redis.exceptions.MovedError, "MOVED"),
    (redis.exceptions.NoPermissionError, "NOPERM"),
    (redis.exceptions.AuthenticationError, "WRONGPASS"),
)


def explained(error: Exception) -> HotTierError:
    """What an error of Redis means to the user; the text of the server is not quoted, it may hold content."""
    if isinstance(error, (CallTimeout, TimeoutError, redis.exceptions.TimeoutError)):
        return HotTierError(
            "Redis did not answer within TIER_REDIS_TIMEOUT; check the server and the network", code=SLOW
        )
    text = next((word for kind, word in _WORDS if isinstance(error, kind)), str(error))
    for word, reason in _REASONS.items():
        if text.startswith(word) or f"{word} command" in text or f"-{word}" in text or f" {word} " in text[:80]:
            return HotTierError(reason, code=word)
    if isinstance(error, (hiredis.ReplyError, ResponseError)):
        code = text.partition(" ")[0][:20] or "no reason"
        message = f"Redis refused a command ({code}); check its log"
        return HotTierError(message, is_refusal=_ABOUT_DATA.match(text) is not None, code=code)
    return HotTierError(
        "Redis cannot be reached or closed the connection; check the server and TIER_REDIS_URL", code=LOST
    )


class AsyncHot:
    """Redis for one event loop, over a few shared connections that open when needed."""

    def __init__(self, config: TierConfig) -> None:
        self._timeout = config.redis_timeout.total_seconds()
        self._url = config.redis_url.get_secret_value()
        self._wires: list[Wire | None] = [None] * WIRES
        self._opening: list[asyncio.Future[Wire] | None] = [None] * WIRES
        self._next = 0

    async def close(self) -> None:
        openings = [opening for opening in self._opening if opening is not None]
        for opening in openings:
            opening.cancel()
        await asyncio.gather(*openings, return_exceptions=True)
        self._close_wires()

    async def call(self, request: Request) -> Any:
        """Run one script. Raises HotTierError."""
        wire = self._wires[self._turn()]
        if wire is not None and wire.is_ready:
            try:
                reply = await wire.submit(request.command)
            except CallTimeout as error:
                raise explained(error) from error
            except ConnectionLost:
                pass
            else:
                if not isinstance(reply, hiredis.ReplyError):
                    return reply
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

    async def everywhere(self, *command: Encodable) -> list[Any]:
        """One plain command to every server there is: this one. Raises HotTierError."""
        return [await self.command(*command)]

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
        for left in reversed(range(MOST_TRIES)):
            try:
                return await run(await self._wire())
            except ConnectionLost as error:
                if not left:
                    raise explained(error) from error
            except hiredis.ReplyError as error:
                if "READONLY" in str(error):
                    # Not the primary any more: the other connections must not read from it either.
                    self._close_wires()
                raise explained(error) from error
            except (CallTimeout, OSError) as error:
                raise explained(error) from error
        raise AssertionError

    def _turn(self) -> int:
        self._next = slot = (self._next + 1) % WIRES
        return slot

    async def _wire(self) -> Wire:
        slot = self._turn()
        wire = self._wires[slot]
        if wire is not None and not wire.is_lost:
            return wire
        # Whoever waits for the same connection shares its failure, instead of trying in turn.
        opening = self._opening[slot]
        if opening is None:
            opening = self._opening[slot] = asyncio.ensure_future(self._open(slot))
            opening.add_done_callback(_heard)
        return await asyncio.shield(opening)

    async def _open(self, slot: int) -> Wire:
        try:
            wire = await Wire.open(await self._place(), self._timeout)
            self._wires[slot] = wire
            await asyncio.gather(*(wire.call(("SCRIPT", "LOAD", one.source)) for one in all_scripts()))
            return wire
        finally:
            self._opening[slot] = None

    async def _place(self) -> Place:
        return Place.from_url(self._url)

    def _close_wires(self) -> None:
        for wire in self._wires:
            if wire is not None:
                wire.close()

    async def _run(self, wire: Wire, request: Request) -> Any:
        try:
            return await wire.call(request.command)
        except hiredis.ReplyError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise
        await wire.call(("SCRIPT", "LOAD", request.script.source))
        return await wire.call(request.command)

    async def _run_many(self, wire: Wire, requests: Sequence[Request]) -> list[Any]:
        replies = await asyncio.gather(*(wire.submit(request.command) for request in requests))
        for number, reply in enumerate(replies):
            if isinstance(reply, hiredis.ReplyError):
                if not str(reply).startswith("NOSCRIPT"):
                    raise reply
                replies[number] = await self._run(wire, requests[number])
        return list(replies)


def _heard(opening: "asyncio.Future[Wire]") -> None:
    """Everybody who waited may have been cancelled: then nobody else looks at its failure."""
    if not opening.cancelled():
        opening.exception()


class BlockingHot:
    """Redis for threads, over a pool of plain connections."""

    def __init__(self, config: TierConfig, **options: Any) -> None:
        seconds, url = config.redis_timeout.total_seconds(), config.redis_url.get_secret_value()
        self._pool = redis.BlockingConnectionPool.from_url(
            url,
            **tls_defaults(url),
            max_connections=config.redis_pool_size,
            timeout=seconds,
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            retry=Retry(NoBackoff(), 0),
            redis_connect_func=self._greet,
            **options,
        )
        self._epoch = 0

    def close(self) -> None:
        self._pool.disconnect()  # type: ignore[no-untyped-call]

    def call(self, request: Request) -> Any:
        """Run one script. Raises HotTierError."""
        return self._repeat(lambda connection: _run(connection, request))

    def _repeat(self, run: Callable[[Any], Any]) -> Any:
        for is_last in (False, True):
            try:
                return self._once(run)
            except (redis.exceptions.ConnectionError, OSError) as error:
                if is_last:
                    raise explained(error) from error
            except RedisError as error:
                raise explained(error) from error
        raise AssertionError

    def _once(self, run: Callable[[Any], Any]) -> Any:
        connection = self._pool.get_connection()
        try:
            if connection.tier_epoch != self._epoch:
                connection.disconnect()
                connection.connect()
            return run(connection)
        except (redis.exceptions.ReadOnlyError, RedisError, OSError) as error:
            if not isinstance(error, ResponseError):
                connection.disconnect()
            elif isinstance(error, redis.exceptions.ReadOnlyError) or "READONLY" in str(error):
                connection.disconnect()
                self._epoch += 1  # not the primary any more: the other connections must not read from it either
            raise
        except BaseException:
            # An interrupt may have left a reply on its way.
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)  # type: ignore[no-untyped-call]

    def _greet(self, connection: Any) -> None:
        """Called by the pool for every new connection of it."""
        connection.tier_epoch = self._epoch
        connection.on_connect()
        if is_replica(exchange(connection, REPLICATION)):
            raise redis.exceptions.ReadOnlyError


def _run(connection: Any, request: Request) -> Any:
    try:
        return exchange(connection, request.command)
    except NoScriptError:
        exchange(connection, ("SCRIPT", "LOAD", request.script.source))
        return exchange(connection, request.command)


def exchange(connection: Any, command: Sequence[Encodable]) -> Any:
    """One command and its reply over a connection of redis-py."""
    connection.send_packed_command([packed(command)])
    return connection.read_response(disable_decoding=True)
