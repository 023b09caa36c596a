"""A worker that cannot start says why, once, in words, and soon."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from saver import TierConfig
from saver.config import environment_for
from saver.connect import connect
from tests.fix_servers import StartServers
from tests.fix_worker import ARQ, StartWorker, variables_of
from tests.waiting import eventually


def run_worker(variables: dict[str, str], directory: Path) -> tuple[int, str, float]:
    """Exit code, output, seconds."""
    started = time.monotonic()
    done = subprocess.run(
        [ARQ, "worker.Settings"],
        env=environment_for(variables),
        cwd=directory,
        check=False,
        timeout=30,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr, time.monotonic() - started


def test_all_faults_are_in_one_report(tmp_path: Path) -> None:
    variables = {
        "TIER_POSTGRES_URL": "postgres//user:hunter2@db/tiers",
        "TIER_DEMOTE_AFTER": "6 hours",
        "TIER_RETAIN_FOR": "0",
        "TIER_WORKER_JOBS": "none",
        "TIER_DEMOTE_AFTR": "1h",
    }

    code, output, seconds = run_worker(variables, tmp_path)

    assert (code, seconds < 5) == (1, True)
    report = next(line for line in output.splitlines() if "cannot start" in line)
    for name in ("TIER_REDIS_URL", "TIER_POSTGRES_URL", "TIER_DEMOTE_AFTER", "TIER_RETAIN_FOR", "TIER_WORKER_JOBS"):
        assert name in report
    assert "TIER_DEMOTE_AFTR" in output
    assert "hunter2" not in output
    assert "Traceback" not in output


@pytest.mark.parametrize("missing", ["TIER_REDIS_URL", "TIER_POSTGRES_URL"])
def test_nothing_is_asked_of_this_machine_instead(config: TierConfig, tmp_path: Path, missing: str) -> None:
    variables = variables_of(config)
    del variables[missing]

    code, output, _ = run_worker(variables, tmp_path)

    assert code == 1
    assert f"{missing} is not set" in output
    assert "localhost" not in output


def test_redis_that_does_not_answer_is_named(config: TierConfig, tmp_path: Path) -> None:
    variables = variables_of(config) | {"TIER_REDIS_URL": "redis://:hunter2@127.0.0.1:1/0"}

    code, output, seconds = run_worker(variables, tmp_path)

    assert (code, seconds < 10) == (1, True)
    assert "TIER_REDIS_URL" in output
    assert "hunter2" not in output
    assert "Traceback" not in output


def test_postgres_that_does_not_answer_is_named(config: TierConfig, tmp_path: Path) -> None:
    variables = variables_of(config, postgres_timeout="1s") | {
        "TIER_POSTGRES_URL": "postgresql://me:hunter2@127.0.0.1:1/db"
    }

    code, output, seconds = run_worker(variables, tmp_path)

    assert (code, seconds < 10) == (1, True)
    assert "Postgres" in output
    assert "hunter2" not in output
    assert "Traceback" not in output


async def test_another_number_of_partitions_is_refused(config: TierConfig, tmp_path: Path) -> None:
    async with connect(config):
        pass

    code, output, _ = run_worker(variables_of(config) | {"TIER_PARTITIONS": "5"}, tmp_path)

    assert code == 1
    assert "TIER_PARTITIONS=4" in output
    assert "Traceback" not in output


def test_scrape_address_of_another_machine_is_refused(config: TierConfig, tmp_path: Path) -> None:
    code, output, _ = run_worker(variables_of(config, metrics_host="192.0.2.1"), tmp_path)

    assert code == 1
    assert "TIER_METRICS_HOST" in output
    assert "Traceback" not in output


def test_redis_that_evicts_is_warned_of_loudly(
    start_worker: StartWorker, private_servers: StartServers, config: TierConfig
) -> None:
    servers = private_servers(redis_settings={"maxmemory-policy": "allkeys-lru"})

    worker = start_worker(redis_url=servers.redis_url).ready()

    lines = [json.loads(line) for line in worker.log.splitlines()]
    [warning] = [line for line in lines if "maxmemory_policy" in line]
    assert (warning["level"], warning["maxmemory_policy"]) == ("critical", "allkeys-lru")


def test_worker_starts_in_any_directory_and_stops_cleanly(start_worker: StartWorker) -> None:
    worker = start_worker().ready()

    eventually(lambda: worker.metrics()["tier_job_seconds_count{job=sweep}"] >= 2)

    assert worker.stop() == 0
    assert "Traceback" not in worker.log
