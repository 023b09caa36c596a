"""The Redis of another saver, from which threads come over: read only, in bounded batches, every wait limited."""

import re
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import redis.asyncio
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.exceptions import TimeoutError as NoAnswer

from jobs.portable import PortableThread
from saver.errors import TierError
from saver.sentinel import client_options
from saver.urls import check_redis_url, is_cluster

SECONDS = 10.0  # for one batch
READ_AT_ONCE = 100  # documents in one batch
SCAN_AT_ONCE = 1000
_LACKS_TYPE = re.compile("unknown (command|type)", re.IGNORECASE)


class PeerUnreachable(TierError):  # noqa: N818 - reads as the fact it reports
    """The Redis of the other saver did not do what was asked. What was imported before stays."""


class Survey:
    """Whose threads were found, and under what names: in a file without a name, so that millions need no memory."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("", isolation_level=None)
        self._file.execute(
            "create table found (thread_id text, name blob, primary key (thread_id, name)) without rowid"
        )

    def add(self, found: Iterable[tuple[str, bytes]]) -> None:
        self._file.execute("begin")
        self._file.executemany("insert or ignore into found values (?, ?)", found)
        self._file.execute("commit")

    def count(self) -> int:
        """How many threads."""
        [(count,)] = self._file.execute("select count(distinct thread_id) from found")
        return int(count)

    def thread_ids(self) -> Iterator[str]:
        """Every thread once."""
        for (thread_id,) in self._file.execute("select distinct thread_id from found"):
            yield thread_id

    def names(self, thread_id: str) -> list[bytes]:
        """What was found of a thread."""
        return [name for (name,) in self._file.execute("select name from found where thread_id = ?", (thread_id,))]

    def close(self) -> None:
        self._file.close()


class Peer(Protocol):
    """Threads that another saver wrote."""

    async def survey(self, into: Survey) -> None:
        """Find all threads. Raises PeerUnreachable, Unreadable."""

    async def read(self, thread_id: str, found: Sequence[bytes]) -> PortableThread | None:
        """A thread from what the survey found of it; None if it is gone. Raises a TierError that says what is wrong."""


class PeerRedis:
    """Plain commands, many in one round trip. No error quotes the address or what the server says."""

    def __init__(self, client: "redis.asyncio.Redis") -> None:
        self._client = client

    async def ask(self, *command: Any) -> Any:
        """One reply. Raises PeerUnreachable."""
        return (await self.ask_all([command]))[0]

    async def ask_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Their replies, by batches. Raises PeerUnreachable."""
        replies: list[Any] = []
        for first in range(0, len(commands), READ_AT_ONCE):
            pipeline = self._client.pipeline(transaction=False)
            for command in commands[first : first + READ_AT_ONCE]:
                pipeline.execute_command(*command)
            try:
                replies += await pipeline.execute()
            except (RedisError, OSError) as error:
                raise _explained(error) from error
        return replies

    async def keys(self, prefix: str, type_: str) -> AsyncIterator[list[bytes]]:
        """The keys of a type that begin with a prefix, by batches; a key may come twice. Raises PeerUnreachable."""
        pattern = "".join(f"\\{sign}" if sign in "*?[]\\" else sign for sign in prefix) + "*"
        cursor: Any = 0
        while True:
            cursor, found = await self.ask("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_AT_ONCE, "TYPE", type_)
            yield found
            if not int(cursor):
                return


@asynccontextmanager
async def open_peer(url: str) -> AsyncIterator[PeerRedis]:
    """Connect when needed. Raises PeerUnreachable for an address that is none, without quoting it."""
    try:
        check_redis_url(url)
    except ValueError as error:
        raise PeerUnreachable(f"the address of the other saver {error}") from None
    if is_cluster(url):
        raise PeerUnreachable("the other saver's Redis is a cluster; import each of its primaries, as redis://")
    options = {**client_options(url, SECONDS), "socket_timeout": SECONDS, "socket_connect_timeout": SECONDS}
    pool = redis.asyncio.ConnectionPool(**options)
    try:
        yield PeerRedis(redis.asyncio.Redis(connection_pool=pool))
    finally:
        await pool.disconnect()


def _explained(error: Exception) -> PeerUnreachable:
    """The text of the server is not quoted: it may hold content."""
    if isinstance(error, (AuthenticationError, NoPermissionError)):
        return PeerUnreachable("the other saver's Redis refused the user or a right: it must read, and use SCAN")
    if isinstance(error, NoAnswer):
        return PeerUnreachable(f"the other saver's Redis did not answer within {SECONDS:.0f} s; try again")
    if isinstance(error, ResponseError) and _LACKS_TYPE.search(str(error)):
        return PeerUnreachable("that Redis has no JSON documents, so langgraph-checkpoint-redis did not write there")
    if isinstance(error, ResponseError):
        return PeerUnreachable("the other saver's Redis refused a command; do --from and --prefix say who wrote there?")
    return PeerUnreachable("the other saver's Redis cannot be reached or closed the connection; check --url")
