"""CFG-02: behind pgbouncer in transaction mode, with fewer server connections than there are clients."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

import psycopg
import pytest
import pytest_asyncio

from jobs.retain import retain
from saver import TierConfig, TieredSaver
from saver.archive import archive
from saver.connect import Tiers, connect
from saver.destroy import delete
from saver.load import promote
from tests.builders import Thread
from tests.conforming import CAPABILITIES, failures
from tests.driven import Family
from tests.faults.world import World
from tests.movement.steps import with_settings
from tests.waiting import eventually
from worker.embedded.server import free_port

SERVER_CONNECTIONS = 3
MOVERS = 6


@pytest.fixture
def pooler(world: World, tmp_path: Path) -> Iterator[TierConfig]:
    """A configuration whose Postgres address leads through a pooler."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    port, server = free_port(), urlsplit(world.servers.postgres_url)
    settings = tmp_path / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\npostgres = host=127.0.0.1 port={server.port} user=postgres password={server.password}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\nunix_socket_dir =\n"
        f"pool_mode = transaction\ndefault_pool_size = {SERVER_CONNECTIONS}\nmax_client_conn = 200\n"
    )
    as_nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    settings.chmod(0o644)
    with settings.open() as handle:
        process = subprocess.Popen([program, f"/dev/fd/{handle.fileno()}"], pass_fds=[handle.fileno()], **as_nobody)  # type: ignore[call-overload]
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    eventually(lambda: answers(url))
    yield world.config_for(world.servers.redis_url, url, postgres_timeout="5s")
    process.send_signal(signal.SIGINT)
    process.wait(10)


def answers(url: str) -> bool:
    try:
        with psycopg.connect(url) as connection:
            connection.execute("select 1")
    except psycopg.OperationalError:
        return False
    return True


@pytest_asyncio.fixture
async def movers(pooler: TierConfig) -> AsyncIterator[list[Tiers]]:
    """Several workers that all come at once and find an empty database."""
    async with AsyncExitStack() as stack:
        yield list(await asyncio.gather(*(stack.enter_async_context(connect(pooler)) for _ in range(MOVERS))))


async def prepared(config: TierConfig) -> int:
    """How many statements a reader prepared on its connection."""
    async with connect(config.model_copy(update={"postgres_min_size": 1, "postgres_max_size": 1})) as tiers:
        for _ in range(3):
            await tiers.cold.read_newest("unknown", "")
        async with tiers.cold._pool.connection() as connection:
            cursor = await connection.execute("select count(*) from pg_prepared_statements")
            return (await cursor.fetchall())[0][0]  # type: ignore[no-any-return]


async def test_statements_are_prepared_only_where_no_pooler_is(world: World, pooler: TierConfig) -> None:
    direct = world.config_for(world.servers.redis_url, world.servers.postgres_url)

    assert await prepared(direct) > 0
    assert await prepared(pooler) == 0


async def test_movers_and_readers_share_few_connections(world: World, pooler: TierConfig, movers: list[Tiers]) -> None:
    async with TieredSaver(pooler) as saver:
        threads = [Thread(saver) for _ in range(200)]
        for first in range(0, 200, 50):
            await asyncio.gather(*(thread.put({"x": thread.thread_id}) for thread in threads[first : first + 50]))
        ids = [thread.thread_id for thread in threads]

        await asyncio.gather(*(archive_all(tiers, ids[at:] + ids[:at]) for at, tiers in enumerate(movers)))
        assert world.postgres("select count(distinct thread_id) from checkpoints") == [(200,)]
        await asyncio.gather(*(saver.demote(thread_id) for thread_id in ids[:60]))
        await asyncio.gather(*(promote(movers[at % MOVERS], thread_id) for at, thread_id in enumerate(ids[:30])))
        found = [await thread.values() for thread in threads]

    assert found == [{"x": thread_id} for thread_id in ids]
    assert is_at_rest(world)


async def archive_all(tiers: Tiers, ids: list[str]) -> None:
    for first in range(0, len(ids), 20):
        await archive(tiers, ids[first : first + 20])


def is_at_rest(world: World) -> bool:
    """No session is left in a transaction, and no lock is held."""
    stuck = world.postgres("select count(*) from pg_stat_activity where state like 'idle in transaction%'")
    held = world.postgres("select count(*) from pg_locks where locktype = 'advisory'")
    return stuck == held == [(0,)]


async def test_locks_exclude_each_other_through_the_pooler(world: World, movers: list[Tiers]) -> None:
    one, other = movers[:2]
    async with TieredSaver(one.config) as saver:
        thread = Thread(saver)
        await thread.put({"x": [1]})
        found: list[int] = []

        async def look(point: str) -> None:
            if point == "archive: rows sent":
                found.append((await archive(other, [thread.thread_id])).threads)

        one.pause = look
        assert (await archive(one, [thread.thread_id])).threads == 1

    assert found == [0]


async def test_delete_retain_and_setup_work_and_stay_within_the_schema(world: World, movers: list[Tiers]) -> None:
    async with TieredSaver(movers[0].config) as saver:
        thread = Thread(saver)
        await thread.put({"x": [1]})
        await saver.demote(thread.thread_id)

        await delete(movers[1], thread.thread_id)
        await asyncio.gather(*(tiers.cold.setup() for tiers in movers))

        assert await thread.latest() is None
        old = Thread(saver)
        await old.put({"x": [1]})
        await saver.demote(old.thread_id)
        retaining = with_settings(movers[2], retain_for=timedelta(milliseconds=1))
        assert (await retain(retaining)).deleted == 1
        assert await old.latest() is None
    places = world.postgres("select distinct schemaname from pg_tables where tablename ~ '^(checkpoint|tier_)'")
    assert places == [(world.name,)]
    assert is_at_rest(world)


@pytest.mark.patient
@pytest.mark.parametrize("family", get_args(Family))
@pytest.mark.parametrize("place", ["evicted", "trimmed"])
async def test_conforms_behind_the_pooler(movers: list[Tiers], family: Family, place: str) -> None:
    """Every capability of LangGraph's suite, base and extended, with three server connections for all."""
    failed = {name: await failures(movers[0].config, movers[0], name, family, place) for name in CAPABILITIES}

    assert {name: tests for name, tests in failed.items() if tests} == {}
