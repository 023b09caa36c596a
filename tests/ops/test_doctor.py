"""`tier doctor`, against real servers in the states it is there to find."""

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import psycopg
import pytest
import redis
from click.testing import CliRunner, Result

from saver import TierConfig, TieredSaver
from tests.fix_servers import StartServers
from tests.waiting import eventually
from worker.cli.group import tier
from worker.doctor import clock
from worker.doctor.persistence import Persistence, loss_of
from worker.doctor.report import Report
from worker.doctor.rights import COMMANDS, acl_rule
from worker.embedded import Embedded
from worker.embedded.server import free_port

ROOT = Path(__file__).parents[2]


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


@pytest.fixture(scope="module")
def servers() -> Iterator[Embedded]:
    with Embedded(durable=True, redis_settings={"maxmemory": "64mb"}) as started:
        yield started


@pytest.fixture
def doctor(servers: Embedded) -> Doctor:
    return Doctor(servers)


@pytest.fixture
def admin(servers: Embedded) -> Iterator[redis.Redis]:
    """Redis as its owner; what a test sets is set back."""
    with redis.Redis.from_url(servers.redis_url) as client:
        yield client
        for name, value in {"save": "", "appendonly": "yes", "appendfsync": "everysec"}.items():
            client.config_set(name, value)
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 64 << 20)


@pytest.fixture
def owner(servers: Embedded) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(servers.postgres_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def own_schema(owner: psycopg.Connection[Any], servers: Embedded) -> str:
    """A schema with all tables."""
    name = f"doctor_{secrets.token_hex(4)}"
    config = TierConfig(
        redis_url=servers.redis_url, postgres_url=servers.postgres_url, postgres_schema=name, partitions=4
    )
    with TieredSaver(config):
        return name


def test_servers_in_order_leave_nothing_to_mend(doctor: Doctor, own_schema: str) -> None:
    shown = doctor.run(TIER_POSTGRES_SCHEMA=own_schema)

    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (0, "nothing to mend")
    for fact in ("Valkey 9", "noeviction", "persistence: AOF", "PostgreSQL 18", "indexes: all there", "langgraph "):
        assert fact in shown.stdout


def test_the_doctor_makes_nothing(doctor: Doctor, admin: redis.Redis) -> None:
    keys_before = set(cast(Any, admin.keys()))

    report = doctor.reports(TIER_POSTGRES_SCHEMA="not_there_yet", TIER_KEY_PREFIX="untouched")["postgres"]

    assert "makes what is missing" in " ".join(report["facts"])
    assert set(cast(Any, admin.keys())) == keys_before


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_policy_that_evicts_is_found(doctor: Doctor, admin: redis.Redis, policy: str) -> None:
    admin.config_set("maxmemory-policy", policy)

    shown = doctor.run()

    assert shown.exit_code == 1
    assert f"maxmemory-policy is {policy}" in shown.stdout
    assert "set maxmemory-policy noeviction" in shown.stdout


@pytest.mark.parametrize(
    ("save", "appendonly", "mode"),
    [
        ("", "no", Persistence.NONE),
        ("60 1", "no", Persistence.RDB),
        ("", "yes", Persistence.AOF),
        ("60 1", "yes", Persistence.BOTH),
    ],
)
def test_each_persistence_mode_is_told_with_what_it_can_lose(
    doctor: Doctor, admin: redis.Redis, save: str, appendonly: str, mode: Persistence
) -> None:
    admin.config_set("save", save)
    admin.config_set("appendonly", appendonly)

    behind = doctor.reports(TIER_ARCHIVE_AFTER="7s")["redis"]
    through = doctor.reports(TIER_WRITE_MODE="through")["redis"]

    told = json.dumps(behind["findings"] if appendonly == "no" else behind["facts"])
    assert f"persistence: {mode.value}" in told
    assert ("last 7s (TIER_ARCHIVE_AFTER)" if appendonly == "no" else "last 2s of writes") in told
    assert "loses nothing that was acknowledged" in json.dumps(through["facts"])


@pytest.mark.parametrize(("fsync", "words"), [("always", "nothing"), ("no", "last 10s"), ("everysec", "last 2s")])
def test_what_an_append_only_file_loses_depends_on_its_fsync(fsync: str, words: str) -> None:
    config = TierConfig(redis_url="redis://hot", postgres_url="postgresql://cold/x", archive_after="10s")

    assert words in loss_of(Persistence.AOF, fsync, config)


def test_memory_that_runs_out_is_found(doctor: Doctor, admin: redis.Redis) -> None:
    used = int(cast(Any, admin.info("memory"))["used_memory"])

    admin.config_set("maxmemory", int(used * 1.1))
    full = doctor.facts_to_mend("redis")
    admin.config_set("maxmemory", 0)
    unlimited = doctor.facts_to_mend("redis")

    assert "of maxmemory" in full
    assert "maxmemory is not set" in unlimited


def test_a_replica_is_found(doctor: Doctor, admin: redis.Redis) -> None:
    admin.replicaof("127.0.0.1", 1)
    try:
        found = doctor.facts_to_mend("redis")
    finally:
        admin.replicaof("NO", "ONE")

    assert "this Redis is a replica" in found


def test_a_node_of_a_cluster_is_found(private_servers: StartServers) -> None:
    servers = private_servers(redis_settings={"cluster-enabled": "yes"})

    assert "a node of a cluster" in Doctor(servers).facts_to_mend("redis")


def test_another_number_of_partitions_is_found(doctor: Doctor, own_schema: str) -> None:
    assert "TIER_PARTITIONS=4" in doctor.facts_to_mend("redis", TIER_PARTITIONS="8", TIER_POSTGRES_SCHEMA=own_schema)


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("TIER_REDIS_URL", "redis+cluster://hot:6379", "redis+cluster"),
        ("TIER_DEMOTE_AFER", "5m", "TIER_DEMOTE_AFER is not a variable"),
    ],
)
def test_a_configuration_that_does_not_do_what_it_says_is_found(
    doctor: Doctor, variable: str, value: str, words: str
) -> None:
    queue = {"TIER_QUEUE_URL": doctor.servers.redis_url}

    assert words in doctor.facts_to_mend("configuration", **{**queue, variable: value})


