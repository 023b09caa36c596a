"""The faults that strike, each undone by itself, chosen at random from the seed."""

import os
import random
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event

from tests.faults.chaos.crew import Crew
from tests.faults.chaos.standby import hand_back, seize, standby, take_over
from tests.faults.world import World, family_of, frozen

Strike = Callable[["Storm"], None]


class Storm:
    """Strikes until the time is over. A strike ends before the next one begins."""

    def __init__(
        self, world: World, crew: Crew, chance: random.Random, folder: Path, strikes: Mapping[str, Strike]
    ) -> None:
        self.world = world
        self.crew = crew
        self.chance = chance
        self.folder = folder
        self.strikes = strikes
        self._never = Event()

    def last(self, low: float, high: float) -> None:
        """Let a fault last."""
        self._never.wait(self.chance.uniform(low, high))

    def strike(self, name: str) -> None:
        self.strikes[name](self)


def _cut(proxy: str) -> Strike:
    return lambda storm: getattr(storm.world, proxy).cut()


def _refuse(proxy: str) -> Strike:
    def refuse(storm: Storm) -> None:
        chosen = getattr(storm.world, proxy)
        chosen.refuse_new()
        chosen.cut()
        storm.last(0.2, 2)
        chosen.accept_new()

    return refuse


def _hold(proxy: str) -> Strike:
    def hold(storm: Storm) -> None:
        chosen = getattr(storm.world, proxy)
        chosen.hold_replies()
        storm.last(0.1, 2)
        chosen.release_replies()

    return hold


def _lose(proxy: str) -> Strike:
    return lambda storm: getattr(storm.world, proxy).drop_next_reply()


def _redis_frozen(storm: Storm) -> None:
    with frozen(storm.world.servers.redis_pid):
        storm.last(0.2, 2)


def _postgres_frozen(storm: Storm) -> None:
    with frozen(*family_of(storm.world.servers.postgres_pid)):
        storm.last(0.2, 4)


def _redis_killed(storm: Storm) -> None:
    os.kill(storm.world.servers.redis_pid, signal.SIGKILL)
    storm.last(0, 1)
    storm.world.servers.restart("redis")


def _postgres_killed(storm: Storm) -> None:
    os.kill(storm.world.servers.postgres_pid, signal.SIGKILL)
    storm.last(0, 1)
    storm.world.servers.restart("postgres")


def _redis_restarted(storm: Storm) -> None:
    storm.world.servers.restart("redis")


def _postgres_restarted(storm: Storm) -> None:
    storm.world.servers.restart("postgres")


def _redis_clients_killed(storm: Storm) -> None:
    storm.world.redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def _redis_read_only(storm: Storm) -> None:
    storm.world.redis("REPLICAOF", "127.0.0.1", 1)
    storm.last(0, 1)
    storm.world.redis("REPLICAOF", "NO", "ONE")


def _redis_full(storm: Storm) -> None:
    storm.world.redis("CONFIG", "SET", "maxmemory", storm.world.redis("INFO", "memory")["used_memory"])
    storm.last(0.5, 2)
    storm.world.redis("CONFIG", "SET", "maxmemory", 0)


def _redis_handed_over(storm: Storm) -> None:
    with standby(storm.world, storm.folder / "standby") as node:
        take_over(storm.world, node)
        storm.last(0.5, 2)
        hand_back(storm.world, node)


def _redis_failed_over(storm: Storm) -> None:
    """To a replica that lacks the last writes."""
    with standby(storm.world, storm.folder / "standby") as node:
        node.do("REPLICAOF", "NO", "ONE")
        storm.last(0.1, 1)
        seize(storm.world, node)
        storm.last(0.5, 2)
        hand_back(storm.world, node)


def _redis_emptied(storm: Storm) -> None:
    storm.world.redis("FLUSHALL")


def _redis_back_empty(storm: Storm) -> None:
    storm.world.redis("FLUSHALL")
    _redis_killed(storm)


def _postgres_read_only(storm: Storm) -> None:
    storm.world.postgres("alter system set default_transaction_read_only = on")
    storm.world.postgres("select pg_reload_conf()")
    storm.last(0.2, 2)
    storm.world.postgres("alter system reset default_transaction_read_only")
    storm.world.postgres("select pg_reload_conf()")


def _sessions_ended(storm: Storm) -> None:
    storm.world.end_sessions()


def _signalled(kind: str, number: signal.Signals) -> Strike:
    return lambda storm: storm.chance.choice(getattr(storm.crew, kind)).send(number)


def _frozen_member(kind: str, low: float, high: float) -> Strike:
    def freeze(storm: Storm) -> None:
        member = storm.chance.choice(getattr(storm.crew, kind))
        member.send(signal.SIGSTOP)
        storm.last(low, high)
        member.send(signal.SIGCONT)

    return freeze


STRIKES: dict[str, Strike] = {
    "redis: connections cut": _cut("redis_proxy"),
    "redis: refused": _refuse("redis_proxy"),
    "redis: replies held": _hold("redis_proxy"),
    "redis: reply lost": _lose("redis_proxy"),
    "redis: frozen": _redis_frozen,
    "redis: killed": _redis_killed,
    "redis: restarted": _redis_restarted,
    "redis: clients killed": _redis_clients_killed,
    "redis: read-only, then another history": _redis_read_only,
    "redis: full": _redis_full,
    "redis: handed over to a replica and back": _redis_handed_over,
    "postgres: connections cut": _cut("postgres_proxy"),
    "postgres: refused": _refuse("postgres_proxy"),
    "postgres: replies held": _hold("postgres_proxy"),
    "postgres: reply lost": _lose("postgres_proxy"),
    "postgres: frozen": _postgres_frozen,
    "postgres: killed": _postgres_killed,
    "postgres: restarted": _postgres_restarted,
    "postgres: sessions ended": _sessions_ended,
    "postgres: read-only": _postgres_read_only,
    "worker: killed": _signalled("workers", signal.SIGKILL),
    "worker: told to end": _signalled("workers", signal.SIGTERM),
    "worker: frozen": _frozen_member("workers", 1, 6),
    "retainer: killed": _signalled("retainers", signal.SIGKILL),
    "agent: killed": _signalled("agents", signal.SIGKILL),
    "agent: frozen": _frozen_member("agents", 0.5, 4),
}

# What write-through withstands as well.
LOSSES: dict[str, Strike] = {
    "redis: emptied": _redis_emptied,
    "redis: killed, and back empty": _redis_back_empty,
    "redis: failed over without its last writes": _redis_failed_over,
}
