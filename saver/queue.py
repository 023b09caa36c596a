"""
The hints: arq jobs that say "look now".

They cost the agent nothing: a thread of its own sends them, drops what it cannot send, and without arq there are none.
The sorted sets in Redis are the truth; the worker's sweep finds in them whatever a lost hint would have told.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
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
BUCKET_SECONDS = 5.0
PROMOTE_BUCKET_SECONDS = 0.25  # somebody is about to write; one job serves all who read in it
# So long a job of a killed worker bars its id. Ids begin anew after it, so no more of a job than its buckets can wait.
BARRED_SECONDS = 40.0
# arq takes jobs by the time they are due. A promotion goes before all that waits, for none waits longer than a day;
# what frees Redis goes before a turn of retention that was queued a little earlier, and so starves none.
WAITS_MOST = timedelta(days=1)
HEAD_STARTS = {"promote": 2 * WAITS_MOST, "archive": timedelta(seconds=10), "demote": timedelta(seconds=10)}

log = logging.getLogger(__name__)

_Hint = tuple[str, int | None]  # without a partition: all in which something is due


def queue_name(config: TierConfig) -> str:
    """The arq queue of one key prefix: two systems on one Redis do not take each other's jobs."""
    return f"{config.key_prefix}:queue"


def bucket_seconds(name: str) -> float:
    """How long whoever asks for a job of a partition asks for the same one."""
    return PROMOTE_BUCKET_SECONDS if name == "promote" else BUCKET_SECONDS


def job_id(config: TierConfig, name: str, partition: int | None, moment: float) -> str:
    """One job per partition and bucket, whoever asks for it; few, however long nobody takes them."""
    where = "all" if partition is None else partition
    seconds = bucket_seconds(name)
    return f"{config.key_prefix}:{name}:{where}:{int(moment / seconds) % int(BARRED_SECONDS / seconds)}"


def place_in_line(name: str, wait: timedelta = timedelta(0)) -> Mapping[str, Any]:
    """What makes arq take a job before others that wait, or not before a time."""
    head_start = timedelta(0) if wait else HEAD_STARTS.get(name, timedelta(0))
    return {"_defer_until": datetime.now(UTC) + wait - head_start, "_expires": wait + WAITS_MOST}


class Hints:
    """Sends hints from a thread of its own, which starts with the first one."""

    def __init__(self, config: TierConfig) -> None:
        self._config = config
        self._waiting: Queue[_Hint | None] = Queue(MOST_WAITING)
        self._thread: Thread | None = None
        self._starting = Lock()
        self._sent: dict[int, int] = {}
        self._is_promotion_waiting = False

    def archive(self, partition: int) -> None:
        """A partition got its first dirty thread."""
        bucket = int(time.time() / BUCKET_SECONDS)
        if self._sent.get(partition) != bucket:
            self._sent[partition] = bucket
            self._give(("archive", partition))

    def promote(self) -> None:
        """An archived thread was read. One hint tells of all that are read until it is sent."""
        if not self._is_promotion_waiting:
            self._is_promotion_waiting = self._give(("promote", None))

    def close(self) -> None:
        """Stop the thread; what it had not sent is left to the sweep."""
        thread, self._thread = self._thread, None
        if thread is not None:
            with suppress(Full):
                self._waiting.put_nowait(None)
            thread.join(SEND_SECONDS * 2)

    def leave_to_parent(self) -> None:
        """In a process that was forked: the thread and what it was to send are the parent's."""
        self._waiting = Queue(MOST_WAITING)
        self._thread = None
        self._starting = Lock()
        self._is_promotion_waiting = False

    def _give(self, hint: _Hint) -> bool:
        if ArqRedis is None:
            return False
        try:
            self._waiting.put_nowait(hint)
        except Full:
            return False
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = Thread(target=self._run, name="tier-hints", daemon=True)
                    self._thread.start()
        return True

    def _run(self) -> None:
        # It waits in this thread, which ends with the process; a thread of an executor would keep the process alive.
        with asyncio.Runner() as runner:
            redis = hint_client(self._config)
            try:
                while (hint := self._waiting.get()) is not None:
                    runner.run(self._pass_on(redis, hint))
            finally:
                runner.run(redis.aclose())

    async def _pass_on(self, redis: Any, hint: _Hint) -> None:
        if hint[0] == "archive":
            await self._send(redis, hint)
            return
        self._is_promotion_waiting = False
        is_sent = await self._send(redis, hint)
        await asyncio.sleep(PROMOTE_BUCKET_SECONDS)
        if not is_sent:  # somebody else's job is there, and may have looked already; the next one has not
            await self._send(redis, hint)

    async def _send(self, redis: Any, hint: _Hint) -> bool:
        """False if the same job is there already. A hint that cannot be sent is dropped."""
        name, partition = hint
        try:
            async with asyncio.timeout(SEND_SECONDS):
                job = await redis.enqueue_job(
                    name,
                    partition,
                    _job_id=job_id(self._config, name, partition, time.time()),
                    **place_in_line(name, self._config.archive_wait if name == "archive" else timedelta(0)),
                )
        except (RedisError, OSError, TimeoutError) as error:
            log.debug("hint not sent", extra={"job": name, "reason": type(error).__name__})
            return True
        return job is not None


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
