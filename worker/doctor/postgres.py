"""The cold tier: version, durability, role, connections, tables, indexes, rights and standbys of Postgres."""

from langgraph.checkpoint.postgres.base import MIGRATIONS
from psycopg.rows import DictRow

from saver.config import TierConfig
from saver.statements import migrations
from worker.doctor.postgres_client import PostgresClient
from worker.doctor.report import Report, listed

OLDEST = 130_000
SLOWEST_STANDBY_SECONDS = 10
LONGEST_SILENCE_SECONDS = 30  # a standby replies every 10 s
MOST_MISSING_BYTES = 16 << 20
CONTENT_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "tier_threads", "tier_labels")
EARLY_VACUUM = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02"
OTHER_TABLES = ("checkpoint_migrations", "tier_migrations", "tier_policies")
# What every statement finds its rows by, and what retention walks along.
INDEXED = {*((table, "thread_id") for table in CONTENT_TABLES), ("tier_threads", "last_activity")}


async def examine(config: TierConfig, postgres: PostgresClient, report: Report) -> None:
    """Look at the server, then at the schema."""
    [server] = await postgres.fetch("doctor_server")
    _check_version(server, report)
    _check_role(server, report)
    _check_durability(server, report)
    is_pooled = server["process_id"] != postgres.process_id
    _check_connections(config, server, report, is_pooled=is_pooled)
    await _check_schema(config, postgres, report)
    await _check_standbys(postgres, report)


def _check_version(server: DictRow, report: Report) -> None:
    if server["version_number"] < OLDEST:
        report.find(
            f"PostgreSQL {server['version']} is no longer maintained",
            "it gets no repairs, and nothing here is tested with it",
            "upgrade to PostgreSQL 13 or newer",
        )
    else:
        report.note(f"version: PostgreSQL {server['version']}, user {server['username']}")


def _check_role(server: DictRow, report: Report) -> None:
    if server["is_standby"]:
        report.find(
            "this Postgres is a standby",
            "it is read-only: nothing can be archived, and Redis fills up",
            "point TIER_POSTGRES_URL at the primary, or add target_session_attrs=read-write to it",
        )
    elif server["is_read_only"]:
        report.find(
            "transactions are read-only here (default_transaction_read_only)",
            "nothing can be archived, and Redis fills up",
            "find out why: a full disk, an upgrade or a switchover; then set it to off",
        )


def _check_durability(server: DictRow, report: Report) -> None:
    if not server["is_crash_safe"]:
        report.find(
            "fsync or full_page_writes is off",
            "a crash of the machine can destroy the whole database",
            "set both to on",
        )
    if not server["waits_for_commit"]:
        report.find(
            "synchronous_commit is off",
            "a crash loses what was just archived and is no longer in the log of Redis: an acknowledged write is gone",
            "set synchronous_commit to on for this user: alter role ... set synchronous_commit = on",
        )


def _check_connections(config: TierConfig, server: DictRow, report: Report, *, is_pooled: bool) -> None:
    pool, most, used = config.postgres_max_size, server["most_connections"], server["connections"]
    if is_pooled:
        report.note(
            f"a pooler stands in between: session and transaction mode are fine, statement mode is not; its own limit "
            f"must hold {pool} connections (TIER_POSTGRES_MAX_SIZE) for each process"
        )
        return
    if most < 2 * pool:
        report.find(
            f"Postgres takes {most} connections, and one agent with one worker may open {2 * pool}",
            "under load, processes wait for connections and then fail",
            "raise max_connections, lower TIER_POSTGRES_MAX_SIZE, or put a pooler in between",
        )
    elif most - used < pool:
        report.find(
            f"{used} of {most} connections are in use, and one more process may open {pool}",
            "the next process that starts, or the next peak, gets no connection",
            "raise max_connections, lower TIER_POSTGRES_MAX_SIZE, or put a pooler in between",
        )
    else:
        report.note(f"connections: {used} of {most}; full pools of {most // pool} processes fit")


async def _check_schema(config: TierConfig, postgres: PostgresClient, report: Report) -> None:
    name = config.postgres_schema
    [schema] = await postgres.fetch("doctor_schema", schema=name)
    tables = [*CONTENT_TABLES, *OTHER_TABLES]
    found = {row["name"]: row["missing"] for row in await postgres.fetch("doctor_tables", schema=name, tables=tables)}
    if absent := set(tables) - set(found):
        _report_absent(name, absent, report, may_create=schema["may_create"])
        return
    if refused := {f"{table} ({', '.join(missing)})" for table, missing in found.items() if missing}:
        report.find(
            f"the Postgres user lacks rights on {listed(refused)}",
            "reading or archiving fails there",
            f'grant select, insert, update, delete on all tables in schema "{name}" to it',
        )
    if not (schema["may_use"] and all(row["may_use"] for row in await postgres.fetch("doctor_sequence", schema=name))):
        report.find(
            f"the Postgres user may not use schema {name!r} or its sequence tier_incarnation",
            "no thread can be brought into Redis",
            f'grant usage on schema "{name}" and on sequence "{name}".tier_incarnation to it',
        )
    elif not refused:
        await _check_versions(config, postgres, report, may_create=schema["may_create"])
    await _check_indexes(config, postgres, report)
    await _check_storage(config, postgres, report)


