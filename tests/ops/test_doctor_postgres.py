"""`tier doctor` on Postgres: settings, roles, rights, tables, indexes and a pooler."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver

from saver import TierConfig, TieredSaver
from tests.builders import checkpoint_of
from tests.fix_doctor import Doctor
from tests.fix_nodes import PostgresNode
from tests.fix_servers import StartServers
from tests.waiting import eventually
from worker.embedded import Embedded
from worker.embedded.server import free_port


@pytest.fixture
def through_pgbouncer(sound_servers: Embedded, tmp_path: Path) -> Iterator[str]:
    """The address of a PgBouncer in transaction mode before the same Postgres."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    port, parts = free_port(), urlsplit(sound_servers.postgres_url)
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


@pytest.fixture
def standby(sound_servers: Embedded) -> Iterator[PostgresNode]:
    """A standby of the sound Postgres."""
    node = PostgresNode()
    node.password = urlsplit(sound_servers.postgres_url).password or ""
    node.copy(sound_servers.postgres_url)
    node.start()
    yield node
    node.remove()


def test_a_standby_that_falls_behind_is_found(
    doctor: Doctor, postgres_owner: psycopg.Connection[Any], own_schema: str, standby: PostgresNode
) -> None:
    followed = {"TIER_POSTGRES_SCHEMA": own_schema}
    filler = f"create table {own_schema}.filler as select repeat('x', 999) || n from generate_series(1, 30000) as n"
    eventually(lambda: "standbys: 1, up to date" in doctor.reports(**followed)["postgres"]["facts"], within_seconds=20)
    with psycopg.connect(standby.url) as connection:
        [(receiver,)] = connection.execute("select pid from pg_stat_wal_receiver")

    os.kill(receiver, signal.SIGSTOP)
    try:
        postgres_owner.execute(filler)
        found = doctor.facts_to_mend("postgres", **followed)
    finally:
        os.kill(receiver, signal.SIGCONT)

    assert "1 of 1 standbys are not up to date" in found


def test_a_pooler_is_seen(doctor: Doctor, through_pgbouncer: str) -> None:
    report = doctor.reports(TIER_POSTGRES_URL=through_pgbouncer)["postgres"]

    assert "a pooler stands in between" in " ".join(report["facts"])
    assert report["findings"] == []


def test_pools_that_do_not_fit_are_found(doctor: Doctor) -> None:
    found = doctor.facts_to_mend("postgres", TIER_POSTGRES_MAX_SIZE="60")

    assert "97 connections" in found
    assert "120" in found


def test_a_user_without_rights_is_told_which(
    doctor: Doctor, postgres_owner: psycopg.Connection[Any], own_schema: str
) -> None:
    password = secrets.token_hex(8)
    postgres_owner.execute(f"create role reader_{own_schema} login password '{password}'")
    postgres_owner.execute(f"grant usage on schema {own_schema} to reader_{own_schema}")
    postgres_owner.execute(f"grant select on all tables in schema {own_schema} to reader_{own_schema}")
    parts = urlsplit(doctor.servers.postgres_url)
    url = f"postgresql://reader_{own_schema}:{password}@{parts.hostname}:{parts.port}{parts.path}"

    found = doctor.facts_to_mend("postgres", TIER_POSTGRES_URL=url, TIER_POSTGRES_SCHEMA=own_schema)
    empty = doctor.facts_to_mend("postgres", TIER_POSTGRES_URL=url, TIER_POSTGRES_SCHEMA="not_there_yet")

    assert "checkpoints (insert, update, delete)" in found
    assert "tier_incarnation" in found
    assert "may not create tables" in empty


def test_a_missing_index_is_found(doctor: Doctor, postgres_owner: psycopg.Connection[Any], own_schema: str) -> None:
    postgres_owner.execute(f"alter table {own_schema}.checkpoint_writes drop constraint checkpoint_writes_pkey")
    postgres_owner.execute(f"drop index {own_schema}.tier_threads_last_activity")

    found = doctor.facts_to_mend("postgres", TIER_POSTGRES_SCHEMA=own_schema)

    assert "checkpoint_writes (primary key), tier_threads (last_activity)" in found


def test_deletion_by_run_without_its_index_is_found_and_mended(
    doctor: Doctor, postgres_owner: psycopg.Connection[Any], own_schema: str
) -> None:
    postgres_owner.execute(f"drop index {own_schema}.checkpoints_run_id")
    [finding] = doctor.reports(TIER_POSTGRES_SCHEMA=own_schema)["postgres"]["findings"]

    postgres_owner.execute(finding["next_step"].partition(": ")[2])

    assert "run_id" in finding["fact"]
    assert doctor.facts_to_mend("postgres", TIER_POSTGRES_SCHEMA=own_schema) == ""


