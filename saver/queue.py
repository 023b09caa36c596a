"""
The hints: arq jobs that say "look now".

They cost the agent nothing: a thread of its own sends them, drops what it cannot send, and without arq there are none.
The sorted sets in Redis are the truth; the worker's sweep finds in them whatever a lost hint would have told.
"""

import asyncio
import logging
import time
from contextlib import suppress
from queue import Full, Queue
from threading import Lock, Thread
from typing import Any

import ormsgpack
from redis.asyncio import ConnectionPool
from redis.exceptions import RedisError

from saver.config import TierConfig
from saver.sentinel import client_options

try:
    from arq.connections import ArqRedis
except ImportError:  # agents need not have arq
    ArqRedis = None  # type: ignore[assignment,misc]

MOST_WAITING = 256
SEND_SECONDS = 2.0
BUCKET_SECONDS = 5

log = logging.getLogger(__name__)

_Hint = tuple[str, int]


def queue_name(config: TierConfig) -> str:
    """The arq queue of one key prefix: two systems on one Redis do not take each other's jobs."""
    return f"{config.key_prefix}:queue"


def job_id(config: TierConfig, name: str, partition: int, moment: float) -> str:
    """One job per partition and few seconds, whoever asks for it."""
    return f"{config.key_prefix}:{name}:{partition}:{int(moment / BUCKET_SECONDS)}"


class Hints:
    """Sends hints from a thread of its own, which starts with the first one."""

    def __init__(self, config: TierConfig) -> None:
        self._config = config
        self._waiting: Queue[_Hint | None] = Queue(MOST_WAITING)
        self._thread: Thread | None = None
        self._starting = Lock()
        self._sent: dict[_Hint, int] = {}

    def archive(self, partition: int) -> None:
        """A partition got its first dirty thread."""
        self._give(("archive", partition))

    def promote(self, partition: int) -> None:
        """An archived thread of a partition was read."""
        self._give(("promote", partition))

    def close(self) -> None:
        """Stop the thread; what it had not sent is left to the sweep."""
        thread, self._thread = self._thread, None
        if thread is not None:
            with suppress(Full):
                self._waiting.put_nowait(None)
            thread.join(SEND_SECONDS * 2)

    def _give(self, hint: _Hint) -> None:
        if ArqRedis is None:
            return
        bucket = int(time.time() / BUCKET_SECONDS)
        if self._sent.get(hint) == bucket:
            return
        self._sent[hint] = bucket
        with suppress(Full):
            self._waiting.put_nowait(hint)
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = Thread(target=self._run, name="tier-hints", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        redis = hint_client(self._config)
        try:
            while (hint := await asyncio.to_thread(self._waiting.get)) is not None:
                name, partition = hint
                try:
                    async with asyncio.timeout(SEND_SECONDS):
                        await redis.enqueue_job(
                            name,
                            partition,
                            _job_id=job_id(self._config, name, partition, time.time()),
                            _defer_by=self._config.archive_wait if name == "archive" else None,
                        )
                except (RedisError, OSError, TimeoutError) as error:
                    log.debug("hint not sent", extra={"job": name, "reason": type(error).__name__})
        finally:
            await redis.aclose()


def hint_client(config: TierConfig) -> Any:
    """An arq client for the queue: msgpack payloads, our queue name, every call bounded."""
    seconds = config.redis_timeout.total_seconds()
    pool = ConnectionPool(
        **client_options((config.queue_url or config.redis_url).get_secret_value(), seconds),
        socket_timeout=seconds,
        socket_connect_timeout=seconds,
        max_connections=8,
    )
    return ArqRedis(
        connection_pool=pool,
        job_serializer=ormsgpack.packb,
        job_deserializer=ormsgpack.unpackb,
        default_queue_name=queue_name(config),
    )
