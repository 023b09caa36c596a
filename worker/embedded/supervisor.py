"""
The process that owns both servers, and ends them when its caller is gone.

It speaks JSON lines: the caller sends the options and later commands, it answers each with facts or with an error.
"""

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from worker.embedded.account import usable_programs
from worker.embedded.data import open_data
from worker.embedded.errors import EmbeddedError
from worker.embedded.lifeline import CallerGone, Lifeline
from worker.embedded.postgres_server import PostgresServer
from worker.embedded.redis_server import RedisServer


class Supervisor:
    """Both servers, their data directory, and the way to the caller."""

    def __init__(self, lifeline: Lifeline, options: dict[str, Any]) -> None:
        self._lifeline = lifeline
        self._options = options

    def run(self) -> None:
        """Start, serve until the caller is gone, stop everything."""
        with ExitStack() as stack:
            self._start(stack)
            self._lifeline.send(self._facts())
            while True:
                self._obey(self._lifeline.receive())

    def _start(self, stack: ExitStack) -> None:
        options, deadline = self._options, self._deadline()
        path = options["data_dir"]
        data = stack.enter_context(
            open_data(Path(path) if path else None, self._lifeline, options["caller_pid"], deadline)
        )
        # What is made inside holds data and a password.
        os.umask(0o077)
        self._data_dir = data.path
        self._postgres_bin, self._redis_bin = usable_programs(
            data.account, Path(options["postgres_bin"]), Path(options["redis_bin"]), data.path / "programs"
        )
        password, is_durable = data.secret(), options["durable"]
        self._redis = RedisServer(data, options["redis_settings"], password, is_durable=is_durable)
        self._postgres = PostgresServer(data, options["postgres_settings"], password, is_durable=is_durable)
        stack.callback(self._redis.stop)
        stack.callback(self._postgres.stop)
        self._redis.create(self._redis_bin)
        self._redis.start(self._lifeline, deadline)
        self._postgres.create(self._postgres_bin, self._lifeline, deadline)
        self._postgres.start(self._lifeline, deadline)

    def _facts(self) -> dict[str, Any]:
        return {
            "redis_url": self._redis.url,
            "postgres_url": self._postgres.url,
            "redis_pid": self._redis.pid,
            "postgres_pid": self._postgres.pid,
            "redis_port": self._redis.port,
            "postgres_port": self._postgres.port,
            "redis_bin": str(self._redis_bin),
            "postgres_bin": str(self._postgres_bin),
            "data_dir": str(self._data_dir),
        }

    def _obey(self, command: dict[str, Any]) -> None:
        server = self._redis if command["restart"] == "redis" else self._postgres
        try:
            server.stop()
            server.start(self._lifeline, self._deadline())
        except EmbeddedError as error:
            self._lifeline.send({"error": str(error)})
        else:
            self._lifeline.send(self._facts())

    def _deadline(self) -> float:
        return time.monotonic() + float(self._options["timeout_seconds"])


def main() -> int:
    """Run until the caller is gone; 1 when the servers could not be started."""
    lifeline = Lifeline()
    try:
        Supervisor(lifeline, lifeline.receive()).run()
    except CallerGone:
        return 0
    except (EmbeddedError, OSError) as error:
        # Nobody may be there to read it.
        try:
            lifeline.send({"error": str(error)})
        except CallerGone:
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