def test_tables_of_a_newer_release_are_found(
    doctor: Doctor, postgres_owner: psycopg.Connection[Any], own_schema: str
) -> None:
    postgres_owner.execute(f"insert into {own_schema}.tier_migrations (v) values (999)")

    assert "999 (ours)" in doctor.facts_to_mend("postgres", TIER_POSTGRES_SCHEMA=own_schema)


def test_storage_left_as_it_was_is_found_and_mended(
    doctor: Doctor, postgres_owner: psycopg.Connection[Any], own_schema: str
) -> None:
    postgres_owner.execute(f"alter table {own_schema}.checkpoint_blobs reset (autovacuum_vacuum_scale_factor)")
    postgres_owner.execute(f"alter table {own_schema}.tier_threads reset (autovacuum_vacuum_scale_factor)")
    [finding] = doctor.reports(TIER_POSTGRES_SCHEMA=own_schema)["postgres"]["findings"]

    postgres_owner.execute(finding["next_step"].partition(": ")[2])

    assert "checkpoint_blobs, tier_threads" in finding["fact"]
    assert doctor.facts_to_mend("postgres", TIER_POSTGRES_SCHEMA=own_schema) == ""


def test_tables_of_another_user_are_used_as_they_are_and_told(
    doctor: Doctor, postgres_owner: psycopg.Connection[Any]
) -> None:
    name, password = f"foreign_{secrets.token_hex(4)}", secrets.token_hex(8)
    parts = urlsplit(doctor.servers.postgres_url)
    postgres_owner.execute(f"create schema {name}")
    postgres_owner.execute(f"set search_path to {name}")
    PostgresSaver(postgres_owner).setup()
    postgres_owner.execute(f"create role agent_{name} login password '{password}'")
    postgres_owner.execute(f"grant usage, create on schema {name} to agent_{name}")
    postgres_owner.execute(f"grant select, insert, update, delete on all tables in schema {name} to agent_{name}")
    url = f"postgresql://agent_{name}:{password}@{parts.hostname}:{parts.port}{parts.path}"
    config = TierConfig(redis_url=doctor.servers.redis_url, postgres_url=url, postgres_schema=name, partitions=4)

    with TieredSaver(config) as saver:
        saver.put(
            {"configurable": {"thread_id": name, "checkpoint_ns": ""}}, checkpoint_of({}, {}), {"source": "input"}, {}
        )
        assert saver.demote(name)

    found = doctor.facts_to_mend("postgres", TIER_POSTGRES_URL=url, TIER_POSTGRES_SCHEMA=name)
    assert "storage is not set up for this load: checkpoint_blobs, checkpoint_writes, checkpoints" in found


@pytest.fixture
def with_lz4() -> Iterator[PostgresNode]:
    """A Postgres that can compress by lz4."""
    places = [Path(found).resolve().parent for found in [shutil.which("postgres")] if found]
    for bin_dir in [*places, *sorted(Path("/usr/lib/postgresql").glob("*/bin"))]:
        configured = subprocess.run([bin_dir / "pg_config", "--configure"], capture_output=True, text=True, check=False)
        if "lz4" in configured.stdout:
            break
    else:
        pytest.skip("no PostgreSQL that was built with lz4 is installed")
    node = PostgresNode(bin_dir)
    node.make()
    node.start()
    yield node
    node.remove()


def test_values_are_compressed_by_lz4_where_the_server_has_it(doctor: Doctor, with_lz4: PostgresNode) -> None:
    config = TierConfig(redis_url=doctor.servers.redis_url, postgres_url=with_lz4.url, partitions=4)
    with TieredSaver(config) as saver:
        saver.put(
            {"configurable": {"thread_id": "large", "checkpoint_ns": ""}},
            checkpoint_of({"list": ["x" * 10_000]}, {"list": "1"}),
            {"source": "input"},
            {"list": "1"},
        )
        assert saver.demote("large")

    with psycopg.connect(with_lz4.url, autocommit=True) as connection:
        found = connection.execute("select pg_column_compression(blob) from checkpoint_blobs").fetchall()
        assert found == [("lz4",)]
        assert doctor.facts_to_mend("postgres", TIER_POSTGRES_URL=with_lz4.url).count("storage") == 0
        connection.execute("alter table checkpoint_blobs alter column blob set compression pglz")
    assert "load: checkpoint_blobs" in doctor.facts_to_mend("postgres", TIER_POSTGRES_URL=with_lz4.url)
