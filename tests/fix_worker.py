"""Worker processes: the real command, with a configuration of the test's own."""

import asyncio
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest
from prometheus_client.parser import text_string_to_metric_families

from saver import TierConfig
from saver.config import environment_for
from tests.waiting import eventually, eventually_async
from worker.embedded.server import free_port

ARQ = str(Path(sys.executable).with_name("arq"))
STOP_SECONDS = 25.0


class Worker:
    """`arq worker.Settings` in a directory of its own."""

    def __init__(self, variables: dict[str, str], directory: Path, settings: str = "worker.Settings") -> None:
        self.port = free_port()
        self._settings = settings
        self._log = directory / f"worker-{self.port}.log"
        self._directory = directory
        self._environment = environment_for({"TIER_METRICS_PORT": str(self.port), **variables})
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it is not ready yet."""
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                [ARQ, self._settings], env=self._environment, cwd=self._directory, stdout=output, stderr=output
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def ready(self) -> Self:
        """Wait until both tiers answer it."""
        eventually(lambda: self.ended or self.get("/readyz")[0] == 200, within_seconds=30)
        assert not self.ended, self.log
        return self

    @property
    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def wait(self, seconds: float) -> int:
        """Its exit code."""
        assert self.process is not None
        return self.process.wait(seconds)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.wait(STOP_SECONDS)

    def kill(self) -> None:
        """SIGKILL, unless it has ended."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    def get(self, path: str) -> tuple[int, str]:
        """Status and body, or 0 while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metrics(self) -> dict[str, float]:
        """Each sample by name, with its labels as they are written: `tier_up{tier=hot}`."""
        found = {}
        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for sample in family.samples:
                labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
                found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
        return found


StartWorker = Callable[..., Worker]


def variables_of(config: TierConfig, **more: str) -> dict[str, str]:
    """The environment that makes this configuration; `archive_after="1s"` sets TIER_ARCHIVE_AFTER."""
    return {
        "TIER_REDIS_URL": config.redis_url.get_secret_value(),
        "TIER_POSTGRES_URL": config.postgres_url.get_secret_value(),
        "TIER_KEY_PREFIX": config.key_prefix,
        "TIER_POSTGRES_SCHEMA": config.postgres_schema,
        "TIER_PARTITIONS": str(config.partitions),
        **{f"TIER_{name.upper()}": value for name, value in more.items()},
    }


async def has(worker: Worker, names: str | list[str], least: float) -> bool:
    """Whether a metric, or the sum of some, is so large."""
    metrics = await asyncio.to_thread(worker.metrics)
    return sum(metrics.get(name, 0) for name in ([names] if isinstance(names, str) else names)) >= least


async def sweeps(worker: Worker, count: int) -> None:
    """Wait until so many sweeps more have looked."""
    name = "tier_job_seconds_count{job=sweep}"
    before = (await asyncio.to_thread(worker.metrics))[name]
    await eventually_async(lambda: has(worker, name, before + count), within_seconds=20)


@pytest.fixture
def start_worker(config: TierConfig, tmp_path: Path) -> Iterator[StartWorker]:
    """A function that starts a worker for `config`, with more variables; what still runs is killed with the test."""
    with ExitStack() as stack:

        def start(settings: str = "worker.Settings", **more: str) -> Worker:
            worker = Worker(variables_of(config, **more), tmp_path, settings)
            worker.start()
            stack.callback(worker.kill)
            return worker

        yield start
