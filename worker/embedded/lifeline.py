"""The supervisor's tie to the process that wants the servers: when that process is gone, everything ends."""

import json
import os
import select
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from worker.embedded.errors import EmbeddedError

# How soon the end of the caller is noticed when a fork of it holds the pipe open.
_LOOK_AT_PARENT_SECONDS = 0.2


class CallerGone(Exception):  # noqa: N818 - the fact, not a fault
    """Nobody wants the servers any more: the pipe was closed, the caller died, or a signal asked for the end."""


class Lifeline:
    """
    Standard input, a pipe whose other end only the caller holds.

    It carries one JSON object per line. Every wait of the supervisor goes through `pause`, so that the end of the
    caller is noticed at any line, also half way through a start.
    """

    def __init__(self) -> None:
        self._parent_pid = os.getppid()
        self._received = b""
        self._is_stopped = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)

    def receive(self) -> dict[str, Any]:
        """The next object the caller sends."""
        while b"\n" not in self._received:
            self.pause(_LOOK_AT_PARENT_SECONDS)
        line, _, self._received = self._received.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def send(self, message: dict[str, Any]) -> None:
        """Answer the caller. A caller that died meanwhile is noticed at the next pause."""
        try:
            os.write(1, json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise CallerGone from error

    def pause(self, seconds: float) -> None:
        """Wait that long, or less when the caller sends something. Raises CallerGone."""
        readable, _, _ = select.select([0], [], [], min(seconds, _LOOK_AT_PARENT_SECONDS))
        if readable:
            received = os.read(0, 65536)
            if not received:
                raise CallerGone
            self._received += received
        if self._is_stopped or os.getppid() != self._parent_pid:
            raise CallerGone

    def wait_for(self, is_done: Callable[[], bool], what: str, deadline: float) -> None:
        """Wait for a condition, until the deadline of `time.monotonic`."""
        while not is_done():
            if time.monotonic() > deadline:
                raise EmbeddedError(f"{what} took too long; give it more timeout_seconds, or look for a busy disk")
            self.pause(0.01)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._is_stopped = True
