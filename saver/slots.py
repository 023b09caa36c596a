"""
Which node of a cluster serves which slot, and what to do when a node says that it is another one.

The way of a request is told once, as steps that an async and a blocking runner execute (`cluster.py`). Every request
may be sent twice, so a node that does not answer in time is treated like one that never got it.
"""

import re
import time
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from redis.cluster import parse_cluster_slots
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from saver.carriers import LOST, SLOW
from saver.errors import HotTierError
from saver.seeds import Host

AGAIN_SECONDS = 0.05
FRESH_SECONDS = 0.1  # a map this young is not asked for again

# The node cannot serve the slot now, though it or another one may in a moment: half of the slot is there, the cluster
# looks for a new primary, the node is a replica by now, it starts, it does not answer.
_NOT_NOW = ("TRYAGAIN", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING", LOST, SLOW)
_ELSEWHERE = re.compile(r"(MOVED|ASK) \d+ (\S*):(\d+)")
_KEYLESS = ("TIME", "INFO", "PING")


class Send(NamedTuple):
    """Send the request to a node; `is_asking` for a slot that is only on its way there."""

    host: Host
    is_asking: bool


class Refresh(NamedTuple):
    """Ask the cluster anew which node serves which slot."""


class Pause(NamedTuple):
    """Wait a moment."""

    seconds: float


Step = Send | Refresh | Pause
Way = Generator[Step, Any, Any]


def slot_of(key: str) -> int:
    """The slot of a key: that of its hash tag, so of its partition."""
    return int(key_slot(key.encode()))


def slot_of_command(command: Sequence[str | bytes | int]) -> int:
    """The slot of a plain command, by its key; one without a key goes anywhere."""
    if command[0] in _KEYLESS:
        return 0
    return slot_of(str(command[2 if command[0] == "MEMORY" else 1]))


class SlotMap:
    """What the cluster told last."""

    def __init__(self, seeds: Sequence[Host]) -> None:
        self._seeds = seeds
        self._nodes: list[Host | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        self._known: list[Host] = []
        self._suspects: set[Host] = set()
        self._learned_at = float("-inf")

    def node_of(self, slot: int) -> Host | None:
        """The node that serves a slot, None when the cluster must be asked."""
        node = self._nodes[slot]
        return None if node in self._suspects else node

    def last_node_of(self, slot: int) -> Host | None:
        """The same, though that node may not have answered."""
        return self._nodes[slot]

    @property
    def primaries(self) -> list[Host]:
        """Every node that serves a slot."""
        return sorted({node for node in self._nodes if node is not None})

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self._learned_at < FRESH_SECONDS

    @property
    def to_ask(self) -> list[Host]:
        """Whom to ask for the map: the nodes that are known, then those of the address; last who did not answer."""
        everybody = dict.fromkeys((*self._known, *self._seeds))
        return sorted(everybody, key=lambda host: host in self._suspects)

    def suspect(self, host: Host) -> None:
        """A node did not answer: whoever needs it asks the cluster first."""
        self._suspects.add(host)

    def moved(self, slot: int, host: Host) -> None:
        """A node told where one slot went."""
        self._nodes[slot] = host

    def learn(self, reply: Any, asked: Host) -> None:
        """Take what a node answered to CLUSTER SLOTS. A slot that nobody serves keeps the node that it had."""
        told = parse_cluster_slots(reply, current_host=asked[0])
        for (first, last), nodes in told.items():
            self._nodes[first : last + 1] = [nodes["primary"]] * (last + 1 - first)
        self._known = [host for nodes in told.values() for host in (nodes["primary"], *nodes["replicas"])]
        self._suspects.clear()
        self._learned_at = time.monotonic()


def way(slots: SlotMap, slot: int, limit: float) -> Way:
    """
    Send a request to the node that serves a slot, wherever that is by then, and return its reply.

    Raises HotTierError: at once for what another node could not do better, otherwise when the time is up.
    """
    deadline = time.monotonic() + limit
    host, is_asking = slots.node_of(slot), False
    while True:
        if host is None:
            yield Refresh()
            host = slots.last_node_of(slot)
        if host is None:
            raise HotTierError("no node of the Redis cluster serves this slot; look at CLUSTER INFO")
        try:
            return (yield Send(host, is_asking))
        except HotTierError as error:
            host, is_asking = _next(slots, slot, host, error)
            if time.monotonic() > deadline:
                raise
        if host is None:
            yield Pause(AGAIN_SECONDS)


def _next(slots: SlotMap, slot: int, host: Host, error: HotTierError) -> tuple[Host | None, bool]:
    """Where to go on, and whether as one who asks; None: look at the map again. Raises the error if that is no use."""
    if elsewhere := _ELSEWHERE.match(str(error.__cause__)):
        kind, name, port = elsewhere.groups()
        there = (name or host[0], int(port))
        if kind == "MOVED":
            slots.moved(slot, there)
        return there, kind == "ASK"
    if error.code not in _NOT_NOW:
        raise error
    if error.code in (LOST, SLOW):
        slots.suspect(host)
    return None, False
