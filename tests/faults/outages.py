"""What can be wrong with a server, for as long as a block lasts."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.faults.world import World, family_of, frozen
from tests.waiting import eventually

Fault = Callable[[World], AbstractContextManager[None]]

# ---- Postgres


@contextmanager
def postgres_refused(world: World) -> Iterator[None]:
    world.postgres_proxy.refuse_new()
    world.postgres_proxy.cut()
    try:
        yield
    finally:
        world.postgres_proxy.accept_new()


@contextmanager
def postgres_hung(world: World) -> Iterator[None]:
    with frozen(*family_of(world.servers.postgres_pid)):
        yield


@contextmanager
def postgres_crowded(world: World) -> Iterator[None]:
    """Others hold every connection that the server gives."""
    with ExitStack() as stack:
        with postgres_refused(world), suppress(psycopg.OperationalError):
            while True:
                stack.enter_context(psycopg.connect(world.servers.postgres_url))
        yield


@contextmanager
def postgres_read_only(world: World) -> Iterator[None]:
    world.postgres("alter system set default_transaction_read_only = on")
    world.postgres("select pg_reload_conf()")
    try:
        yield
    finally:
        world.postgres("alter system reset default_transaction_read_only")
        world.postgres("select pg_reload_conf()")


@contextmanager
def postgres_disk_full(world: World) -> Iterator[None]:
    """
    No room for another page of the writes, whose table is empty.

    The kernel itself says so: it does for whatever is written to /dev/full.
    """
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    [(directory, name)] = world.postgres(
        f"select current_setting('data_directory'), pg_relation_filepath('{world.name}.checkpoint_writes')"
    )
    path = Path(directory, name)
    try:
        aside = path.rename(path.with_name(f"{path.name}.aside"))
    except OSError:
        pytest.skip("the files of this Postgres are out of reach")
    path.symlink_to("/dev/full")
    world.end_sessions()  # they have the table open
    try:
        yield
    finally:
        path.unlink()
        aside.rename(path)
        world.end_sessions()


# ---- Redis


@contextmanager
def redis_refused(world: World) -> Iterator[None]:
    world.redis_proxy.refuse_new()
    world.redis_proxy.cut()
    try:
        yield
    finally:
        world.redis_proxy.accept_new()


@contextmanager
def redis_hung(world: World) -> Iterator[None]:
    with frozen(world.servers.redis_pid):
        yield


@contextmanager
def redis_read_only(world: World) -> Iterator[None]:
    world.redis("REPLICAOF", "127.0.0.1", 1)
    try:
        yield
    finally:
        world.redis("REPLICAOF", "NO", "ONE")


def fill_redis(world: World) -> None:
    """Take all memory that is left, down to the last small value."""
    # Many values: a single one that grows takes twice what it needs, far beyond the limit.
    used = int(world.redis("INFO", "memory")["used_memory"])
    world.redis("CONFIG", "SET", "maxmemory", used + 300_000)

    def is_full() -> bool:
        try:
            world.redis("SET", f"ballast:{uuid4()}", "x" * 5_000)
        except Exception as error:  # noqa: BLE001 - the client's class for it differs between versions
            return "maxmemory" in str(error)
        return False

    eventually(is_full)


@contextmanager
def redis_full(world: World) -> Iterator[None]:
    fill_redis(world)
    try:
        yield
    finally:
        world.redis("CONFIG", "SET", "maxmemory", 0)
