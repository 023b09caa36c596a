"""deploy/env.example, TierConfig and WorkerConfig name the same variables with the same defaults."""

import os
import re
from pathlib import Path

import pytest

from saver.config import WORKER_VARIABLES, TierConfig
from saver.errors import ConfigError
from worker.config import WorkerConfig

EXAMPLE = Path(__file__).parents[2] / "deploy" / "env.example"
REQUIRED = {"TIER_REDIS_URL", "TIER_POSTGRES_URL"}


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TIER_"):
            monkeypatch.delenv(name)


def example(mark: str) -> dict[str, str]:
    """The variables that stand behind a mark in env.example."""
    return dict(re.findall(rf"^{mark}(TIER_\w+)=(.*)$", EXAMPLE.read_text(), re.MULTILINE))


def variables(config: type[TierConfig]) -> set[str]:
    return {f"TIER_{name.upper()}" for name in config.model_fields}


def test_each_variable_is_in_the_example_once() -> None:
    names = re.findall(r"^#?(TIER_\w+)=", EXAMPLE.read_text(), re.MULTILINE)

    assert sorted(names) == sorted(variables(WorkerConfig))


def test_only_what_is_required_is_uncommented() -> None:
    assert set(example("")) == REQUIRED


def test_the_example_shows_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in example("").items():
        monkeypatch.setenv(name, value)
    defaults = WorkerConfig.load()
    for name, value in example("#").items():
        if value:
            monkeypatch.setenv(name, value)

    assert WorkerConfig.load() == defaults


def test_a_variable_without_a_default_is_said_to_have_none() -> None:
    shown = WorkerConfig(redis_url="redis://cache", postgres_url="postgresql://db/tiers").effective()

    empty = {name for name, value in example("#").items() if not value}
    assert empty == {name for name, value in shown.items() if value == "none"} | {"TIER_QUEUE_URL"}


def test_agents_know_the_variables_of_the_worker() -> None:
    assert variables(WorkerConfig) - variables(TierConfig) == WORKER_VARIABLES


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TIER_WORKER_JOBS", "3"),
        ("TIER_METRICS_PORT", "off"),
        ("TIER_METRICS_PORT", "0"),
        ("TIER_METRICS_HOST", "::"),
        ("TIER_LOG_LEVEL", "warning"),
        ("TIER_LOG_FORMAT", "console"),
        ("TIER_LOG_THREAD_IDS", "on"),
        ("TIER_PARTITIONS", "7"),
        ("TIER_QUEUE_URL", "redis://queue:6380/2"),
    ],
)
def test_a_variable_is_in_force_in_the_worker(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    for name, default in example("").items():
        monkeypatch.setenv(name, default)
    monkeypatch.setenv(variable, value)

    config = WorkerConfig.load()

    assert config.effective()[variable] == value
    assert config.tier.redis_url.get_secret_value() == example("")["TIER_REDIS_URL"]


def test_the_faults_of_the_tiers_and_of_the_worker_are_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIER_POSTGRES_URL", "postgresql://db/tiers")
    monkeypatch.setenv("TIER_RETAIN_FOR", "0")
    monkeypatch.setenv("TIER_WORKER_JOBS", "0")
    monkeypatch.setenv("TIER_METRICS_PORT", "tcp://10.0.0.1:9464")
    monkeypatch.setenv("TIER_METRICS_HOST", "http://10.0.0.1")
    monkeypatch.setenv("TIER_LOG_LEVEL", "loud")

    with pytest.raises(ConfigError) as caught:
        WorkerConfig.load()

    assert str(caught.value).split("; ") == [
        "TIER_REDIS_URL is not set",
        "TIER_RETAIN_FOR is '0': write a duration like 90s, 15m or 6h, or off",
        "TIER_WORKER_JOBS is '0': write a whole number from 1 to 1000",
        "TIER_METRICS_PORT is 'tcp://10.0.0.1:9464': write a whole number from 0 to 65535, or off",
        "TIER_METRICS_HOST is 'http://10.0.0.1': write a host or an address like 127.0.0.1 or ::",
        "TIER_LOG_LEVEL is 'loud': write 'debug', 'info', 'warning' or 'error'",
    ]


def test_only_the_configuration_reads_the_environment() -> None:
    root = EXAMPLE.parents[1]
    # The embedded servers are programs: they are given an environment, no setting is read from it.
    readers = {
        str(path.relative_to(root))
        for package in ("saver", "jobs", "worker")
        for path in (root / package).rglob("*.py")
        if re.search(r"\bos\.(environ|getenv)\b|from os import .*\b(environ|getenv)\b", path.read_text())
    }

    assert {reader for reader in readers if not reader.startswith("worker/embedded/")} == {"saver/config.py"}
