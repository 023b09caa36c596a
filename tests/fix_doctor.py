"""`tier doctor` for the tests, on servers in order: a durable pair of its own."""

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import redis
from click.testing import CliRunner, Result

from saver import TierConfig, TieredSaver
from worker.cli.group import tier
from worker.embedded import Embedded


@dataclass
class Doctor:
    """`tier doctor --json` on one pair of servers, with other variables by name."""

    servers: Embedded

    def run(self, *arguments: str, **variables: str) -> Result:
        environment = {
            "TIER_REDIS_URL": self.servers.redis_url,
            "TIER_POSTGRES_URL": self.servers.postgres_url,
            "TIER_PARTITIONS": "4",
        }
        return CliRunner(env=environment | variables).invoke(tier, ["doctor", *arguments], catch_exceptions=False)

    def reports(self, **variables: str) -> dict[str, dict[str, Any]]:
        return {report["subject"]: report for report in json.loads(self.run("--json", **variables).stdout)["reports"]}

    def facts_to_mend(self, subject: str, **variables: str) -> str:
        return "\n".join(found["fact"] for found in self.reports(**variables)[subject]["findings"])


@pytest.fixture(scope="session")
def sound_servers() -> Iterator[Embedded]:
    """A pair in which there is nothing to mend."""
    with Embedded(durable=True, redis_settings={"maxmemory": "64mb"}) as started:
        yield started


@pytest.fixture
def doctor(sound_servers: Embedded) -> Doctor:
    """The command, on servers in order."""
    return Doctor(sound_servers)


@pytest.fixture
def redis_owner(sound_servers: Embedded) -> Iterator[redis.Redis]:
    """Redis as its owner; what a test sets is set back."""
    with redis.Redis.from_url(sound_servers.redis_url) as client:
        yield client
        for name, value in {"save": "", "appendonly": "yes", "appendfsync": "everysec"}.items():
            client.config_set(name, value)
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 64 << 20)


@pytest.fixture
def postgres_owner(sound_servers: Embedded) -> Iterator[psycopg.Connection[Any]]:
    """Postgres as its superuser."""
    with psycopg.connect(sound_servers.postgres_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def own_schema(postgres_owner: psycopg.Connection[Any], sound_servers: Embedded) -> str:
    """A schema with all tables, on the sound servers."""
    name = f"doctor_{secrets.token_hex(4)}"
    config = TierConfig(
        redis_url=sound_servers.redis_url, postgres_url=sound_servers.postgres_url, postgres_schema=name, partitions=4
    )
    with TieredSaver(config):
        return name
