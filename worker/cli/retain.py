"""`tier retain`: what the retention policies would do, or the run itself, now."""

import asyncio
import sys

import click

from jobs.preview import Preview, preview
from jobs.retain import Retained
from jobs.retain import retain as run_retention
from jobs.retention import Counts
from saver.connect import Tiers, connect
from worker.cli import FOUND, output
from worker.cli.reach import quiet_pool
from worker.config import WorkerConfig

_STAY = {
    "waiting": "that wait for a person are kept (retain waiting: keep)",
    "in_use": "in Redis are in use and kept",
    "held": "are under a legal hold and kept (tier policy list)",
    "unclear": "have a wish that cannot be read and are kept",
    "too_slow": "take too long and are left; see the log",
}


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what a run would delete, and delete nothing.")
@click.option("--now", is_flag=True, help="Run to the end instead of waiting for TIER_RETENTION_AT.")
def retain(dry_run: bool, now: bool) -> None:
    """Delete what the retention policies say, or say what that would be."""
    if dry_run == now:
        raise click.UsageError("say either --dry-run or --now")
    config = WorkerConfig.load()
    asyncio.run(_dry_run(config) if dry_run else _run(config))


async def _dry_run(config: WorkerConfig) -> None:
    quiet_pool()
    async with connect(config) as tiers:
        found = await preview(tiers)
    for line in _foreseen(found):
        click.echo(line)


def _foreseen(found: Preview) -> list[str]:
    size = output.size(found.size_bytes)
    lines = [f"{output.threads(found.deleted)} would be deleted, {size} in Postgres"]
    if found.shortened:
        lines.append(f"{output.threads(found.shortened)} would be shortened by {found.checkpoints} checkpoints")
    if found.unknown:
        lines.append(f"{output.threads(found.unknown)} of the stock saver not counted: a run looks up their age first")
    return lines + _staying(found)


def _staying(found: Counts) -> list[str]:
    return [f"{output.threads(count)} {why}" for name, why in _STAY.items() if (count := getattr(found, name))]


async def _run(config: WorkerConfig) -> None:
    quiet_pool()
    async with connect(config) as tiers:
        total = await _to_the_end(tiers)
    if total.is_elsewhere:
        output.message("a worker runs the retention just now; try again when it is done")
        sys.exit(FOUND)
    click.echo(f"deleted {output.threads(total.deleted)}")
    if total.shortened:
        click.echo(f"shortened {output.threads(total.shortened)} by {total.checkpoints} checkpoints")
    for line in _staying(total):
        click.echo(line)


async def _to_the_end(tiers: Tiers) -> Retained:
    total = Retained()
    with output.progress() as bar:
        task = bar.add_task("retaining", total=None)
        while total.place is not None and not total.is_elsewhere:
            part = await run_retention(tiers, total.place)
            total.add(part)
            total.place, total.is_elsewhere = part.place, part.is_elsewhere
            bar.advance(task, part.deleted + part.shortened)
    return total
