"""
One Redis connection that the calls of many tasks share.

Calls made in the same turn of the event loop leave in one write, replies are matched by order, so concurrent tasks
share round trips. A cancelled caller leaves its place in the queue: its reply is read and dropped, never given to
another.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import hiredis
from redis.asyncio.connection import parse_url

Encodable = str | bytes | int
REPLICATION = ("INFO", "replication")


class ConnectionLost(Exception):  # noqa: N818 - a fact, handled inside the hot tier
    """The connection went away before the reply; the server may have done what was asked."""


class CallTimeout(Exception):  # noqa: N818 - a fact, handled inside the hot tier
    """No reply in time; the server may have done what was asked."""


class Place(NamedTuple):
    """Where a server is and how to get in, from a redis, rediss or unix URL."""

    host: str
    port: int
    path: str | None
    username: str | None
    password: str | None
    database: int
    tls: ssl.SSLContext | None

    @classmethod
    def from_url(cls, url: str) -> "Place":
        options = cast(dict[str, Any], parse_url(url))
        tls = None
        if url.startswith("rediss:"):
            tls = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
            tls.check_hostname = options.get("ssl_check_hostname", True)
            if options.get("ssl_cert_reqs") in ("none", "CERT_NONE"):
                tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
            if certificate := options.get("ssl_certfile"):
                tls.load_cert_chain(certificate, options.get("ssl_keyfile"))
        return cls(
            options.get("host", "localhost"),
            int(options.get("port", 6379)),
            options.get("path"),
            options.get("username"),
            options.get("password"),
            int(options.get("db", 0)),
            tls,
        )


def packed(command: Sequence[Encodable]) -> bytes:
    return cast(bytes, hiredis.pack_command(cast(Any, tuple(command))))


def is_replica(info: bytes) -> bool:
    """Whether a reply to INFO replication comes from a replica; its scripts refuse to run."""
    return b"role:slave" in info


_Pending = tuple[asyncio.Future[Any], float]  # who waits for a reply, and until when


class Wire(asyncio.Protocol):
    """A connection. Open it with `Wire.open`, call it, close it; a lost one stays lost."""

    def __init__(self, timeout: float) -> None:
        self.is_lost = False
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._pending: deque[_Pending] = deque()
        self._unsent: list[bytes] = []
        self._is_alone = True  # a call without company is sent at once, others wait for those of the same turn
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._watch: asyncio.TimerHandle | None = None

    @classmethod
    async def open(cls, place: Place, timeout: float) -> "Wire":
        """Connect, log in, and learn the server's history. Raises OSError, CallTimeout or hiredis.ReplyError."""
        loop = asyncio.get_running_loop()

        def make() -> Wire:
            return cls(timeout)

        try:
            async with asyncio.timeout(timeout):
                if place.path:
                    _, wire = await loop.create_unix_connection(make, place.path)
                else:
                    _, wire = await loop.create_connection(make, place.host, place.port, ssl=place.tls)
        except TimeoutError as error:
            raise CallTimeout from error
        try:
            await wire._greet(place)
        except BaseException:
            wire.close()
            raise
        return wire

    async def _greet(self, place: Place) -> None:
        greetings: list[tuple[Encodable, ...]] = []
        if place.password is not None:
            user = (place.username,) if place.username else ()
            greetings.append(("AUTH", *user, place.password))
        if place.database:
            greetings.append(("SELECT", place.database))
        replies = await asyncio.gather(*(self.call(greeting) for greeting in (*greetings, REPLICATION)))
        if is_replica(replies[-1]):
            raise hiredis.ReplyError("READONLY this is a replica")

    @property
    def is_ready(self) -> bool:
        """Whether a call can be submitted now: the connection stands, and what was written is on its way."""
        return not self.is_lost and self._writable.is_set()

    @property
    def load(self) -> int:
        """Calls that wait for a reply."""
        return len(self._pending)

    async def call(self, command: Sequence[Encodable]) -> Any:
        """
        Send one command and return its reply.

        Raises hiredis.ReplyError for an error reply, ConnectionLost, or CallTimeout.
        """
        if self.is_lost:
            raise ConnectionLost
        await self._writable.wait()
        reply = await self.submit(command)
        if isinstance(reply, hiredis.ReplyError):
            raise reply
        return reply

    def submit(self, command: Sequence[Encodable]) -> asyncio.Future[Any]:
        """Queue one command; error replies come as values."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.is_lost:
            future.set_exception(ConnectionLost())
            return future
        if self._is_alone and not self._pending and self._transport is not None:
            self._transport.write(packed(command))
        else:
            if not self._unsent:
                self._loop.call_soon(self._flush)
            self._unsent.append(packed(command))
        self._pending.append((future, self._loop.time() + self._timeout))
        if self._watch is None:
            self._watch = self._loop.call_later(self._timeout, self._check_deadline)
        return future

    def _flush(self) -> None:
        self._is_alone = len(self._pending) <= 1
        if self._transport is not None and self._unsent:
            self._transport.write(b"".join(self._unsent) if len(self._unsent) > 1 else self._unsent[0])
        self._unsent.clear()

    def _check_deadline(self) -> None:
        self._watch = None
        if not self._pending:
            return
        left = self._pending[0][1] - self._loop.time()
        if left <= 0:
            # Later replies could not be told from late ones: the whole connection is given up.
            self._lose(CallTimeout())
        else:
            self._watch = self._loop.call_later(left, self._check_deadline)

    def _lose(self, reason: Exception) -> None:
        self.is_lost = True
        self._writable.set()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._transport is not None:
            self._transport.abort()
        while self._pending:
            future, _ = self._pending.popleft()
            if not future.done():
                future.set_exception(reason)

    def close(self) -> None:
        self._lose(ConnectionLost())

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                future, _ = self._pending.popleft()
                if not future.done():
                    future.set_result(reply)
        except (hiredis.ProtocolError, IndexError):
            self._lose(ConnectionLost())

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(ConnectionLost())

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()
