"""
`python -m tests.faults.chaos --minutes 5 --seed 7`: agents write, workers move, faults strike; then everything is read
back. Ends with 1 when anything that was acknowledged is not there, or anything is that must not be.
"""

import argparse
import asyncio
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection
from psycopg.rows import dict_row

from saver import TieredSaver
from saver.connect import Tiers, connect
from saver.demote import demote
from tests.faults.chaos.check import KINDS, Reckoning
from tests.faults.chaos.crew import AGENTS, Crew
from tests.faults.chaos.history import Expected, acknowledged_in, read_notes, violations_in
from tests.faults.chaos.nodes import ClusterWorld, NodeStrikes, nodes_in
from tests.faults.chaos.strikes import LOSSES, STRIKES, Storm, Strike
from tests.faults.world import World
from tests.fix_proxy import Proxy
from worker.embedded import Embedded

BEHIND = 2  # of the agents
# What the kernel has been given survives the kill of a server, so nothing needs to be synced to the disk.
REDIS = {"appendonly": "yes", "appendfsync": "no"}
POSTGRES = {"synchronous_commit": "on", "max_connections": 120}
PACE = {
    "TIER_REDIS_TIMEOUT": "1s",
    "TIER_POSTGRES_TIMEOUT": "3s",
    "TIER_ARCHIVE_AFTER": "1s",
    "TIER_DEMOTE_AFTER": "3s",
    "TIER_HOT_CHECKPOINTS": "3",
    "TIER_METRICS_PORT": "off",
    "TIER_LOG_LEVEL": "warning",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.chaos")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--through", action="store_true", help="all agents write through, and Redis loses data too")
    parser.add_argument("--cluster", action="store_true", help="the hot tier is a cluster, whose nodes fail over")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        servers = stack.enter_context(Embedded(redis_settings=REDIS, postgres_settings=POSTGRES))
        proxies = [
            stack.enter_context(Proxy("127.0.0.1", port)) for port in (servers.redis_port, servers.postgres_port)
        ]
        world, strikes = world_of(stack, servers, proxies, folder, options)
        faults, crew = rage(world, folder, options, strikes)
        threads = read_notes(crew.notes).threads
        for thread in threads.values():
            thread.pass_time(time.monotonic())
        reckoning = asyncio.run(reckon(world, threads))
        for kind, thread_id, told in violations_in(crew.notes):
            reckoning.add(kind, thread_id, told)
        for member in crew.agents:
            for _ in range(member.crashes):  # a fault may cost an agent an error that names a tier, nothing else
                reckoning.add("agent crashed", "an agent", member.last_words)
        report(options, faults, crew, threads, reckoning)
    return 1 if reckoning.violations.total() else 0


def world_of(
    stack: ExitStack, servers: Embedded, proxies: list[Proxy], folder: Path, options: argparse.Namespace
) -> tuple[World, dict[str, Strike]]:
    """Where it happens, and what can strike there."""
    if not options.cluster:
        return World(servers, *proxies), {**STRIKES, **(LOSSES if options.through else {})}
    world = ClusterWorld(servers, *proxies)
    world.cluster = stack.enter_context(nodes_in(folder))
    nodes = NodeStrikes(world)
    # What strikes one Redis strikes that of the queue; nothing fails over there.
    others = {name: strike for name, strike in STRIKES.items() if "replica" not in name and "history" not in name}
    return world, {**others, **nodes.safe(), **(nodes.losing() if options.through else {})}


def rage(
    world: World, folder: Path, options: argparse.Namespace, strikes: dict[str, Strike]
) -> tuple[Counter[str], Crew]:
    """Let everything happen at once for a time; then end agents and workers."""
    chance = random.Random(options.seed)
    faults: Counter[str] = Counter()
    behind = 0 if options.through else BEHIND
    crew = Crew(folder, world, {**world.variables, **PACE}, options.seed, behind)
    storm = Storm(world, crew, chance, folder, strikes)
    names = [*strikes]
    if options.cluster:  # half of all: the rest is what every chaos does
        names += [name for name in strikes if name.startswith("cluster")] * 2
    end = time.monotonic() + options.minutes * 60
    try:
        storm.last(5, 6)
        while time.monotonic() < end:
            name = chance.choice(names)
            storm.strike(name)
            faults[name] += 1
            storm.last(0.2, 2)
            crew.revive()
    finally:
        crew.stop(lambda crew: crew.agents)
        crew.stop(lambda crew: [*crew.workers, *crew.retainers])
    return faults, crew


async def reckon(world: World, threads: dict[str, Expected]) -> Reckoning:
    """Look while some is hot and some is cold, then when all is cold, then through the stock saver."""
    found = Reckoning()
    async with connect(world.config) as tiers, TieredSaver(world.config) as saver:
        await found.look("the saver", saver, threads)
        await archive_everything(tiers, threads)
        ours = await found.look("the saver, all cold", saver, threads)
    url = world.servers.postgres_url
    connection = await AsyncConnection.connect(
        url, autocommit=True, row_factory=dict_row, options=f"-c search_path={world.name}"
    )
    async with connection:
        found.compare(ours, await found.look("the stock saver", AsyncPostgresSaver(connection), threads))
    return found


async def archive_everything(tiers: Tiers, threads: dict[str, Expected]) -> None:
    for thread_id in threads:
        assert await demote(tiers, thread_id), f"{thread_id} stays in Redis"


def report(
    options: argparse.Namespace,
    faults: Counter[str],
    crew: Crew,
    threads: dict[str, Expected],
    reckoning: Reckoning,
) -> None:
    looks = 3
    counts = {
        "threads": len(threads),
        **{f"acknowledged: {kind}": count for kind, count in sorted(acknowledged_in(crew.notes).items())},
        "checkpoints compared": reckoning.checkpoints,
        "writes compared": reckoning.writes,
        "threads deleted by retention": reckoning.retained // looks,
    }
    lines = [row(name, count) for name, count in sorted(faults.items())]
    lines += [row(f"{kind} started again", count) for kind, count in crew.restarts.items()]
    lines += ["-" * 56, row("faults", faults.total()), *(row(name, count) for name, count in counts.items())]
    lines += ["-" * 56, *(row(kind, reckoning.violations[kind]) for kind in KINDS)]
    lines += [f"{kind}: {example}" for kind, example in reckoning.examples.items()]
    mode = "all write through" if options.through else f"{BEHIND} agents write behind, {AGENTS - BEHIND} through"
    where = ", on a cluster" if options.cluster else ""
    lines += [f"seed {options.seed}, {options.minutes:g} minutes, {mode}{where}"]
    sys.stdout.write("\n".join(lines) + "\n")


def row(name: str, count: int) -> str:
    return f"{name:<48}{count:>8}"


if __name__ == "__main__":
    sys.exit(main())
