"""`tier status`: threads in each tier and what waits."""

import asyncio
import sys
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.text import Text

from saver.connect import Tiers
from saver.survey import HotSurvey, cold_threads, shared, survey_hot
from worker.cli import FOUND, output
from worker.cli.reach import Reach, reach
from worker.config import WorkerConfig
from worker.metrics import SUCCESS


@dataclass(frozen=True, slots=True)
class ColdSurvey:
    """What stands in Postgres."""

    threads: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Status:
    """Both tiers at one moment; None for one that does not answer."""

    hot: HotSurvey | None
    cold: ColdSurvey | None
    last_sweep: timedelta | None
    faults: list[str]

    @property
    def is_good(self) -> bool:
        return not self.faults and not (self.hot and self.hot.quarantined_threads)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--watch", "every", is_flag=False, flag_value=2.0, type=click.FloatRange(0.1), metavar="[SECONDS]",
              help="Look again every 2 seconds, or as often as told, until Ctrl-C.")  # fmt: skip
def status(as_json: bool, every: float | None) -> None:
    """Show how many threads each tier has, what waits and who works.

    Exit code 1 when a tier does not answer, or when threads are in quarantine.
    """
    if as_json and every:
        raise click.UsageError("--json answers once: leave out --watch")
    config = WorkerConfig.load()
    if every:
        _watch(config, every)
        return
    found = asyncio.run(_look(config))
    for fault in found.faults:
        output.message(fault)
    if as_json:
        output.print_json(_plain(found))
    else:
        output.result().print(_drawn(found))
    if not found.is_good:
        sys.exit(FOUND)


async def _look(config: WorkerConfig) -> Status:
    async with reach(config) as found:
        return await _taken(found)


async def _taken(found: Reach) -> Status:
    hot = None if found.hot_fault else await survey_hot(found.tiers)
    cold = None if found.cold_fault else await _survey_cold(found.tiers)
    last_sweep = None if found.hot_fault else await _last_sweep(found.tiers)
    return Status(hot, cold, last_sweep, list(found.faults))


async def _last_sweep(tiers: Tiers) -> timedelta | None:
    """How long ago a worker looked for work; None if none ever did."""
    moment = (await shared(tiers)).get(f"{SUCCESS}sweep")
    return timedelta(seconds=max(time.time() - moment, 0)) if moment else None


async def _survey_cold(tiers: Tiers) -> ColdSurvey:
    [(size_bytes,)] = await tiers.replica.fetch("cold_bytes", {"schema": tiers.config.postgres_schema})
    return ColdSurvey(await cold_threads(tiers), size_bytes)


def _watch(config: WorkerConfig, every: float) -> None:
    async def watch() -> None:
        with Live(console=output.result(), refresh_per_second=4, screen=False) as live:
            while True:
                found = await _look(config)
                live.update(Group(_drawn(found), *map(Text, found.faults)), refresh=True)
                await asyncio.sleep(every)

    try:
        asyncio.run(watch())
    except KeyboardInterrupt:
        return


def _drawn(found: Status) -> Group:
    tiers = output.table("tier", "threads", "size")
    hot, cold = found.hot, found.cold
    output.row(tiers, ("hot", hot and hot.threads, hot and output.size(hot.size_bytes)))
    output.row(tiers, ("cold", cold and cold.threads, cold and output.size(cold.size_bytes)))
    if hot is None:
        return Group(tiers)
    waiting = output.table("waits", "threads", "longest")
    longest = output.ago(timedelta(seconds=hot.oldest_dirty_seconds)) if hot.dirty_threads else None
    output.row(waiting, ("to be archived", hot.dirty_threads, longest))
    output.row(waiting, ("to be demoted", hot.idle_due_threads, None))
    output.row(waiting, ("to be promoted", hot.wanted_threads, None))
    output.row(waiting, ("in quarantine", hot.quarantined_threads, None))
    return Group(tiers, Text(), waiting, Text(), Text(f"workers     {_workers(hot.workers, found.last_sweep)}"))


def _workers(alive: int, last_sweep: timedelta | None) -> str:
    swept = f"the last sweep was {output.ago(last_sweep)} ago" if last_sweep else "none has looked for work yet"
    return f"{alive} alive, {swept}" if alive else f"none alive, {swept}; start one: arq worker.Settings"


def _plain(found: Status) -> dict[str, Any]:
    last_sweep = found.last_sweep.total_seconds() if found.last_sweep else None
    plain: dict[str, Any] = {"faults": found.faults, "last_sweep_seconds": last_sweep}
    for tier, counted in (("hot", found.hot), ("cold", found.cold)):
        plain[tier] = asdict(counted) if counted else None
    plain["workers"] = plain["hot"].pop("workers") if found.hot else None
    return plain
