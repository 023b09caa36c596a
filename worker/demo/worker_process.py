"""The one worker of the demo: a real `arq worker.Settings`, in a process of its own."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

from saver.config import environment_for
from saver.errors import TierError

HOST = "127.0.0.1"
_READY_SECONDS = 40.0
_STOP_SECONDS = 25.0
_LOG_LINES = 15


class WorkerProcess:
    """Started and ready on entering, stopped on leaving. It ends by itself soon after its Redis is gone."""

    def __init__(self, variables: Mapping[str, str], log: Path) -> None:
        self._port = _free_port()
        self._log = log
        self._environment = environment_for(
            {**variables, "TIER_METRICS_HOST": HOST, "TIER_METRICS_PORT": str(self._port)}
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where its metrics are."""
        return f"http://{HOST}:{self._port}/metrics"

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def __enter__(self) -> Self:
        with self._log.open("wb") as output:
            # A session of its own: Ctrl-C reaches only this process, which stops the worker when the agents are done.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "arq", "worker.Settings"],
                env=self._environment,
                cwd=self._log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._await_ready()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def metrics(self) -> dict[str, float]:
        """Every metric without labels, and the sum of those with them; empty while it does not answer."""
        try:
            with urllib.request.urlopen(self.url, timeout=2) as answer:  # noqa: S310 - our own address
                text = answer.read().decode()
        except OSError:
            return {}
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found[sample.name] = found.get(sample.name, 0.0) + sample.value
        return found

    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:])

    def _await_ready(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while not self._is_ready():
            if self.has_ended or time.monotonic() > deadline:
                raise TierError(f"the worker did not become ready; its log ends with:\n{self.last_words()}")
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(self.url.replace("/metrics", "/readyz"), timeout=2) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except OSError:
            return False

    def _stop(self) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
