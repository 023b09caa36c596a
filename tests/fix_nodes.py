"""Servers one by one, with settings of the test's own: nodes of a cluster, replicas, Sentinels, servers with TLS."""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Protocol
from urllib.parse import quote

import psycopg
import pytest
import redis

from tests.waiting import eventually
from worker.embedded.programs import find_postgres, find_redis
from worker.embedded.server import free_port

HOST = "127.0.0.1"
_EMPTY = '""'


class RedisNode:
    """One Redis or Valkey. It keeps its port and its directory over restarts."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, object],
        *,
        password: str | None = None,
        program: Path | None = None,
        is_tls: bool = False,
    ) -> None:
        directory.mkdir(parents=True)
        self.port = free_port()
        self.password = password or secrets.token_hex(8)
        self.directory = directory
        self._is_tls = is_tls
        self._program = program or find_redis()
        ports = {"port": "0", "tls-port": self.port} if is_tls else {"port": self.port}
        secret = {"requirepass": self.password, "masterauth": self.password}
        self._settings: dict[str, object] = {"bind": HOST, "dir": directory, "save": "", **secret, **ports, **settings}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> None:
        """Start it, again if it was killed, and wait until it answers."""
        path = self.directory / "redis.conf"
        if not path.exists():  # Sentinels and nodes of a cluster write into it
            path.write_text(
                "".join(f"{name} {_EMPTY if value == '' else value}\n" for name, value in self._settings.items())
            )
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen([self._program, path, *arguments], stdout=log, stderr=log)
        eventually(self.answers)

    def answers(self) -> bool:
        try:
            return bool(self.do("PING"))
        except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
            return False

    def do(self, *command: object) -> Any:
        """One command as its owner."""
        scheme, options = ("rediss", "?ssl_cert_reqs=none") if self._is_tls else ("redis", "")
        url = f"{scheme}://:{self.password}@{HOST}:{self.port}{options}"
        with redis.Redis.from_url(url, socket_timeout=5) as client:
            return client.execute_command(*command)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def freeze(self) -> None:
        """It neither answers nor closes its connections."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on as if nothing had been."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


class StartNode(Protocol):
    """Makes and starts a Redis with these settings; it ends with the test."""

    def __call__(self, settings: Mapping[str, object], *arguments: str, **options: Any) -> RedisNode: ...


@contextmanager
def nodes_below(folder: Path) -> Iterator[StartNode]:
    """Starts nodes, each in a directory of its own; they end with the block."""
    with ExitStack() as stack:

        def start(settings: Mapping[str, object], *arguments: str, **options: Any) -> RedisNode:
            node = RedisNode(folder / f"node-{secrets.token_hex(3)}", settings, **options)
            stack.callback(node.kill)
            node.start(*arguments)
            return node

        yield start


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[StartNode]:
    with nodes_below(tmp_path) as start:
        yield start


class PostgresNode:
    """One Postgres in a directory of its own, run as `nobody` when root runs the tests."""

    def __init__(self, bin_dir: Path | None = None) -> None:
        self.bin_dir = bin_dir or find_postgres()
        self.port = free_port()
        self.password = secrets.token_hex(8)
        self.directory = Path(mkdtemp(prefix="postgres-"))
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self.give(self.directory)
        self.data = self.directory / "data"
        self.process: subprocess.Popen[bytes] | None = None

    def give(self, path: Path) -> None:
        """Let the server read what the test made."""
        if self._as:
            os.chown(path, self._as["user"], self._as["group"])

    def file(self, name: str, text: str) -> Path:
        """A file that only the server may read."""
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o600)
        self.give(path)
        return path

    def make(self) -> None:
        """Make an empty one."""
        secret = self.file("secret", self.password)
        self.run(
            "initdb", "-U", "postgres", "-A", "scram-sha-256", "--no-sync", f"--pwfile={secret}", "-D", str(self.data)
        )

    def copy(self, url: str) -> None:
        """Make a replica of a server that allows it."""
        self.run("pg_basebackup", "-D", str(self.data), "-R", "-X", "stream", "-c", "fast", "-d", url)

    def run(self, program: str, *arguments: str) -> None:
        command = [str(self.bin_dir / program), *arguments]
        subprocess.run(command, check=True, cwd=self.directory, stdout=subprocess.DEVNULL, **self._as)

    def start(self, **settings: object) -> None:
        """Start it, and wait until it answers."""
        wanted = {
            "listen_addresses": HOST,
            "port": self.port,
            "unix_socket_directories": "",
            "fsync": "off",
            **settings,
        }
        options = [part for name, value in wanted.items() for part in ("-c", f"{name}={value}")]
        with (self.directory / "log").open("ab") as log:
            command = [str(self.bin_dir / "postgres"), "-D", str(self.data), *options]
            self.process = subprocess.Popen(command, cwd=self.directory, stdout=log, stderr=log, **self._as)
        eventually(self.answers, within_seconds=30)

    @property
    def url(self) -> str:
        return f"postgresql://postgres:{quote(self.password)}@{HOST}:{self.port}/postgres"

    def answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """A fast shutdown."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(20)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


@cache
def program_with_tls() -> Path | None:
    """A Redis or Valkey that was built with TLS; the one from the wheel was not."""
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            options = [found, "--port", "0", "--tls-port", "1", "--tls-cert-file", "/dev/null"]
            said = subprocess.run(options, capture_output=True, text=True, timeout=10, check=False)
            if "missing implement" not in (said.stdout + said.stderr).lower():
                return Path(found)
    return None
