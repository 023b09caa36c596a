"""A private Valkey or Redis."""

import signal
import socket
import subprocess
from pathlib import Path

from worker.embedded.process import spawn
from worker.embedded.server import HOST, Server

_EMPTY = '""'


class RedisServer(Server):
    """Keeps an append-only file when durable, and writes nothing at all otherwise."""

    name = "redis"

    def create(self, program: Path) -> None:
        """Make its directory. Its data is made by itself."""
        self._program = program
        self._directory = self._data.make_directory("redis")

    @property
    def url(self) -> str:
        """Where clients find it, password included."""
        return f"redis://:{self._password}@{HOST}:{self.port}/0"

    def answers(self) -> bool:
        """It takes our password, and its data is loaded."""
        try:
            with socket.create_connection((HOST, self.port), 1) as connection:
                connection.sendall(f"AUTH {self._password}\r\nPING\r\n".encode())
                reply = b""
                while reply.count(b"\r\n") < 2 and (received := connection.recv(256)):
                    reply += received
        except OSError:
            return False
        return reply == b"+OK\r\n+PONG\r\n"

    def _spawn(self) -> subprocess.Popen[bytes]:
        """The settings go through standard input, where no list of processes shows the password."""
        settings = {
            "save": "",
            "appendonly": "yes" if self._is_durable else "no",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
            **self._settings,
            "bind": HOST,
            "port": str(self.port),
            "requirepass": self._password,
        }
        text = "".join(f"{name} {value or _EMPTY}\n" for name, value in settings.items())
        return spawn(
            [str(self._program), "-"],
            self._data,
            directory=self._directory,
            log=self._log,
            text=text,
            end=signal.SIGTERM,
        )

    def _stop_signal(self) -> signal.Signals:
        return signal.SIGTERM
