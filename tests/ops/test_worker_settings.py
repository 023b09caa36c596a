"""What arq makes of `worker.Settings`: nothing of it is dropped in silence."""

import inspect
import os
import ssl
import subprocess
import sys
from datetime import UTC
from pathlib import Path

import pytest
from arq.worker import Worker, create_worker, get_kwargs

from saver import TierConfig
from tests.fix_worker import variables_of
from worker.queue import open_queue, packed, redis_settings, unpacked
from worker.settings import make_settings


@pytest.fixture
def environment(config: TierConfig, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The variables of `config`, and of the test."""
    for name, value in variables_of(config, worker_jobs="7").items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def ours(settings: type) -> dict[str, object]:
    return {name: value for name, value in vars(settings).items() if not name.startswith("__")}


def test_arq_knows_every_setting(environment: pytest.MonkeyPatch) -> None:
    settings = make_settings()

    assert set(ours(settings)) == set(get_kwargs(settings))
    assert set(ours(settings)) <= set(inspect.signature(Worker).parameters)


async def test_settings_take_effect(environment: pytest.MonkeyPatch, config: TierConfig) -> None:
    worker = create_worker(make_settings(), handle_signals=False)

    assert {
        "queue": worker.queue_name,
        "jobs": worker.max_jobs,
        "tries": worker.max_tries,
        "timeout": worker.job_timeout_s,
        "blocked after a kill": worker.in_progress_timeout_s,
        "kept": worker.keep_result_s,
        "poll": worker.poll_delay_s,
        "read": worker.queue_read_limit,
        "wait": worker._job_completion_wait,
        "health": worker.health_check_interval,
        "abort": worker.allow_abort_jobs,
        "results": worker.log_results,
        "timezone": worker.timezone,
        "packing": (worker.job_serializer, worker.job_deserializer),
    } == {
        "queue": f"{config.key_prefix}:queue",
        "jobs": 7,
        "tries": 1000,
        "timeout": 30,
        "blocked after a kill": 40,
        "kept": 0,
        "poll": 0.1,
        "read": 1000,
        "wait": 20,
        "health": 15,
        "abort": False,
        "results": False,
        "timezone": UTC,
        "packing": (packed, unpacked),
    }
    assert {"archive", "demote", "promote", "retain", "sweep"} <= set(worker.functions)


@pytest.mark.parametrize(
    ("archive_after", "ticks"), [("100ms", 60), ("5s", 60), ("8s", 30), ("20s", 12), ("1m", 12), ("10m", 12)]
)
def test_sweep_follows_the_time_to_archive(environment: pytest.MonkeyPatch, archive_after: str, ticks: int) -> None:
    environment.setenv("TIER_ARCHIVE_AFTER", archive_after)
    environment.setenv("TIER_DEMOTE_AFTER", "1h")

    sweep, _ = vars(make_settings())["cron_jobs"]

    assert len(sweep.second) == ticks
    assert (sweep.unique, sweep.keep_result_s) == (True, 120)


@pytest.mark.parametrize(
    ("retain_for", "at", "hour", "minute", "second"),
    [
        ("90d", "03:00", 3, 0, 0),
        ("90d", "23:59", 23, 59, 0),
        ("90d", "hourly", None, 0, 0),
        ("off", "03:00", 3, 0, 0),
        ("2s", "03:00", None, None, set(range(60))),
        ("30m", "03:00", None, None, {0}),
    ],
)
def test_retention_is_scheduled(
    environment: pytest.MonkeyPatch, retain_for: str, at: str, hour: int | None, minute: int | None, second: object
) -> None:
    environment.setenv("TIER_RETAIN_FOR", retain_for)
    environment.setenv("TIER_RETENTION_AT", at)

    _, retain = vars(make_settings())["cron_jobs"]

    assert (retain.hour, retain.minute, retain.second) == (hour, minute, second)


def test_names_of_ticks_are_not_shared_by_two_systems_on_one_redis(environment: pytest.MonkeyPatch) -> None:
    names = [[tick.name for tick in vars(make_settings())["cron_jobs"]]]
    environment.setenv("TIER_KEY_PREFIX", "another")
    names.append([tick.name for tick in vars(make_settings())["cron_jobs"]])

    assert names[0] != names[1]


def queue_config(url: str) -> TierConfig:
    return TierConfig(redis_url="redis://hot", postgres_url="postgresql://db/tiers", queue_url=url)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://user:p%40ss%2F@queue:6400/3", {"host": "queue", "port": 6400, "db": 3, "password": "p@ss/"}),
        ("unix:///run/redis.sock?db=2", {"path": "/run/redis.sock", "db": 2}),
    ],
)
def test_queue_address_is_read_as_it_is_meant(url: str, expected: dict[str, object]) -> None:
    pool = open_queue(queue_config(url)).connection_pool
    settings = redis_settings(queue_config(url))

    assert expected.items() <= pool.connection_kwargs.items()
    assert settings.password == expected.get("password")
    assert settings.database == expected["db"]
    assert settings.unix_socket_path == expected.get("path")


def test_certificate_of_the_queue_is_checked_with_its_host_name() -> None:
    config = queue_config("rediss://:secret@queue:6400/0")

    connection = open_queue(config).connection_pool.make_connection()  # type: ignore[no-untyped-call]
    settings = redis_settings(config)

    assert connection.ssl_context.check_hostname
    assert connection.ssl_context.cert_reqs is ssl.CERT_REQUIRED
    assert (settings.ssl, settings.ssl_check_hostname, settings.ssl_cert_reqs) == (True, True, "required")


def test_queue_behind_sentinels_is_read_as_it_is_meant() -> None:
    config = queue_config("rediss+sentinel://:p%40ss@one,two:26380/main/3?sentinel_password=other")

    connection = open_queue(config).connection_pool.make_connection()  # type: ignore[no-untyped-call]
    settings = redis_settings(config)

    assert (connection.password, connection.db, connection.ssl_context.check_hostname) == ("p@ss", 3, True)
    assert settings.host == [("one", 26379), ("two", 26380)]
    assert (settings.sentinel, settings.sentinel_master, settings.password, settings.ssl) == (
        True,
        "main",
        "p@ss",
        True,
    )


def test_import_of_the_package_asks_for_nothing(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIER_")}

    done = subprocess.run(
        [sys.executable, "-c", "import worker; assert not hasattr(worker, 'settings_of_another_name')"],
        env=environment,
        cwd=tmp_path,
        check=False,
    )

    assert done.returncode == 0
