"""A second Redis that takes over for a while and hands back, as in a failover that somebody planned or nobody did."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.faults.world import World
from tests.fix_nodes import HOST, RedisNode
from tests.waiting import eventually

SYNC_SECONDS = 30

Do = Callable[..., Any]


@contextmanager
def standby(world: World, folder: Path) -> Iterator[RedisNode]:
    """A replica that has everything."""
    password = str(urlsplit(world.servers.redis_url).password)
    settings = {"requirepass": password, "masterauth": password, "repl-diskless-sync-delay": "0"}
    node = RedisNode(folder, settings)
    node.password = password
    try:
        node.start()
        world.redis("CONFIG", "SET", "repl-diskless-sync-delay", 0)
        world.redis("CONFIG", "SET", "masterauth", password)
        node.do("REPLICAOF", HOST, world.servers.redis_port)
        eventually(lambda: is_up(node.do("INFO", "replication")), within_seconds=SYNC_SECONDS)
        yield node
    finally:
        node.kill()
        shutil.rmtree(folder)


def take_over(world: World, node: RedisNode) -> None:
    """The standby becomes the primary that every address leads to; it has all that anybody was told of."""
    _closed_to_all(world)
    eventually(lambda: has_all(node.do, world.redis), within_seconds=SYNC_SECONDS)
    node.do("REPLICAOF", "NO", "ONE")
    _open(world, node.port)


def seize(world: World, node: RedisNode) -> None:
    """The standby, cut off for some time, becomes the primary: what the other one took meanwhile is lost."""
    _closed_to_all(world)
    _open(world, node.port)


def hand_back(world: World, node: RedisNode) -> None:
    """The first one follows until it has all, then it is the primary again."""
    world.redis("REPLICAOF", HOST, node.port)
    eventually(lambda: is_up(world.redis("INFO", "replication")), within_seconds=SYNC_SECONDS)
    _closed_to_all(world)
    eventually(lambda: has_all(world.redis, node.do), within_seconds=SYNC_SECONDS)
    world.redis("REPLICAOF", "NO", "ONE")
    _open(world, world.servers.redis_port)


def is_up(info: dict[str, Any]) -> bool:
    return bool(info["master_link_status"] == "up")


def has_all(replica: Do, primary: Do) -> bool:
    there = primary("INFO", "replication")["master_repl_offset"]
    here = replica("INFO", "replication")
    return is_up(here) and bool(here["slave_repl_offset"] >= there)


def _closed_to_all(world: World) -> None:
    """Nobody is told anything any more."""
    world.redis_proxy.refuse_new()
    world.redis_proxy.cut()


def _open(world: World, port: int) -> None:
    world.redis_proxy.upstream = (HOST, port)
    world.redis_proxy.accept_new()
