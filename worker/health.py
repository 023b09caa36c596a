"""
The scrape address: /metrics, /healthz, /readyz and a status page, served by us in the event loop of the worker.

| path     | 200 when                                                                                          |
|----------|---------------------------------------------------------------------------------------------------|
| /metrics | always                                                                                            |
| /healthz | arq's main loop was seen within LATEST_BEAT_SECONDS; a blocked loop does not answer at all        |
| /readyz  | both tiers answer within READY_SECONDS                                                            |
| /        | always: the status page (`page.py`)                                                               |
"""

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from saver.connect import Tiers
from saver.errors import ConfigError, TierError
from worker import metrics, page
from worker.config import WorkerConfig
from worker.queue import QueueRedis

READY_SECONDS = 3.0
REQUEST_SECONDS = 10.0
MOST_PORTS = 100  # tried before the scrape address is given up

_PLAIN = "text/plain; charset=utf-8"

log = logging.getLogger(__name__)
Answer = tuple[HTTPStatus, str, bytes]
Route = Callable[[], Awaitable[Answer]]


class Probes:
    """The answers, from the state of this process and of the tiers."""

    def __init__(self, tiers: Tiers, queue: QueueRedis) -> None:
        self._tiers = tiers
        self._queue = queue

    @property
    def routes(self) -> dict[str, Route]:
        return {"/metrics": self.metrics, "/healthz": self.healthz, "/readyz": self.readyz, "/": self.page}

    async def metrics(self) -> Answer:
        """All metrics, those of the system brought up to date first."""
        await metrics.refresh(self._tiers)
        return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest()

    async def page(self) -> Answer:
        """The status page, from the same numbers."""
        await metrics.refresh(self._tiers)
        return HTTPStatus.OK, page.KIND, page.drawn()

    async def healthz(self) -> Answer:
        """Whether arq's main loop is alive."""
        is_alive, age = self._queue.is_alive, self._queue.silence_seconds
        text = f"{'ok' if is_alive else 'stuck'}: the main loop was seen {age:.0f} s ago\n"
        return _status(is_alive), _PLAIN, text.encode()

    async def readyz(self) -> Answer:
        """Whether both tiers answer."""
        hot, cold = await asyncio.gather(
            self._answers(self._tiers.hot.everywhere("PING")), self._answers(self._tiers.cold.fetch("answers", {}))
        )
        return _status(not (hot or cold)), _PLAIN, f"hot: {hot or 'ok'}\ncold: {cold or 'ok'}\n".encode()

    async def _answers(self, question: Awaitable[object]) -> str | None:
        """None, or in one sentence why a tier does not answer."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                await question
        except TimeoutError:
            return f"no answer within {READY_SECONDS:g} s"
        except TierError as error:
            return str(error)
        return None


@asynccontextmanager
async def serve(config: WorkerConfig, routes: dict[str, Route]) -> AsyncIterator[int | None]:
    """Serve on TIER_METRICS_HOST and TIER_METRICS_PORT or the next free port. Yields the port, None when off."""
    if config.metrics_port is None:
        yield None
        return

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await _answer(reader, writer, routes)
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError) as error:
            log.debug("request dropped", extra={"reason": type(error).__name__})
        finally:
            writer.close()

    server = await _listen(handle, config.metrics_host, config.metrics_port)
    port: int = server.sockets[0].getsockname()[1]
    log.info("metrics are served", extra={"host": config.metrics_host, "port": port})
    try:
        yield port
    finally:
        server.close()


async def _listen(
    handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], host: str, port: int
) -> asyncio.Server:
    last = min(port + MOST_PORTS, 65_535)
    for candidate in range(port, last + 1):
        try:
            return await asyncio.start_server(handle, host, candidate)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and candidate < last:
                continue
            reason = errno.errorcode.get(error.errno or 0, type(error).__name__)
            raise ConfigError(
                f"metrics cannot be served on port {candidate} of TIER_METRICS_HOST={host} ({reason}): "
                "choose another TIER_METRICS_HOST or TIER_METRICS_PORT, or off"
            ) from error
    raise AssertionError


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, routes: dict[str, Route]) -> None:
    request = await reader.readuntil(b"\r\n")
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # the headers change nothing
    method, path, *_ = request.decode("latin-1").split(" ")
    route = routes.get(path.partition("?")[0])
    if method not in ("GET", "HEAD"):
        status, kind, body = HTTPStatus.METHOD_NOT_ALLOWED, _PLAIN, b"GET only\n"
    elif route is None:
        status, kind, body = HTTPStatus.NOT_FOUND, _PLAIN, f"try {', '.join(routes)}\n".encode()
    else:
        status, kind, body = await route()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + (b"" if method == "HEAD" else body))
    await writer.drain()


def _status(is_good: bool) -> HTTPStatus:
    return HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE
