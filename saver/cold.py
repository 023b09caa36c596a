"""
The cold tier: all Postgres traffic, on the pool itself (one shared AsyncPostgresSaver serves one call at a time).

Every piece of work is repeatable and has a time limit. Work whose connection turns out to be dead is done again once,
on a checked connection; a server that does not answer is cut off, so that nothing waits for it.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

import psycopg
from psycopg import AsyncConnection, AsyncPipeline
from psycopg.errors import UniqueViolation
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from saver.config import TierConfig
from saver.errors import ColdTierError
from saver.rows import BlobRow, CheckpointRow, Rows, WriteRow
from saver.schema import prepare
from saver.sharing import Sharing
from saver.statements import statements

RECONNECT_SECONDS = 5
MOST_RUNS = 2
PUSH_SECONDS = 0.005
ONLY_WHEN_TOLD = 1 << 30
# What somebody waits for and takes longer to plan than to run.
PREPARED = frozenset({"limits", "load", "lock_shared", "read_newest", "read_one"})

T = TypeVar("T")
Parameters = Mapping[str, Any]


class CopyPart(NamedTuple):
    """Rows for one COPY in binary form, and the types of their columns."""

    name: str
    types: Sequence[str]
    records: Iterable[Sequence[Any]]


class Transaction:
    """Named statements within one transaction, several to a round trip."""

    def __init__(
        self,
        connection: AsyncConnection[TupleRow],
        pipeline: AsyncPipeline,
        texts: Mapping[str, bytes],
        limits: Parameters,
        leave_pipeline: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._connection = connection
        self._pipeline: AsyncPipeline | None = pipeline
        self._leave_pipeline = leave_pipeline
        self._texts = texts
        self._first: list[tuple[str, Parameters]] = [("limits", limits)]  # travels with the first statements

    async def fetch(self, name: str, parameters: Parameters) -> list[TupleRow]:
        return (await self.fetch_many([(name, parameters)]))[0]

    async def fetch_many(self, calls: Sequence[tuple[str, Parameters]]) -> list[list[TupleRow]]:
        cursors = []
        for name, parameters in (*self._first, *calls):
            cursor = self._connection.cursor(binary=True)
            cursors.append(await cursor.execute(self._texts[name], parameters, prepare=name in PREPARED))
        if self._pipeline is not None:
            await self._sync(self._pipeline)
        del cursors[: len(self._first)]
        self._first = []
        return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]

    async def _sync(self, pipeline: AsyncPipeline) -> None:
        """
        Wait for all answers, and go on sending meanwhile.

        psycopg 3.3 stops sending when its queue is empty, though libpq may hold megabytes yet, and then only reads: the
        server waits for the rest of a statement and says nothing.
        """
        loop = asyncio.get_running_loop()
        timers: list[asyncio.TimerHandle] = []

        def push() -> None:
            with suppress(psycopg.Error):
                self._connection.pgconn.flush()
            timers[:] = [loop.call_later(PUSH_SECONDS, push)]

        timers.append(loop.call_later(PUSH_SECONDS, push))
        try:
            await pipeline.sync()
        finally:
            timers[0].cancel()

    async def copy_new(self, parts: Sequence[CopyPart]) -> bool:
        """
        COPY rows that should be new, all or none: False if one was there, or if this is no bulk transaction.

        What follows in this transaction is not pipelined: COPY cannot be.
        """
        if self._leave_pipeline is None:
            return False
        self._pipeline = None
        await self._leave_pipeline()
        try:
            async with self._connection.transaction():
                for name, types, records in parts:
                    async with self._connection.cursor() as cursor, cursor.copy(self._texts[name]) as copy:
                        copy.set_types(types)
                        for record in records:
                            await copy.write_row(record)
        except UniqueViolation:
            return False
        return True


Work = Callable[[Transaction], Awaitable[T]]


@dataclass(slots=True)
class _Held:
    """What a piece of work has at hand."""

    connection: AsyncConnection[TupleRow] | None = None
    runs: int = 0
    is_given_up: bool = False


class ColdTier:
    """Postgres, opened with `open` in the event loop that uses it, closed with `close`."""

    def __init__(self, config: TierConfig) -> None:
        self.timeout = config.postgres_timeout.total_seconds()
        self._idle_ms = int(config.redis_timeout.total_seconds() * 3000)
        self.schema = config.postgres_schema
        self._texts = statements(config.postgres_schema)
        self._running: set[asyncio.Task[Any]] = set()
        self._reads = Sharing()
        self._known: WeakSet[AsyncConnection[TupleRow]] = WeakSet()
        self._pool: AsyncConnectionPool[AsyncConnection[TupleRow]] = AsyncConnectionPool(
            config.postgres_url.get_secret_value(),
            open=False,
            min_size=config.postgres_min_size,
            max_size=config.postgres_max_size,
            timeout=self.timeout,
            # The pool waits longer and longer between its attempts; whoever asks after it gave up makes it begin anew.
            reconnect_timeout=RECONNECT_SECONDS,
            kwargs={"autocommit": True, "prepare_threshold": None, "connect_timeout": max(2, round(self.timeout))},
        )

    async def open(self) -> None:
        await self._pool.open(wait=False)

    async def close(self) -> None:
        await self._reads.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.timeout):
                await self._pool.close()

    async def setup(self) -> None:
        """Create or upgrade the tables, safely from many processes at once."""
        await self._guard(lambda connection: prepare(connection, self.schema), self.timeout * 6)

    # ---- running

    async def fetch(self, name: str, parameters: Parameters) -> list[TupleRow]:
        """One statement, one round trip. Raises ColdTierError."""

        async def run(connection: AsyncConnection[TupleRow]) -> list[TupleRow]:
            cursor = connection.cursor(binary=True)
            await cursor.execute(self._texts[name], parameters, prepare=name in PREPARED)
            return await cursor.fetchall()

        return await self._guard(run, self.timeout)

    async def fetch_locked(self, lock: str, name: str, parameters: Parameters) -> list[TupleRow]:
        """
        A lock, then a statement that takes its snapshot under it, then the end of their transaction: one round trip.

        Raises ColdTierError.
        """
        calls = (("limits", self._limits(self.timeout)), (lock, parameters), (name, parameters))

        async def run(connection: AsyncConnection[TupleRow]) -> list[TupleRow]:
            # What is sent together is one transaction, which the server ends by itself.
            async with connection.pipeline():
                cursors = [connection.cursor(binary=True) for _ in calls]
                for cursor, (statement, values) in zip(cursors, calls, strict=True):
                    await cursor.execute(self._texts[statement], values, prepare=statement in PREPARED)
            return await cursors[-1].fetchall()

        return await self._guard(run, self.timeout)

    async def transact(self, work: Work[T], *, timeout: float | None = None, is_bulk: bool = False) -> T:
        """
        Run work in one transaction and commit. It may run twice, so it must be repeatable. Bulk work can use COPY, for
        which it begins with a round trip of its own.

        Raises ColdTierError; then nothing is known to be committed.
        """
        limit = timeout or self.timeout

        async def run(connection: AsyncConnection[TupleRow]) -> T:
            limits = self._limits(limit)
            if not is_bulk:
                async with connection.pipeline() as pipeline, connection.transaction():
                    return await work(Transaction(connection, pipeline, self._texts, limits))
            async with connection.transaction(), AsyncExitStack() as stack:
                pipeline = await stack.enter_async_context(connection.pipeline())
                return await work(Transaction(connection, pipeline, self._texts, limits, stack.aclose))

        return await self._guard(run, limit)

    def _limits(self, seconds: float) -> Parameters:
        # Between two statements there are calls to Redis at most: a process that is frozen there loses its locks.
        # The server gives up first, so that the error says what was too slow.
        return {"statement_ms": int(seconds * 800), "idle_ms": self._idle_ms}

    async def _guard(self, run: Callable[[AsyncConnection[TupleRow]], Awaitable[T]], limit: float) -> T:
        held = _Held()
        task = asyncio.ensure_future(self._attempt(run, held))
        self._running.add(task)
        task.add_done_callback(self._end)
        try:
            done, _ = await asyncio.wait({task}, timeout=limit)
        except asyncio.CancelledError:
            # The work ends by itself: a driver that is cancelled waits for the server, which may be frozen.
            asyncio.get_running_loop().call_later(limit, _cut, task, held)
            raise
        if not done:
            _cut(task, held)
            raise _silent(limit)
        try:
            return task.result()
        except psycopg.Error as error:
            raise _translated(error) from error
        except asyncio.CancelledError:
            raise ColdTierError("the cold tier was closed") from None

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be left to look at it

    async def _attempt(self, run: Callable[[AsyncConnection[TupleRow]], Awaitable[T]], held: _Held) -> T:
        """
        Run on a connection that works. The server, a proxy or a pooler may have closed any number of them.

        A connection that dies under the work says nothing of what it did, so it is done again once.
        """
        for _ in range(self._pool.max_size + MOST_RUNS):
            try:
                return await self._once(run, held)
            except psycopg.OperationalError as error:
                is_dead = held.connection is not None and held.connection.closed
                if isinstance(error, (PoolTimeout, PoolClosed)) or not is_dead:
                    raise
                if held.is_given_up or held.runs >= MOST_RUNS:
                    raise
        raise ColdTierError("Postgres closes every connection; check the server, its proxy and its pooler")

    async def _once(self, run: Callable[[AsyncConnection[TupleRow]], Awaitable[T]], held: _Held) -> T:
        held.connection = None
        async with self._pool.connection() as connection:
            held.connection = connection
            if held.runs:
                await self._pool.check_connection(connection)
            held.runs += 1
            if connection not in self._known:
                await self._get_to_know(connection)
            return await run(connection)

    async def _get_to_know(self, connection: AsyncConnection[TupleRow]) -> None:
        """Prepare statements only where no pooler stands in between: they do not survive one in transaction mode."""
        [(process_id,)] = await (await connection.execute(self._texts["process"])).fetchall()
        if process_id == connection.info.backend_pid:
            connection.prepare_threshold = ONLY_WHEN_TOLD
        self._known.add(connection)

    # ---- reading

    async def read_newest(self, thread_id: str, namespace: str, limit: int = 1) -> Rows:
        return await self._read("read_newest", {"thread_id": thread_id, "namespace": namespace, "limit": limit})

    async def read_one(self, thread_id: str, namespace: str, checkpoint_id: str) -> Rows:
        where = {"thread_id": thread_id, "namespace": namespace, "checkpoint_id": checkpoint_id}
        return await self._read("read_one", where)

    async def _read(self, name: str, parameters: Parameters) -> Rows:
        """One statement for all who ask for the same at once. They share the rows, so nobody may change them."""

        async def read() -> Rows:
            return rows_from(await self.fetch(name, parameters))

        try:
            return await self._reads.next((name, *parameters.values()), read, self.timeout)
        except TimeoutError:
            raise _silent(self.timeout) from None


def _silent(limit: float) -> ColdTierError:
    return ColdTierError(f"Postgres did not answer within {limit:g} s; check the server, or TIER_POSTGRES_TIMEOUT")


def _cut(task: "asyncio.Future[Any]", held: _Held) -> None:
    """End work on a server that does not answer, by closing the socket under the driver."""
    if task.done():
        return
    held.is_given_up = True
    if held.connection is None:
        task.cancel()
        return
    with suppress(OSError, psycopg.Error), socket.socket(fileno=socket.dup(held.connection.pgconn.socket)) as end:
        end.shutdown(socket.SHUT_RDWR)


def _translated(error: psycopg.Error) -> ColdTierError:
    """An error that names the fact without quoting rows or URLs, as the driver's own text does."""
    if isinstance(error, PoolTimeout):
        return ColdTierError("Postgres gave no connection in time; check the server and TIER_POSTGRES_MAX_SIZE")
    state = error.sqlstate
    if state is None and isinstance(error, psycopg.DataError):
        state = "22000"  # the driver itself could not send a value
    reason = type(error).__name__ + (f", SQLSTATE {state}" if state else "")
    return ColdTierError(f"Postgres failed ({reason}); check the server and its log", sqlstate=state)


def rows_from(records: Sequence[TupleRow]) -> Rows:
    """Rows of one thread from records of the shape `rows_of_head`."""
    return rows_by_thread(records).popitem()[1] if records else Rows()


def rows_by_thread(records: Sequence[TupleRow]) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for kind, thread_id, namespace, checkpoint_id, a, b, c, d, index, data in records:
        rows = found.setdefault(thread_id, Rows())
        if kind == "c":
            rows.checkpoints.append(CheckpointRow(namespace, checkpoint_id, a, b, c))
        elif kind == "b":
            rows.blobs.append(BlobRow(namespace, a, b, c, data))
        else:
            rows.writes.append(WriteRow(namespace, checkpoint_id, a, index, b, c, d, data))
    return found
