"""A primary, two replicas and three Sentinels that watch them."""

from dataclasses import dataclass

import pytest

from tests.fix_nodes import HOST, RedisNode, StartNode
from tests.waiting import eventually

SERVICE = "main"
DOWN_AFTER_MS = 800


@dataclass
class Watched:
    """Redis behind Sentinels."""

    nodes: list[RedisNode]
    sentinels: list[RedisNode]

    @property
    def url(self) -> str:
        """How agents and workers find it."""
        password, hosts = self.nodes[0].password, ",".join(f"{HOST}:{one.port}" for one in self.sentinels)
        return f"redis+sentinel://:{password}@{hosts}/{SERVICE}/0?sentinel_password={self.sentinels[0].password}"

    @property
    def primary(self) -> RedisNode:
        """Which node it is, as the first Sentinel that answers says."""
        for sentinel in self.sentinels:
            if sentinel.answers():
                _, port = sentinel.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
                return next(node for node in self.nodes if node.port == int(port))
        raise AssertionError

    def is_whole(self) -> bool:
        """Every replica follows, every Sentinel knows the others."""
        told = [one.do("SENTINEL", "MASTER", SERVICE) for one in self.sentinels]
        known = [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in told]
        counts = [(one[b"num-slaves"], one[b"num-other-sentinels"]) for one in known]
        return self.primary.do("INFO", "replication")["connected_slaves"] == 2 and counts == [(b"2", b"2")] * 3

    def has_failed_over(self, old: RedisNode) -> bool:
        """Another node is the primary, by its own word too."""
        new = self.primary
        return new is not old and new.do("INFO", "replication")["role"] == "master"


@pytest.fixture
def watched(start_node: StartNode) -> Watched:
    settings = {"repl-diskless-sync-delay": 0, "appendonly": "no"}
    primary = start_node(settings)
    follow = {**settings, "replicaof": f"{HOST} {primary.port}"}
    nodes = [primary, *(start_node(follow, password=primary.password) for _ in range(2))]
    watch = {
        "sentinel monitor": f"{SERVICE} {HOST} {primary.port} 2",
        "sentinel auth-pass": f"{SERVICE} {primary.password}",
        "sentinel sentinel-pass": "only-for-sentinels",
        "sentinel down-after-milliseconds": f"{SERVICE} {DOWN_AFTER_MS}",
        "sentinel failover-timeout": f"{SERVICE} 3000",
    }
    made = [start_node(watch, "--sentinel", password="only-for-sentinels") for _ in range(3)]
    found = Watched(nodes, made)
    eventually(found.is_whole, within_seconds=30)
    return found
