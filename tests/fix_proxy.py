"""A TCP proxy that makes the faults of a network on demand: slow, stuck, cut, refused, a reply lost."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import TimeoutError as NotInTime
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

import pytest

from worker.embedded.server import free_port

_HOST = "127.0.0.1"
_CHUNK_BYTES = 65536
_CALL_SECONDS = 10
_QUEUED_REPLIES = 64
_DEFAULT_PORTS = {"redis": 6379, "rediss": 6379, "postgresql": 5432, "postgres": 5432}
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Proxy:
    """
    Stands between a client and a server, in a thread of its own: blocking and async tests use it alike.

    A fault is in force when the method that makes it returns.
    """

    def __init__(self, upstream_host: str, upstream_port: int) -> None:
        self.upstream = (upstream_host, upstream_port)
        self.port = 0
        self.reply_delay_ms = 0.0
        self.connections_total = 0
        self.request_bytes_total = 0
        self.reply_bytes_total = 0
        self.released = asyncio.Event()
        self._replies_before_loss = 0  # 0: none is to be lost
        self._connections: dict[asyncio.Task[None], _Connection] = {}
        self._listener: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.release_replies()
        self.accept_new()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse_new()
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_SECONDS)
        self._loop.close()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    @property
    def connections_waiting(self) -> int:
        """How many have sent something since their last reply."""
        return sum(connection.is_waiting for connection in self._connections.values())

    def accept_new(self) -> None:
        """Take new connections, always on the same port."""
        self._wait_for(self._listen())

    def refuse_new(self) -> None:
        """Refuse new connections; open ones go on."""
        self._wait_for(self._stop_listening())

    def hold_replies(self) -> None:
        """Let requests through and keep the replies back."""
        self._wait_for(_do(self.released.clear))

    def release_replies(self) -> None:
        """Deliver the replies that were kept back, and all to come."""
        self._wait_for(_do(self.released.set))

    def drop_next_reply(self, *, after: int = 0) -> None:
        """
        Lose what the server says next, once, and cut that connection: its client cannot know what was done.

        With `after`, so many replies come through before.
        """
        self._replies_before_loss = after + 1

    @property
    def is_reply_to_be_lost(self) -> bool:
        """Whether a reply was to be lost and none came yet."""
        return self._replies_before_loss > 0

    def cut(self) -> None:
        """Reset every connection, on both sides. What is on its way is lost."""
        self._wait_for(self._cut())

    def url(self, original: str) -> str:
        """The same URL, through the proxy."""
        parts = urlsplit(original)
        credentials, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{credentials}{at}{_HOST}:{self.port}"))

    def is_next_reply_lost(self) -> bool:
        """Asked once per reply; true for one."""
        is_lost = self._replies_before_loss == 1
        self._replies_before_loss = max(0, self._replies_before_loss - 1)
        return is_lost

    async def _listen(self) -> None:
        if self._listener is None:
            self.port = self.port or free_port()
            self._listener = await asyncio.start_server(self._serve, _HOST, self.port)

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _cut(self) -> None:
        for connection in self._connections.values():
            connection.reset()
        if tasks := set(self._connections):
            await asyncio.wait(tasks, timeout=_CALL_SECONDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.connections_total += 1
        self._connections[task] = connection = _Connection(self, reader, writer)
        try:
            await connection.run()
        finally:
            del self._connections[task]

    def _wait_for(self, step: Coroutine[Any, Any, None]) -> None:
        try:
            asyncio.run_coroutine_threadsafe(step, self._loop).result(_CALL_SECONDS)
        except NotInTime:
            pytest.fail(f"the proxy did not answer within {_CALL_SECONDS} seconds")


class _Connection:
    """One client and its own connection to the server."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = reader, writer
        self._writers = [writer]
        self._replies: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_QUEUED_REPLIES)
        self.is_waiting = False

    async def run(self) -> None:
        """Carry bytes both ways until one side ends it or a fault does."""
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._proxy.upstream)
        except OSError:
            self.reset()
            return
        self._writers.append(server_writer)
        requests = asyncio.create_task(self._carry_requests(server_writer))
        taking = asyncio.create_task(self._take_replies(server_reader))
        delivery = asyncio.create_task(self._deliver_replies())
        try:
            await asyncio.wait((requests, delivery), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (requests, taking, delivery):
                task.cancel()
            await asyncio.gather(requests, taking, delivery, return_exceptions=True)
            for writer in self._writers:
                writer.close()

    def reset(self) -> None:
        """Close both sides the hard way, as a network does that lost the connection."""
        for writer in self._writers:
            if not writer.is_closing():
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                writer.transport.abort()

    async def _carry_requests(self, server: asyncio.StreamWriter) -> None:
        reader, _ = self._client
        while request := await reader.read(_CHUNK_BYTES):
            self._proxy.request_bytes_total += len(request)
            self.is_waiting = True
            server.write(request)
            await server.drain()

    async def _take_replies(self, server: asyncio.StreamReader) -> None:
        """Note when each reply is due, so that a delay moves replies and does not add up. Nothing marks the end."""
        loop = asyncio.get_running_loop()
        reply = b"-"
        while reply:
            try:
                reply = await server.read(_CHUNK_BYTES)
            except OSError:
                reply = b""  # a server that resets its end has ended too
            await self._replies.put((loop.time() + self._proxy.reply_delay_ms / 1000, reply))

    async def _deliver_replies(self) -> None:
        loop = asyncio.get_running_loop()
        _, writer = self._client
        while True:
            due, reply = await self._replies.get()
            await asyncio.sleep(due - loop.time())
            await self._proxy.released.wait()
            if not reply:
                return
            if self._proxy.is_next_reply_lost():
                self.reset()
                return
            self._proxy.reply_bytes_total += len(reply)
            self.is_waiting = False
            writer.write(reply)
            await writer.drain()


async def _do(step: Callable[[], None]) -> None:
    step()


@pytest.fixture
def proxied() -> Iterator[Callable[[str], Proxy]]:
    """Puts a proxy before the server of a URL; `proxy.url(original)` leads through it."""
    with ExitStack() as stack:

        def start(url: str) -> Proxy:
            parts = urlsplit(url)
            port = parts.port or _DEFAULT_PORTS[parts.scheme]
            return stack.enter_context(Proxy(parts.hostname or _HOST, port))

        yield start
