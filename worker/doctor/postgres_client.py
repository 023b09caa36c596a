"""Postgres as the doctor asks it: one connection of its own, which tells a pooler from a server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row

from saver.config import TierConfig
from saver.errors import ColdTierError
from saver.statements import statements

# What a refusal to connect means. The text of the server is not quoted: it names users, hosts and databases.
_REFUSALS = {
    "password": "it refuses the user or the password of TIER_POSTGRES_URL",
    "no pg_hba.conf entry": "its pg_hba.conf does not let this user in from here, or not without TLS",
    "does not exist": "the user or the database of TIER_POSTGRES_URL does not exist",
    "too many": "it has no connection left",
    "no more connections": "it has no connection left",
    "starting up": "it is starting up",
    "shutting down": "it is shutting down",
    "translate host name": "the host of TIER_POSTGRES_URL is not known",
    "resolve host": "the host of TIER_POSTGRES_URL is not known",
    "certificate": "the certificates do not fit",
    "SSL": "TLS failed",
    "refused": "nothing listens there",
    "timeout expired": "it did not answer in time",
}


class PostgresClient:
    """One connection. What fails is a ColdTierError that quotes no row and no address."""

    def __init__(self, connection: AsyncConnection[DictRow], config: TierConfig) -> None:
        self._connection = connection
        self._texts = statements(config.postgres_schema)
        self._seconds = config.postgres_timeout.total_seconds()

    @classmethod
    @asynccontextmanager
    async def open(cls, config: TierConfig) -> AsyncIterator[Self]:
        """Connect. Raises ColdTierError."""
        seconds = config.postgres_timeout.total_seconds()
        try:
            connection = await AsyncConnection.connect(
                config.postgres_url.get_secret_value(),
                autocommit=True,
                prepare_threshold=None,  # a prepared statement does not survive a transaction-mode pooler
                connect_timeout=max(2, round(seconds)),
                row_factory=dict_row,
            )
        except psycopg.Error as error:
            text = str(error)
            reason = next((told for words, told in _REFUSALS.items() if words in text), type(error).__name__)
            raise ColdTierError(
                f"Postgres cannot be reached: {reason}; check the server and TIER_POSTGRES_URL"
            ) from error
        async with connection:
            yield cls(connection, config)

    @property
    def process_id(self) -> int:
        """The process that greeted us. A pooler makes up a number of its own."""
        return self._connection.pgconn.backend_pid

    async def fetch(self, name: str, **parameters: Any) -> list[DictRow]:
        """One named statement. Raises ColdTierError."""
        try:
            async with asyncio.timeout(self._seconds):
                cursor = await self._connection.execute(self._texts[name], parameters)
                return await cursor.fetchall()
        except TimeoutError as error:
            raise ColdTierError(f"Postgres did not answer within {self._seconds:g} s; check the server") from error
        except psycopg.Error as error:
            state = error.sqlstate
            raise ColdTierError(
                f"Postgres failed ({type(error).__name__}, SQLSTATE {state}); check its log", sqlstate=state
            ) from error
