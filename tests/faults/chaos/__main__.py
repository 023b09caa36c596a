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
from tests.faults.chaos.crew import Crew
from tests.faults.chaos.history import Expected, expected, violations_in
from tests.faults.chaos.strikes import STRIKES, Storm
from tests.faults.world import World
from tests.fix_proxy import Proxy
from worker.embedded import Embedded

AGENTS, WORKERS = 3, 2
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
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        servers = stack.enter_context(Embedded(redis_settings=REDIS, postgres_settings=POSTGRES))
        proxies = [
            stack.enter_context(Proxy("127.0.0.1", port)) for port in (servers.redis_port, servers.postgres_port)
        ]
        world = World(servers, *proxies)
        faults, crew = rage(world, folder, options.minutes * 60, options.seed)
        threads = expected(crew.notes)
        reckoning = asyncio.run(reckon(world, threads))
        for kind, thread_id, told in violations_in(crew.notes):
            reckoning.add(kind, thread_id, told)
        for member in crew.agents:
            for _ in range(member.crashes):  # a fault may cost an agent an error that names a tier, nothing else
                reckoning.add("agent crashed", "an agent", member.last_words)
        report(options, faults, crew, threads, reckoning)
    return 1 if reckoning.violations.total() else 0


def rage(world: World, folder: Path, seconds: float, seed: int) -> tuple[Counter[str], Crew]:
    """Let everything happen at once for a time; then end agents and workers."""
    chance = random.Random(seed)
    faults: Counter[str] = Counter()
    crew = Crew(folder, {**world.variables, **PACE}, seed, AGENTS, WORKERS)
    storm = Storm(world, crew, chance)
    end = time.monotonic() + seconds
    try:
        storm.last(5, 6)
        while time.monotonic() < end:
            name = chance.choice(list(STRIKES))
            storm.strike(name)
            faults[name] += 1
            storm.last(0.2, 2)
            crew.revive()
    finally:
        crew.stop(lambda crew: crew.agents)
        crew.stop(lambda crew: crew.workers)
    return faults, crew


async def reckon(world: World, threads: dict[str, Expected]) -> Reckoning:
    """Look while some is hot and some is cold, then when all is cold, then through the stock saver."""
    found = Reckoning()
    async with connect(world.config) as tiers, TieredSaver(world.config) as saver:
        await found.look("the saver", saver, threads)
        await archive_everything(tiers, threads)
        await found.look("the saver, all cold", saver, threads)
    url = world.servers.postgres_url
    connection = await AsyncConnection.connect(
        url, autocommit=True, row_factory=dict_row, options=f"-c search_path={world.name}"
    )
    async with connection:
        await found.look("the stock saver", AsyncPostgresSaver(connection), threads)
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
    lines = [f"{name:<42}{count:>7}" for name, count in sorted(faults.items())]
    lines += [f"{f'{kind} started again':<42}{count:>7}" for kind, count in crew.restarts.items()]
    lines += ["-" * 49, f"{'faults':<42}{faults.total():>7}", f"{'threads':<42}{len(threads):>7}"]
    sent = sum(line.startswith('{"done"') for path in crew.notes for line in path.read_text().splitlines())
    lines += [f"{'calls acknowledged':<42}{sent:>7}", f"{'checkpoints compared':<42}{reckoning.checkpoints:>7}"]
    lines += [f"{'writes compared':<42}{reckoning.writes:>7}", "-" * 49]
    lines += [f"{kind:<42}{reckoning.violations[kind]:>7}" for kind in KINDS]
    lines += [f"{kind}: {example}" for kind, example in reckoning.examples.items()]
    lines += [f"seed {options.seed}, {options.minutes:g} minutes"]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
