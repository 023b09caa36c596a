"""What both servers have in common: start on a free port, answer, stop."""

import secrets
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from worker.embedded.data import DataDirectory
from worker.embedded.errors import EmbeddedError
from worker.embedded.lifeline import Lifeline

HOST = "127.0.0.1"
# Below the ports that the system hands to outgoing connections. A client that tries again and again to reach a server
# that is down could be given the very port it tries, connect to itself, and keep the server from coming back.
_PORTS = range(15_000, 30_000)
# Said when a port was lost to a race, or when the children of a killed Postgres are not gone yet.
_WORTH_ANOTHER_TRY = ("already in use", "still in use")
_STOP_SECONDS = 10


def free_port() -> int:
    """A port nobody listens on just now. Another process can still take it: the start is tried again then."""
    while True:
        port = secrets.choice(_PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        return port


class Server(ABC):
    """A server that can be started again and again, on one port and the same data."""

    name: ClassVar[str]

    def __init__(self, data: DataDirectory, settings: Mapping[str, str], password: str, *, is_durable: bool) -> None:
        self.port = 0
        self._data = data
        self._settings = settings
        self._password = password
        self._is_durable = is_durable
        self._process: subprocess.Popen[bytes] | None = None
        self._log = data.make_file(f"{self.name}.log")

    @property
    def pid(self) -> int:
        """The process id, 0 before the first start."""
        return self._process.pid if self._process else 0

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self, lifeline: Lifeline, deadline: float) -> None:
        """Start, and wait until it answers. Clients know the port after the first start: from then on it stays."""
        is_first = self.port == 0
        while True:
            if is_first:
                self.port = free_port()
            log_start = self._log.stat().st_size
            self._process = self._spawn()
            lifeline.wait_for(lambda: not self.is_alive or self.answers(), f"starting {self.name}", deadline)
            if self.is_alive:
                return
            self._check_another_try(self._said_since(log_start), deadline)
            lifeline.pause(0.1)

    def stop(self) -> None:
        """End the process, politely at first. Does nothing when it is gone already."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(self._stop_signal())
        # Somebody may have frozen it.
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @abstractmethod
    def answers(self) -> bool:
        """Whether this very process serves clients."""

    @abstractmethod
    def _spawn(self) -> subprocess.Popen[bytes]:
        """Start the program on `self.port`."""

    @abstractmethod
    def _stop_signal(self) -> signal.Signals:
        """What ends it without loss."""

    def _check_another_try(self, said: str, deadline: float) -> None:
        is_worth_it = any(words in said for words in _WORTH_ANOTHER_TRY)
        if not is_worth_it or time.monotonic() > deadline:
            raise EmbeddedError(f"{self.name} did not start; its log says:\n{said}")

    def _said_since(self, start: int) -> str:
        return self._log.read_bytes()[start:].decode(errors="replace")[-2000:].strip()