def _report_absent(schema: str, absent: set[str], report: Report, *, may_create: bool) -> None:
    if may_create:
        report.note(f"schema {schema!r} has no {listed(absent)} yet: the first agent or worker makes what is missing")
    else:
        report.find(
            f"schema {schema!r} has no {listed(absent)}, and the Postgres user may not create tables there",
            "neither agents nor workers start",
            f'grant create on schema "{schema}" to it, or let another user call TieredSaver.setup() once',
        )


async def _check_versions(config: TierConfig, postgres: PostgresClient, report: Report, *, may_create: bool) -> None:
    [found] = await postgres.fetch("doctor_versions")
    wanted = {"stock": len(MIGRATIONS) - 1, "own": migrations(config.postgres_schema)[-1][0]}
    shown = f"the tables have version {found['stock']} (stock saver) and {found['own']} (ours)"
    if any((found[part] or 0) > number for part, number in wanted.items()):
        report.find(
            f"{shown}; this process knows {wanted['stock']} and {wanted['own']}",
            "a newer release made them, and this one may not know what it left there",
            "upgrade langgraph-checkpoint-tiered and langgraph-checkpoint-postgres here",
        )
    elif any((found[part] or 0) < number for part, number in wanted.items()) and not may_create:
        report.find(
            f"{shown}; this process wants {wanted['stock']} and {wanted['own']}, and its user may not change them",
            "neither agents nor workers of this release start",
            "let the owner of the tables call TieredSaver.setup() once",
        )
    else:
        report.note(f"schema: {config.postgres_schema!r}; {shown}")


async def _check_indexes(config: TierConfig, postgres: PostgresClient, report: Report) -> None:
    rows = await postgres.fetch("doctor_indexes", schema=config.postgres_schema, tables=list(CONTENT_TABLES))
    found = {(row["name"], row["first_column"]) for row in rows}
    unique = {row["name"] for row in rows if row["is_unique"]}
    missing = {f"{table} ({column})" for table, column in INDEXED - found}
    missing |= {f"{table} (primary key)" for table in CONTENT_TABLES if table not in unique}
    if missing:
        report.find(
            f"there is no usable index on {listed(missing)}",
            "archiving fails without a primary key; without the others each read walks through the whole table",
            "make them again as saver/sql/migrations and the stock saver do; reindex those that are invalid",
        )
    else:
        report.note("indexes: all there and valid")
    [by_run] = await postgres.fetch("doctor_run_index", schema=config.postgres_schema)
    if not by_run["is_there"]:
        table = f'"{config.postgres_schema}".checkpoints'
        report.find(
            "there is no usable index on the run_id of checkpoints: it is not made where the table was large before us",
            "delete_for_runs reads the whole table and may take longer than it is given",
            "run this, agents may go on meanwhile: "
            f"create index concurrently checkpoints_run_id on {table} using hash ((metadata ->> 'run_id'))",
        )


async def _check_storage(config: TierConfig, postgres: PostgresClient, report: Report) -> None:
    """What setup leaves as it is on tables that belong to another user, or that were busy."""
    rows = await postgres.fetch("doctor_storage", schema=config.postgres_schema, tables=list(CONTENT_TABLES))
    wanted = {
        row["name"]: [
            *([] if row["is_tuned"] else [f"set ({EARLY_VACUUM})"]),
            *(f"alter column {column} set compression lz4" for column in row["slow"]),
        ]
        for row in rows
    }
    schema = config.postgres_schema
    missing = {name: f'alter table "{schema}".{name} {", ".join(to_do)}' for name, to_do in wanted.items() if to_do}
    if missing:
        report.find(
            f"storage is not set up for this load: {listed(missing)}",
            "archiving takes more time of the server, and what retention deletes is cleaned up late",
            f"let the owner run: {'; '.join(missing.values())}",
        )
    else:
        report.note("storage: vacuum comes early; values are compressed by lz4 where the server has it")


def _is_late(standby: DictRow) -> bool:
    return bool(
        standby["state"] != "streaming"
        or standby["lag_seconds"] > SLOWEST_STANDBY_SECONDS
        or standby["silent_seconds"] > LONGEST_SILENCE_SECONDS
        or standby["missing_bytes"] > MOST_MISSING_BYTES
    )


async def _check_standbys(postgres: PostgresClient, report: Report) -> None:
    rows = await postgres.fetch("doctor_standbys")
    if any(row["state"] is None for row in rows):
        report.cannot_see("how far the standbys are: grant pg_monitor to the user to see it")
        return
    late = [row for row in rows if _is_late(row)]
    if late:
        report.find(
            f"{len(late)} of {len(rows)} standbys are not up to date",
            "a failover to one of them loses what was archived since, and Redis no longer has it in its log",
            "look at the network between them and at the log of the standby; consider synchronous_standby_names",
        )
    elif rows:
        report.note(f"standbys: {len(rows)}, up to date")
    else:
        report.note("standbys: none that streams from here")
