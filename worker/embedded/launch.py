"""The caller's side: start the supervisor, learn where the servers are, and let go."""

import json
import os
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from worker.embedded.errors import EmbeddedError
from worker.embedded.programs import find_postgres, find_redis

# Servers stop within ten seconds or are killed; both are stopped one after the other.
_CLOSE_SECONDS = 30
_GRACE_SECONDS = 5
_START = "import sys; sys.path.append(sys.argv[1]); from worker.embedded.supervisor import main; sys.exit(main())"


class Embedded:
    """
    A private Redis and a private Postgres, for as long as this object is open and this process lives.

    Without a data directory everything is temporary and nothing is synced to disk. With one, or with `durable`, Redis
    keeps an append-only file and Postgres syncs; the directory and its password stay for the next start.
    Settings are those of redis.conf and postgresql.conf; address, port and password are chosen here.
    """

    redis_url: str
    postgres_url: str
    redis_pid: int
    postgres_pid: int
    redis_port: int
    postgres_port: int
    redis_bin: Path
    postgres_bin: Path
    data_dir: Path

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        durable: bool | None = None,
        redis_settings: Mapping[str, object] | None = None,
        postgres_settings: Mapping[str, object] | None = None,
        timeout_seconds: float = 60,
    ) -> None:
        self._wanted_dir = Path(data_dir).expanduser().absolute() if data_dir is not None else None
        self._is_durable = self._wanted_dir is not None if durable is None else durable
        self._redis_settings = {name: str(value) for name, value in (redis_settings or {}).items()}
        self._postgres_settings = {name: str(value) for name, value in (postgres_settings or {}).items()}
        self._timeout_seconds = timeout_seconds
        self._supervisor: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start both servers and wait until they answer. Raises EmbeddedError."""
        if self._supervisor is not None:
            raise EmbeddedError("these servers run already; make another Embedded for more")
        options = {
            "data_dir": str(self._wanted_dir) if self._wanted_dir else None,
            "durable": self._is_durable,
            "redis_settings": self._redis_settings,
            "postgres_settings": self._postgres_settings,
            "timeout_seconds": self._timeout_seconds,
            "redis_bin": str(find_redis()),
            "postgres_bin": str(find_postgres()),
            "caller_pid": os.getpid(),
        }
        # The path is for a package that is not installed; -P keeps a `worker.py` of the working directory out.
        # A session of its own, so that Ctrl-C reaches this process alone, which may still need the servers.
        self._supervisor = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, str(Path(__file__).parents[2])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self._learn(self._ask(options))
        except BaseException:
            self.close()
            raise
        return self

    def restart(self, server: Literal["redis", "postgres"]) -> None:
        """
        Stop one server if it still runs, and start it again on the same port and the same data.

        Whoever tests faults kills it by its pid first. A Redis that is not durable comes back empty.
        """
        self._learn(self._ask({"restart": server}))

    def wait(self) -> None:
        """Block until the supervisor ends, which it does only when it is killed or closed."""
        if self._supervisor is not None:
            self._supervisor.wait()

    def close(self) -> None:
        """Stop both servers and remove a temporary data directory. Does nothing when closed already."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is None:
            return
        for pipe in (supervisor.stdin, supervisor.stdout):
            if pipe is not None:
                pipe.close()
        # A fork of this process may hold the pipe open.
        supervisor.terminate()
        try:
            supervisor.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            supervisor.kill()
            supervisor.wait()
        if self._wanted_dir is None and supervisor.returncode < 0 and hasattr(self, "data_dir"):
            # It was killed, so it could not do this itself.
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        supervisor = self._supervisor
        if supervisor is None or supervisor.stdin is None or supervisor.stdout is None:
            raise EmbeddedError("these servers do not run; open them first: with Embedded() as servers")
        try:
            supervisor.stdin.write(json.dumps(message).encode() + b"\n")
            supervisor.stdin.flush()
        except BrokenPipeError:
            pass  # Its answer, or the lack of one, says why.
        answer: dict[str, Any] = json.loads(self._read_line(supervisor.stdout.fileno()) or "{}")
        if not answer:
            raise EmbeddedError(f"the supervisor, pid {supervisor.pid}, ended without an answer; try again")
        if "error" in answer:
            raise EmbeddedError(answer["error"])
        return answer

    def _read_line(self, descriptor: int) -> bytes:
        """One line, or nothing when the supervisor ended. It keeps the time itself; this is the limit if it hangs."""
        deadline = time.monotonic() + self._timeout_seconds + _GRACE_SECONDS
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise EmbeddedError(f"the servers did not start within {self._timeout_seconds:g} seconds")
                received = os.read(descriptor, 65536)
                if not received:
                    return b""
                line += received
        return line

    def _learn(self, facts: dict[str, Any]) -> None:
        self.redis_url, self.postgres_url = facts["redis_url"], facts["postgres_url"]
        self.redis_pid, self.postgres_pid = facts["redis_pid"], facts["postgres_pid"]
        self.redis_port, self.postgres_port = facts["redis_port"], facts["postgres_port"]
        self.redis_bin, self.postgres_bin = Path(facts["redis_bin"]), Path(facts["postgres_bin"])
        self.data_dir = Path(facts["data_dir"])
