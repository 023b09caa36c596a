"""
The Redis of the arq queue: a pool of our own, and the settings that say the same.

arq's own pool waits for ever for a reply, takes percent signs in a password as they are and does not check the host
name of a certificate.
"""

import asyncio
import time
from dataclasses import fields
from typing import Any

import ormsgpack
from arq.connections import ArqRedis, RedisSettings
from arq.jobs import Job
from redis.asyncio import ConnectionPool
from redis.asyncio.client import Pipeline
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import OutOfMemoryError, ReadOnlyError, RedisError
from redis.exceptions import TimeoutError as RedisTimeout

from saver.config import TierConfig
from saver.queue import queue_name
from saver.seeds import Seeds
from saver.sentinel import client_options
from saver.urls import is_behind_sentinels

RETRY_ON = [LostConnection, RedisTimeout, OSError, ReadOnlyError]
# Without Redis for about this long, the process ends and its supervisor starts it again.
OUTAGE_SECONDS = 30.0
FIRST_SECONDS = 1.0
PAUSE_SECONDS = 0.25
LATEST_BEAT_SECONDS = 60.0  # arq shows itself every 15 s
_RETRIES = 6  # of one command, and of connecting for it: about 20 s together
_BEGINNINGS = ("PSETEX", "ZADD")
_NEEDS_NO_ROOM = ("GET", "DEL", "ZREM", "EXPIRE", "PEXPIRE")


def packed(value: Any) -> bytes:
    """A job or its result as msgpack; of an error only the kind, for its text may quote a row."""
    return ormsgpack.packb(value, default=lambda other: type(other).__name__)


unpacked = ormsgpack.unpackb


class QueueRedis(ArqRedis):
    """
    arq's client, which also notes when arq's main loop was here last, and when Redis is too full for a queue.

    arq would end the process then, and with it what makes room (`worker/relief.py`).
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.last_beat = time.monotonic()
        self.is_full = False

    @property
    def silence_seconds(self) -> float:
        """How long ago arq's main loop was seen."""
        return time.monotonic() - self.last_beat

    @property
    def is_alive(self) -> bool:
        """Whether arq's main loop runs."""
        return self.silence_seconds < LATEST_BEAT_SECONDS

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """A transaction that knows what a full Redis still takes."""
        made = QueuePipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        made.queue = self
        return made

    async def enqueue_job(self, *arguments: Any, **options: Any) -> Job | None:
        """Queue a job, unless there is no room."""
        try:
            return await super().enqueue_job(*arguments, **options)
        except OutOfMemoryError:
            self.is_full = True
            return None

    async def psetex(self, name: Any, time_ms: Any, value: Any) -> Any:
        """Only arq's main loop calls this outside of a pipeline, once per health_check_interval."""
        self.last_beat = time.monotonic()
        try:
            return await super().psetex(name, time_ms, value)
        except OutOfMemoryError:
            self.is_full = True
            return None


class QueuePipeline(Pipeline):
    """
    A transaction of arq. One that a full Redis refuses, but that begins nothing, is done as far as it needs no room.

    So a job that runs when Redis fills up can end, instead of ending the process.
    """

    queue: QueueRedis

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Raises OutOfMemoryError when a job would be queued or begun."""
        commands = [arguments for arguments, _ in self.command_stack]
        try:
            return await super().execute(raise_on_error)
        except OutOfMemoryError:
            self.queue.is_full = True
            if any(command[0] in _BEGINNINGS for command in commands):
                raise
        return [await self._alone(command) for command in commands]

    async def _alone(self, command: Any) -> Any:
        if command[0] in _NEEDS_NO_ROOM:
            return await self.queue.execute_command(*command)  # type: ignore[no-untyped-call]
        return 1 if command[0] == "INCR" else None  # the number of a try, or a result that nobody asks for


class QueueConnections(ConnectionPool):
    """Patient once it was connected, impatient before: a wrong address shows at once, in one sentence."""

    was_connected = False

    async def ensure_connection(self, connection: Any) -> None:
        deadline = time.monotonic() + (OUTAGE_SECONDS if self.was_connected else FIRST_SECONDS)
        # The connection's own retries are for the commands sent over it.
        retry, connection.retry = connection.retry, Retry(NoBackoff(), 0)
        try:
            while True:
                if await self._is_connected(connection, is_last=time.monotonic() > deadline):
                    break
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            connection.retry = retry
        self.was_connected = True

    async def _is_connected(self, connection: Any, *, is_last: bool) -> bool:
        try:
            await super().ensure_connection(connection)
        except (RedisError, OSError) as error:
            if not is_last:
                return False
            if self.was_connected:
                raise
            what = f"{type(error).__name__}; check TIER_QUEUE_URL, or TIER_REDIS_URL if it is not set"
            raise SystemExit(f"the worker cannot start: the Redis of the queue does not let it in ({what})") from None
        return True


def open_queue(config: TierConfig) -> QueueRedis:
    """A client for the queue that connects when it is used."""
    options = _options(config)
    pool = QueueConnections(
        **options,
        socket_timeout=config.redis_timeout.total_seconds(),
        socket_connect_timeout=config.redis_timeout.total_seconds(),
        retry=_patience(),
        retry_on_error=RETRY_ON,
        health_check_interval=0,
    )
    return QueueRedis(
        pool,
        job_serializer=packed,
        job_deserializer=unpacked,
        default_queue_name=queue_name(config),
    )


def redis_settings(config: TierConfig) -> RedisSettings:
    """What `arq --check` and tools read; the worker itself uses `open_queue`."""
    options = _options(config)
    known = {field.name for field in fields(RedisSettings)}
    settings = {name: value for name, value in options.items() if name in known}
    if is_behind_sentinels(url := config.queue_url.get_secret_value()):
        seeds = Seeds.from_url(url)
        settings |= {"host": list(seeds.hosts), "sentinel": True, "sentinel_master": seeds.service}
    return RedisSettings(
        **settings,
        unix_socket_path=options.get("path"),
        database=options.get("db", 0),
        ssl=url.startswith("rediss"),
        retry=_patience(),
        retry_on_timeout=True,
        retry_on_error=RETRY_ON,
    )


def _options(config: TierConfig) -> dict[str, Any]:
    return client_options(config.queue_url.get_secret_value(), config.redis_timeout.total_seconds())


def _patience() -> Retry:
    return Retry(ExponentialBackoff(cap=1.0, base=0.05), _RETRIES)
