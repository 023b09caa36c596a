"""
The tables: those of the stock saver, made by its own migrations, and ours.

Both are made in one transaction under one advisory lock, because parallel set-ups of the stock saver crash each other.
"""

from langgraph.checkpoint.postgres.base import MIGRATIONS
from psycopg import AsyncConnection, sql
from psycopg.rows import TupleRow

from saver.statements import migrations, quoted

_SETUP_LOCK = 7_135_021_544


async def prepare(connection: AsyncConnection[TupleRow], schema: str) -> None:
    """Bring the schema up to date; a no-op after two look-ups when it is."""
    if await _is_current(connection, schema):
        return
    name = sql.Identifier(schema)
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock(%s)", (_SETUP_LOCK,))
        found = await connection.execute("select 1 from pg_namespace where nspname = %s", (schema,))
        if await found.fetchone() is None:
            await connection.execute(sql.SQL("create schema {}").format(name))
        await connection.execute(sql.SQL("set local search_path to {}").format(name))
        await _stock_tables(connection)
        await _own_tables(connection, schema)


async def _is_current(connection: AsyncConnection[TupleRow], schema: str) -> bool:
    tables = [f"{quoted(schema)}.{table}" for table in ("checkpoint_migrations", "tier_migrations")]
    found = await connection.execute("select to_regclass(%s), to_regclass(%s)", tables)
    record = await found.fetchone()
    if record is None or None in record:
        return False
    name = sql.Identifier(schema)
    query = sql.SQL("select (select max(v) from {0}.checkpoint_migrations), (select max(v) from {0}.tier_migrations)")
    versions = await (await connection.execute(query.format(name))).fetchone()
    return versions is not None and versions[0] == len(MIGRATIONS) - 1 and versions[1] == migrations(schema)[-1][0]


async def _stock_tables(connection: AsyncConnection[TupleRow]) -> None:
    """The stock saver's migrations, as its own setup() runs them, but in our transaction."""
    await connection.execute(MIGRATIONS[0].encode())
    found = await connection.execute("select coalesce(max(v), -1) from checkpoint_migrations")
    record = await found.fetchone()
    done = record[0] if record else -1
    for version, text in enumerate(MIGRATIONS):
        if version > done:
            # Concurrent builds cannot run in a transaction; on tables that are new or small the difference is nil.
            await connection.execute(text.replace("CONCURRENTLY", "").encode())
            await connection.execute("insert into checkpoint_migrations (v) values (%s)", (version,))


async def _own_tables(connection: AsyncConnection[TupleRow], schema: str) -> None:
    await connection.execute("create table if not exists tier_migrations (v integer primary key)")
    found = await connection.execute("select coalesce(max(v), 0) from tier_migrations")
    record = await found.fetchone()
    done = record[0] if record else 0
    for version, text in migrations(schema):
        if version > done:
            await connection.execute(text)
            await connection.execute("insert into tier_migrations (v) values (%s)", (version,))
