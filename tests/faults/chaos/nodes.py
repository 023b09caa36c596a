"""
The chaos on a Redis Cluster: primaries that are killed and failed over, replicas that lag, slots that move.

The queue stays on the Redis of its own, behind the proxy. A failover is handled as in the chaos of one Redis: one that
may cost what was acknowledged strikes only when all agents write through, for then nothing may be lost.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from redis.exceptions import RedisError

from saver import TierConfig
from tests.faults.chaos.strikes import Storm, Strike
from tests.faults.world import World
from tests.fix_cluster import PRIMARIES, Cluster, make_cluster, slot_of_partition
from tests.fix_nodes import RedisNode, nodes_below
from tests.waiting import eventually

PARTITIONS = 12
# Longer than a machine that is busy lets a node wait: a failover that nobody meant would cost what was acknowledged.
NODE_TIMEOUT_MS = 3000
BRIEFLY = 0.05, 0.5  # seconds, far less than that
HEALED_SECONDS = 60


class ClusterWorld(World):
    """A cluster for the threads; the embedded Redis, behind its proxy, has the queue."""

    cluster: Cluster

    @property
    def config(self) -> TierConfig:
        queue, postgres = (
            self.redis_proxy.url(self.servers.redis_url),
            self.postgres_proxy.url(self.servers.postgres_url),
        )
        return self.config_for(self.cluster.url, postgres, queue_url=queue, partitions=PARTITIONS)

    @property
    def variables(self) -> dict[str, str]:
        own = {"TIER_QUEUE_URL": self.config.queue_url.get_secret_value(), "TIER_PARTITIONS": str(PARTITIONS)}
        return {**super().variables, **own}


@contextmanager
def nodes_in(folder: Path) -> Iterator[Cluster]:
    """Three primaries, each with a replica."""
    with nodes_below(folder) as start:
        yield make_cluster(start, node_timeout_ms=NODE_TIMEOUT_MS)


class NodeStrikes:
    """The faults of a cluster. Each ends when every primary has its replica again, which the next may need."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self._cluster = world.cluster

    def safe(self) -> dict[str, Strike]:
        """Those that cost nothing that was acknowledged."""
        return self._healed(
            {
                "cluster: connections cut": self._cut,
                "cluster: a primary frozen briefly": self._freeze_briefly,
                "cluster: slots moved": self._move_slots,
                "cluster: handed over to a replica": self._hand_over,
            }
        )

    def losing(self) -> dict[str, Strike]:
        """What only write-through withstands: replication is asynchronous."""
        return self._healed(
            {
                "cluster: a primary killed and failed over": self._kill,
                "cluster: a primary frozen and failed over": self._freeze_long,
                "cluster: failed over without its last writes": self._kill_ahead,
                "cluster: a primary killed, and back empty": self._back_empty,
                "cluster: emptied": self._empty,
            }
        )

    def _cut(self, storm: Storm) -> None:
        for node in primaries(self._cluster):
            node.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def _freeze_briefly(self, storm: Storm) -> None:
        node, _ = self._pair(storm)
        node.freeze()
        storm.last(*BRIEFLY)
        node.thaw()

    def _move_slots(self, storm: Storm) -> None:
        for number in storm.chance.sample(range(PARTITIONS), 3):
            slot = slot_of_partition(self._world.name, number)
            source = self._cluster.owner(slot)
            others = [node for node in primaries(self._cluster) if node is not source]
            self._cluster.move(slot, storm.chance.choice(others))

    def _hand_over(self, storm: Storm) -> None:
        _, replica = self._pair(storm)
        replica.do("CLUSTER", "FAILOVER")
        eventually(lambda: is_primary(replica), within_seconds=HEALED_SECONDS)

    def _kill(self, storm: Storm) -> None:
        primary, replica = self._pair(storm)
        primary.kill()
        self._is_taken_over(storm, replica)
        primary.start()

    def _freeze_long(self, storm: Storm) -> None:
        primary, replica = self._pair(storm)
        primary.freeze()
        self._is_taken_over(storm, replica)
        primary.thaw()  # for a moment it takes itself for a primary

    def _kill_ahead(self, storm: Storm) -> None:
        primary, replica = self._pair(storm)
        replica.freeze()
        primary.do("CLIENT", "KILL", "TYPE", "replica")  # nothing is replicated any more
        storm.last(0.3, 1)
        primary.kill()
        replica.thaw()
        self._is_taken_over(storm, replica)
        primary.start()

    def _back_empty(self, storm: Storm) -> None:
        primary, _ = self._pair(storm)
        primary.kill()
        primary.start()  # at once, so that nobody takes over

    def _empty(self, storm: Storm) -> None:
        for node in primaries(self._cluster):
            node.do("FLUSHALL")

    # ---- private

    def _pair(self, storm: Storm) -> tuple[RedisNode, RedisNode]:
        primary = storm.chance.choice(primaries(self._cluster))
        return primary, replica_of(self._cluster, primary)

    def _is_taken_over(self, storm: Storm, replica: RedisNode) -> None:
        eventually(lambda: is_primary(replica), within_seconds=HEALED_SECONDS)
        storm.last(0.2, 2)

    def _healed(self, strikes: Mapping[str, Strike]) -> dict[str, Strike]:
        return {name: self._until_healed(strike) for name, strike in strikes.items()}

    def _until_healed(self, strike: Strike) -> Strike:
        def run(storm: Storm) -> None:
            strike(storm)
            eventually(lambda: is_healed(self._cluster), within_seconds=HEALED_SECONDS)

        return run


def is_primary(node: RedisNode) -> bool:
    return bool(node.do("ROLE")[0] in (b"master", "master"))


def primaries(cluster: Cluster) -> list[RedisNode]:
    return [node for node in cluster.nodes if is_primary(node)]


def replica_of(cluster: Cluster, primary: RedisNode) -> RedisNode:
    _, _, followers = primary.do("ROLE")
    return next(node for node in cluster.nodes if node.port == int(followers[0][1]))


def is_healed(cluster: Cluster) -> bool:
    try:
        found = primaries(cluster)
        followers = [replica_of(cluster, node) for node in found]
        are_up = all(node.do("INFO", "replication")["master_link_status"] == "up" for node in followers)
        return are_up and len(found) == PRIMARIES and cluster.is_whole()
    except (RedisError, ValueError, LookupError, TypeError):  # a node changes its role between two questions
        return False
