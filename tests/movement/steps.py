"""Steps that the tests of the movers share."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import sql

from jobs.archive import ArchiveTurn, archive_due
from saver import TieredSaver
from saver.connect import Tiers
from tests.builders import Thread

SOON = timedelta(0)  # whatever was written is due


def with_settings(tiers: Tiers, **settings: Any) -> Tiers:
    """The same tiers for a worker that is configured otherwise."""
    return replace(tiers, config=tiers.config.model_copy(update=settings))


async def archive_all(tiers: Tiers) -> ArchiveTurn:
    """One turn in every partition, added up."""
    total = ArchiveTurn(is_done=True)
    for partition in range(tiers.keys.partitions):
        done = await archive_due(tiers, partition)
        for name in ("threads", "rows", "size_bytes", "trimmed_rows", "quarantined", "ghosts"):
            setattr(total, name, getattr(total, name) + getattr(done, name))
        total.is_done &= done.is_done
    return total


async def cold_ids(tiers: Tiers, thread: Thread) -> list[str]:
    """The checkpoints that Postgres has, newest first."""
    rows = await tiers.cold.read_newest(thread.thread_id, thread.namespace, 100)
    return sorted((row.checkpoint_id for row in rows.checkpoints), reverse=True)


def refuse(postgres_url: str, tiers: Tiers, thread_id: str | None) -> None:
    """Let Postgres refuse one thread, or none any more."""
    table = sql.Identifier(tiers.config.postgres_schema, "checkpoints")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("alter table {} drop constraint if exists poison").format(table))
        if thread_id is not None:
            check = sql.SQL("alter table {} add constraint poison check (thread_id <> {})")
            connection.execute(check.format(table, sql.Literal(thread_id)))


async def in_cold(tiers: Tiers, threads: list[Thread]) -> bool:
    """Whether Postgres has the newest checkpoint of each."""
    return all([(await cold_ids(tiers, thread))[:1] == [thread.checkpoint_id] for thread in threads])


async def is_in(saver: TieredSaver, thread: Thread, tier: str | None) -> bool:
    return bool(await saver.tier_of(thread.thread_id) == tier)
