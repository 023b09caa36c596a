"""The stock Postgres saver on a schema of our choice, and the rows of its tables."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

_TABLES = {
    "checkpoints": "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, "
    "checkpoint::text, metadata::text",
    "checkpoint_blobs": "thread_id, checkpoint_ns, channel, version, type, blob",
    "checkpoint_writes": "thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, type, blob",
}


@asynccontextmanager
async def stock_saver(
    postgres_url: str, schema: str, serde: SerializerProtocol | None = None
) -> AsyncIterator[AsyncPostgresSaver]:
    """AsyncPostgresSaver as its users open it, with its tables made."""
    url = make_conninfo(postgres_url, options=f"-c search_path={schema}")
    connection = await AsyncConnection.connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row)
    async with connection:
        saver = AsyncPostgresSaver(connection, serde=serde)
        await saver.setup()
        yield saver


def rows(postgres_url: str, schema: str, thread_id: str) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of a thread in the three tables, in the order of their keys."""
    found = {}
    with psycopg.connect(postgres_url) as connection:
        for table, columns in _TABLES.items():
            query = sql.SQL("select {} from {} where thread_id = %s order by 1, 2, 3, 4, 5").format(
                sql.SQL(columns), sql.Identifier(schema, table)
            )
            found[table] = connection.execute(query, (thread_id,)).fetchall()
    return found
