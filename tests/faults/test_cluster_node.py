"""A plain address that leads to one node of a Redis cluster: an error that says so, and nothing half done."""

from collections.abc import Callable

import pytest

from saver import HotTierError, TierConfig, TieredSaver
from saver.keys import Keys
from tests.builders import Thread
from tests.faults.world import FAMILIES
from tests.fix_nodes import HOST, RedisNode, StartNode
from tests.waiting import eventually
from worker.embedded.server import free_port

SLOTS = 16384
REASON = "one node of a Redis cluster.*redis\\+cluster://"

Nodes = Callable[[int], tuple[RedisNode, RedisNode]]


@pytest.fixture
def start_cluster(start_node: StartNode) -> Nodes:
    """Starts two nodes: the first serves the slots before a number, the second the others."""

    def start(end: int) -> tuple[RedisNode, RedisNode]:
        # Ports of the bus that are free, too: by default they are ten thousand higher, wherever that is.
        buses = [free_port() for _ in range(2)]
        one, other = [start_node({"cluster-enabled": "yes", "cluster-port": bus}) for bus in buses]
        for node, first, last in ((one, 0, end - 1), (other, end, SLOTS - 1)):
            if first <= last:
                node.do("CLUSTER", "ADDSLOTSRANGE", first, last)
        one.do("CLUSTER", "MEET", HOST, other.port, buses[1])
        eventually(lambda: b"cluster_state:ok" in one.do("CLUSTER", "INFO"), within_seconds=20)
        return one, other

    return start


def config_of(node: RedisNode, config: TierConfig) -> TierConfig:
    url = f"redis://:{node.password}@{HOST}:{node.port}/0"
    return TierConfig(**{**config.model_dump(), "redis_url": url})


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
async def test_opening_a_node_that_serves_nothing_of_ours_is_refused(
    start_cluster: Nodes, config: TierConfig, family: type[TieredSaver]
) -> None:
    node, _ = start_cluster(0)

    with pytest.raises(HotTierError, match=REASON):
        async with family(config_of(node, config)):
            pass


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
async def test_calls_for_a_slot_that_moved_name_the_cluster(
    start_cluster: Nodes, config: TierConfig, family: type[TieredSaver]
) -> None:
    node, other = start_cluster(SLOTS)
    alone = config_of(node, config)
    async with family(alone) as saver:
        thread = Thread(saver)
        await thread.put({"x": [1]})
        slot = node.do("CLUSTER", "KEYSLOT", Keys(alone.key_prefix, alone.partitions).thread(thread.thread_id).thread)
        node.do("FLUSHALL")
        node.do("CLUSTER", "SETSLOT", slot, "NODE", other.do("CLUSTER", "MYID"))

        for call in (lambda: thread.put({"x": [2]}), lambda: thread.write(("x", 2)), thread.latest):
            with pytest.raises(HotTierError, match=REASON):
                await call()
