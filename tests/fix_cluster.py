"""A Redis Cluster of three primaries, each with a replica, that the tests break and reshard."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import redis

from saver.slots import slot_of
from tests.fix_nodes import HOST, RedisNode, StartNode
from tests.waiting import eventually
from worker.embedded.server import free_port

SLOTS = 16384
PRIMARIES = 3
NODE_TIMEOUT_MS = 1500


@dataclass
class Cluster:
    """All nodes; the first three began as primaries, the next three as their replicas."""

    nodes: list[RedisNode]

    @property
    def url(self) -> str:
        """How agents and workers find it: two of the nodes, and not the first."""
        hosts = ",".join(f"{HOST}:{node.port}" for node in self.nodes[1:3])
        return f"redis+cluster://:{self.nodes[0].password}@{hosts}"

    def name_of(self, node: RedisNode) -> str:
        return str(node.do("CLUSTER", "MYID").decode())

    def owner(self, slot: int) -> RedisNode:
        """The node that serves a slot by its own word."""
        return next(node for node in self.nodes if node.answers() and serves(node, slot))

    def is_whole(self) -> bool:
        """Every node sees every slot served, and every primary has its replica."""
        facts = {b"cluster_state:ok", f"cluster_known_nodes:{len(self.nodes)}".encode()}
        return all(facts <= set(node.do("CLUSTER", "INFO").split()) for node in self.nodes)

    def next_to(self, node: RedisNode) -> RedisNode:
        """Another primary, while all are as they began."""
        return self.nodes[(self.nodes.index(node) + 1) % PRIMARIES]

    def begin_move(self, slot: int, target: RedisNode) -> RedisNode:
        """Open a slot for its way to another node, the old way: keys one by one. Returns where it was."""
        source = self.owner(slot)
        target.do("CLUSTER", "SETSLOT", slot, "IMPORTING", self.name_of(source))
        source.do("CLUSTER", "SETSLOT", slot, "MIGRATING", self.name_of(target))
        return source

    def move_keys(self, slot: int, source: RedisNode, target: RedisNode, most: int = 100_000) -> int:
        """Move keys of an open slot, some of them or all."""
        keys = source.do("CLUSTER", "GETKEYSINSLOT", slot, most)
        if keys:
            source.do("MIGRATE", HOST, target.port, "", 0, 5000, "AUTH", target.password, "KEYS", *keys)
        return len(keys)

    def end_move(self, slot: int, source: RedisNode, target: RedisNode) -> None:
        """Tell everybody, the target first."""
        name = self.name_of(target)
        for node in (target, source, *self.nodes):
            if node.answers() and node.do("ROLE")[0] in (b"master", "master"):
                node.do("CLUSTER", "SETSLOT", slot, "NODE", name)

    def move(self, slot: int, target: RedisNode) -> None:
        """All of it: what `redis-cli --cluster reshard` does for one slot."""
        source = self.begin_move(slot, target)
        if source is not target:
            while self.move_keys(slot, source, target, 10):
                pass
        self.end_move(slot, source, target)

    def all_keys(self) -> list[bytes]:
        """Every key of every primary."""
        return [key for node in self.nodes[:PRIMARIES] for key in node.do("KEYS", "*")]


def serves(node: RedisNode, slot: int) -> bool:
    """Whether a node serves a slot, as it says itself."""
    told = node.do("CLUSTER", "SLOTS")
    return any(first <= slot <= last and primary[1] == node.port for first, last, primary, *_ in told)


def slot_of_partition(prefix: str, number: int) -> int:
    """Where all keys of a partition are."""
    return slot_of(f"{prefix}:{{p{number:03}}}:dirty")


def make_cluster(start_node: StartNode, node_timeout_ms: int = NODE_TIMEOUT_MS) -> Cluster:
    """Start six nodes and join them."""
    settings = {
        "cluster-enabled": "yes",
        "cluster-node-timeout": node_timeout_ms,
        "cluster-replica-validity-factor": 0,
        "repl-diskless-sync-delay": 0,
    }
    buses = [free_port() for _ in range(2 * PRIMARIES)]
    nodes = [start_node({**settings, "cluster-port": bus}, password="cluster") for bus in buses]
    for at, node in enumerate(nodes[:PRIMARIES]):
        first, last = at * SLOTS // PRIMARIES, (at + 1) * SLOTS // PRIMARIES - 1
        node.do("CLUSTER", "ADDSLOTSRANGE", first, last)
        node.do("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
    for node in nodes[1:]:
        node.do("CLUSTER", "MEET", HOST, nodes[0].port, buses[0])
    cluster = Cluster(nodes)
    eventually(cluster.is_whole, within_seconds=30)
    for primary, follower in zip(nodes[:PRIMARIES], nodes[PRIMARIES:], strict=True):
        name = cluster.name_of(primary)
        eventually(partial(_follows, follower, name), within_seconds=20)
    eventually(lambda: all(_is_in_step(node) for node in nodes[PRIMARIES:]), within_seconds=20)
    return cluster


def _follows(follower: RedisNode, name: str) -> bool:
    try:
        follower.do("CLUSTER", "REPLICATE", name)
    except redis.exceptions.ResponseError:
        return False  # it does not know that node yet
    return True


def _is_in_step(follower: RedisNode) -> bool:
    told: dict[str, Any] = follower.do("INFO", "replication")
    return bool(told["role"] == "slave" and told["master_link_status"] == "up")


@pytest.fixture
def cluster(start_node: StartNode) -> Cluster:
    return make_cluster(start_node)