# ---- rights in Redis


def with_user(servers: Embedded, admin: redis.Redis, rule: str) -> str:
    """The address of Redis for a new user with these rights."""
    name, password = f"user-{secrets.token_hex(4)}", secrets.token_hex(8)
    admin.execute_command("ACL", "SETUSER", name, "on", f">{password}", *rule.split())  # type: ignore[no-untyped-call]
    return f"redis://{name}:{password}@127.0.0.1:{servers.redis_port}/0"


def test_the_shipped_rule_is_the_one_that_is_checked() -> None:
    [_, user] = (ROOT / "deploy" / "redis.acl").read_text().splitlines()

    assert user == f"user tier on >CHANGE-ME {acl_rule('tier')}"


def test_the_shipped_rule_covers_every_command_of_the_scripts() -> None:
    scripts = (ROOT / "saver" / "lua").glob("*.lua")

    used = {name.lower() for path in scripts for name in re.findall(r"redis\.call\('(\w+)'", path.read_text())}

    assert used <= set(COMMANDS)


def test_an_agent_works_with_the_shipped_rule(
    doctor: Doctor, servers: Embedded, admin: redis.Redis, own_schema: str
) -> None:
    url = with_user(servers, admin, acl_rule("tier"))
    config = TierConfig(
        redis_url=url, postgres_url=servers.postgres_url, postgres_schema=own_schema, key_prefix="tier", partitions=4
    )
    checkpoint: Any = {"v": 4, "id": "1", "ts": "", "channel_values": {}, "channel_versions": {}, "versions_seen": {}}

    with TieredSaver(config) as saver:
        saver.put({"configurable": {"thread_id": "a", "checkpoint_ns": ""}}, checkpoint, {}, {})
        saver.demote("a")
        saver.promote("a")
        tier_then = saver.tier_of("a")
        saver.delete_thread("a")

    assert tier_then == "hot"
    report = doctor.reports(TIER_REDIS_URL=url)["redis"]
    assert report["findings"] == []
    assert "CONFIG GET" in " ".join(report["unseen"])


