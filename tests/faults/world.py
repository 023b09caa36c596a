"""A private pair of servers with the faults they can have, and the blocking family in the clothes of the async one."""

import asyncio
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
import pytest
import redis
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple

from saver import TierConfig, TieredSaver
from tests.fix_proxy import Proxy
from worker.embedded import Embedded

REDIS_SECONDS = 0.5
POSTGRES_SECONDS = 1.0
SLACK_SECONDS = 0.7  # a machine that other work shares


class BlockingFamily(TieredSaver):
    """A saver entered with `with`, whose blocking methods run in threads: one test then serves both families."""

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(lambda: self.prune(thread_ids, strategy=strategy))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = await asyncio.to_thread(lambda: [*self.list(config, filter=filter, before=before, limit=limit)])
        for one in found:
            yield one


FAMILIES = {"async": TieredSaver, "blocking": BlockingFamily}


class World:
    """Two servers, a proxy before each, and hands to break them."""

    def __init__(self, servers: Embedded, redis_proxy: Proxy, postgres_proxy: Proxy) -> None:
        self.servers = servers
        self.redis_proxy = redis_proxy
        self.postgres_proxy = postgres_proxy
        self.name = f"fault_{secrets.token_hex(4)}"
        self.limits = {"redis_timeout": "500ms", "postgres_timeout": "1s"}

    def config_for(self, redis_url: str, postgres_url: str, **settings: object) -> TierConfig:
        values: dict[str, Any] = {
            **self.limits,
            "partitions": 4,
            "key_prefix": self.name,
            "postgres_schema": self.name,
            **settings,
        }
        return TierConfig(redis_url=redis_url, postgres_url=postgres_url, **values)

    @property
    def config(self) -> TierConfig:
        """Through the proxies, with short limits unless the test is marked patient."""
        return self.config_for(
            self.redis_proxy.url(self.servers.redis_url), self.postgres_proxy.url(self.servers.postgres_url)
        )

    @property
    def direct_config(self) -> TierConfig:
        """Past the proxies."""
        return self.config_for(self.servers.redis_url, self.servers.postgres_url)

    @property
    def variables(self) -> dict[str, str]:
        """The same configuration as the environment of another process."""
        return {
            "TIER_REDIS_URL": self.config.redis_url.get_secret_value(),
            "TIER_POSTGRES_URL": self.config.postgres_url.get_secret_value(),
            "TIER_REDIS_TIMEOUT": self.limits["redis_timeout"],
            "TIER_POSTGRES_TIMEOUT": self.limits["postgres_timeout"],
            "TIER_PARTITIONS": "4",
            "TIER_KEY_PREFIX": self.name,
            "TIER_POSTGRES_SCHEMA": self.name,
        }

    # ---- Redis

    def redis(self, *command: object) -> Any:
        """One command, past the proxy."""
        with redis.Redis.from_url(self.servers.redis_url, socket_timeout=5) as client:
            return client.execute_command(*command)

    # ---- Postgres

    def postgres(self, statement: str) -> list[tuple[Any, ...]]:
        """One statement, past the proxy."""
        with self._session() as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def mend(self) -> None:
        """Undo what the test changed in the servers."""
        self.redis("CONFIG", "SET", "maxmemory", 0)
        self.redis("FLUSHALL")
        self.postgres("alter system reset all")
        self.postgres("select pg_reload_conf()")
        self.postgres(f"drop schema if exists {self.name} cascade")

    def cold_ids(self, thread_id: str) -> list[str]:
        """What Postgres has of a thread, newest first."""
        with self._session() as connection:
            query = "select checkpoint_id from checkpoints where thread_id = %s order by 1 desc"
            return [row[0] for row in connection.execute(query, (thread_id,)).fetchall()]

    def _session(self) -> psycopg.Connection[tuple[Any, ...]]:
        options = f"-c search_path={self.name} -c default_transaction_read_only=off"
        return psycopg.connect(self.servers.postgres_url, autocommit=True, options=options)

    def end_sessions(self) -> int:
        """Terminate every session of ours."""
        [(count,)] = self.postgres(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity "
            "where backend_type = 'client backend' and pid <> pg_backend_pid()"
        )
        return int(count)


def family_of(pid: int) -> list[int]:
    """A process and its children: a stopped postmaster alone leaves its sessions running."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        pytest.skip("only Linux tells the children of a process")
    return [pid, *(int(child) for child in children.read_text().split())]


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """The processes stand still meanwhile; they neither answer nor close their connections."""
    try:
        for pid in pids:
            tell(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            tell(pid, signal.SIGCONT)


def tell(pid: int, number: signal.Signals) -> None:
    """A session of Postgres may have ended by itself since it was listed."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """The body ends in time, on a machine that other work shares."""
    start = time.monotonic()
    yield
    took = time.monotonic() - start
    assert took <= seconds + SLACK_SECONDS, f"took {took:.2f} s, the limit is {seconds:g} s"