def test_missing_rights_are_named(doctor: Doctor, servers: Embedded, admin: redis.Redis) -> None:
    url = with_user(servers, admin, f"{acl_rule('tier')} -info -hset -zadd")

    report = doctor.reports(TIER_REDIS_URL=url)["redis"]

    [finding] = report["findings"]
    assert "may not use hset, info, zadd" in finding["fact"]
    assert acl_rule("tier") in finding["next_step"]
    assert "INFO" in " ".join(report["unseen"])


def test_keys_out_of_reach_are_named(doctor: Doctor, servers: Embedded, admin: redis.Redis) -> None:
    url = with_user(servers, admin, acl_rule("another"))

    found = doctor.facts_to_mend("redis", TIER_REDIS_URL=url)

    assert "may not use the keys tier:* and arq:*" in found


# ---- Postgres


@pytest.fixture
def through_pgbouncer(servers: Embedded, tmp_path: Path) -> Iterator[str]:
    """The address of a PgBouncer in transaction mode before the same Postgres."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    port, parts = free_port(), urlsplit(servers.postgres_url)
    tmp_path.chmod(0o755)
    (tmp_path / "pgbouncer.ini").write_text(
        f"[databases]\n* = host=127.0.0.1 port={parts.port} user={parts.username} password={parts.password}\n"
        f"[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={port}\nunix_socket_dir=\nauth_type=any\n"
        f"pool_mode=transaction\nuser={'nobody' if os.getuid() == 0 else ''}\n"
    )
    process = subprocess.Popen([program, "-q", str(tmp_path / "pgbouncer.ini")], stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: is_open(port))
        yield f"postgresql://any@127.0.0.1:{port}{parts.path}"
    finally:
        process.terminate()
        process.wait()


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("default_transaction_read_only=on", "transactions are read-only"),
        ("synchronous_commit=off", "synchronous_commit is off"),
    ],
)
def test_a_setting_that_loses_or_blocks_writes_is_found(doctor: Doctor, setting: str, words: str) -> None:
    url = f"{doctor.servers.postgres_url}?options=-c%20{setting.replace('=', '%3D')}"

    assert words in doctor.facts_to_mend("postgres", TIER_POSTGRES_URL=url)


def test_a_database_that_does_not_survive_a_crash_is_found(private_servers: StartServers) -> None:
    assert "fsync or full_page_writes is off" in Doctor(private_servers(durable=False)).facts_to_mend("postgres")


def test_a_standby_is_found(private_servers: StartServers) -> None:
    servers = private_servers(durable=True)
    (servers.data_dir / "postgres" / "standby.signal").touch()
    servers.restart("postgres")

    assert "this Postgres is a standby" in Doctor(servers).facts_to_mend("postgres")


def test_a_pooler_is_seen(doctor: Doctor, through_pgbouncer: str) -> None:
    report = doctor.reports(TIER_POSTGRES_URL=through_pgbouncer)["postgres"]

    assert "a pooler stands in between" in " ".join(report["facts"])
    assert report["findings"] == []


def test_pools_that_do_not_fit_are_found(doctor: Doctor) -> None:
    found = doctor.facts_to_mend("postgres", TIER_POSTGRES_MAX_SIZE="60")

    assert "97 connections" in found
    assert "120" in found


def test_a_user_without_rights_is_told_which(doctor: Doctor, owner: psycopg.Connection[Any], own_schema: str) -> None:
    password = secrets.token_hex(8)
    owner.execute(f"create role reader_{own_schema} login password '{password}'")
    owner.execute(f"grant usage on schema {own_schema} to reader_{own_schema}")
    owner.execute(f"grant select on all tables in schema {own_schema} to reader_{own_schema}")
    parts = urlsplit(doctor.servers.postgres_url)
    url = f"postgresql://reader_{own_schema}:{password}@{parts.hostname}:{parts.port}{parts.path}"

    found = doctor.facts_to_mend("postgres", TIER_POSTGRES_URL=url, TIER_POSTGRES_SCHEMA=own_schema)
    empty = doctor.facts_to_mend("postgres", TIER_POSTGRES_URL=url, TIER_POSTGRES_SCHEMA="not_there_yet")

    assert "checkpoints (insert, update, delete)" in found
    assert "tier_incarnation" in found
    assert "may not create tables" in empty


def test_a_missing_index_is_found(doctor: Doctor, owner: psycopg.Connection[Any], own_schema: str) -> None:
    owner.execute(f"alter table {own_schema}.checkpoint_writes drop constraint checkpoint_writes_pkey")
    owner.execute(f"drop index {own_schema}.tier_threads_last_activity")

    found = doctor.facts_to_mend("postgres", TIER_POSTGRES_SCHEMA=own_schema)

    assert "checkpoint_writes (primary key), tier_threads (last_activity)" in found


def test_tables_of_a_newer_release_are_found(doctor: Doctor, owner: psycopg.Connection[Any], own_schema: str) -> None:
    owner.execute(f"insert into {own_schema}.tier_migrations (v) values (999)")

    assert "999 (ours)" in doctor.facts_to_mend("postgres", TIER_POSTGRES_SCHEMA=own_schema)


# ---- what is down, clocks, libraries


@pytest.mark.parametrize(
    ("variable", "url", "subject"),
    [
        ("TIER_REDIS_URL", "redis://:hidden@127.0.0.1:1/0", "redis"),
        ("TIER_QUEUE_URL", "redis://:hidden@127.0.0.1:1/0", "queue"),
        ("TIER_POSTGRES_URL", "postgresql://user:hidden@127.0.0.1:1/x", "postgres"),
    ],
)
def test_what_is_down_is_said_and_the_rest_is_checked(doctor: Doctor, variable: str, url: str, subject: str) -> None:
    shown = doctor.run(**{variable: url})
    reports = doctor.reports(**{variable: url})

    assert shown.exit_code == 1
    assert "does not answer" in reports[subject]["findings"][0]["fact"]
    assert all(not report["findings"] for name, report in reports.items() if name != subject)
    assert "hidden" not in shown.stdout + shown.stderr


def test_a_wrong_password_is_said_without_showing_it(doctor: Doctor) -> None:
    url = f"redis://:hidden-one@127.0.0.1:{doctor.servers.redis_port}/0"
    postgres = f"postgresql://postgres:hidden-two@127.0.0.1:{doctor.servers.postgres_port}/postgres"

    shown = doctor.run(TIER_REDIS_URL=url, TIER_POSTGRES_URL=postgres)

    assert shown.stdout.count("refuse") == 2
    assert "hidden" not in shown.stdout + shown.stderr


def test_a_wrong_configuration_is_misuse(doctor: Doctor) -> None:
    assert doctor.run(TIER_PARTITIONS="many").exit_code == 2
    assert doctor.run("--nonsense").exit_code == 2


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ({"Redis": clock.Offset(3.2, 0.1)}, "the clock of Redis is 3.2 s ahead of"),
        ({"Postgres": clock.Offset(-2.0, 0.1)}, "the clock of Postgres is 2.0 s behind"),
        ({"Redis": clock.Offset(0.9, 0.0), "Postgres": clock.Offset(-0.9, 0.0)}, "differ by 1.8 s"),
    ],
)
def test_clocks_that_differ_are_found(offsets: dict[str, clock.Offset], words: str) -> None:
    report = Report("clocks")

    clock.examine(offsets, report)

    assert words in report.findings[0].fact


def test_a_slow_answer_is_not_taken_for_a_wrong_clock() -> None:
    report = Report("clocks")

    clock.examine({"Redis": clock.Offset(1.4, 0.6)}, report)

    assert not report.findings


def test_a_library_out_of_range_is_found(doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "langgraph_checkpoint-3.0.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: langgraph-checkpoint\nVersion: 3.0.0\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert "langgraph-checkpoint is 3.0.0" in doctor.facts_to_mend("libraries")
