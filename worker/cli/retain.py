"""`tier retain`: what the retention policy would delete, or the run itself, now."""

import asyncio
import sys

import click

from jobs.preview import Preview, preview
from jobs.retain import Retained
from jobs.retain import retain as run_retention
from saver.connect import Tiers, connect
from saver.durations import format_duration
from worker.cli import FOUND, output
from worker.cli.reach import quiet_pool
from worker.config import WorkerConfig


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what a run would delete, and delete nothing.")
@click.option("--now", is_flag=True, help="Run to the end instead of waiting for TIER_RETENTION_AT.")
def retain(dry_run: bool, now: bool) -> None:
    """Delete what the retention policy says, or say what that would be."""
    if dry_run == now:
        raise click.UsageError("say either --dry-run or --now")
    config = WorkerConfig.load()
    if config.retain_for is None:
        click.echo("TIER_RETAIN_FOR is off: every thread is kept")
        return
    asyncio.run(_dry_run(config) if dry_run else _run(config))


async def _dry_run(config: WorkerConfig) -> None:
    quiet_pool()
    async with connect(config, setup=False) as tiers:
        found = await preview(tiers)
    for line in _told(found, format_duration(config.retain_for) if config.retain_for else "off"):
        click.echo(line)


def _told(found: Preview, age: str) -> list[str]:
    size = output.size(found.size_bytes)
    lines = [f"{output.threads(found.deleted)} without activity for {age} would be deleted, {size} in Postgres"]
    if found.waiting:
        lines.append(f"{output.threads(found.waiting)} that wait for a person are kept (TIER_RETAIN_WAITING=keep)")
    if found.in_use:
        lines.append(f"{output.threads(found.in_use)} in Redis are in use and kept")
    if found.unknown:
        lines.append(f"{output.threads(found.unknown)} of the stock saver not counted: a run looks up their age first")
    return lines


async def _run(config: WorkerConfig) -> None:
    quiet_pool()
    async with connect(config) as tiers:
        total = await _to_the_end(tiers)
    if total.is_elsewhere:
        output.message("a worker runs the retention just now; try again when it is done")
        sys.exit(FOUND)
    click.echo(f"deleted {output.threads(total.deleted)}")
    for count, why in ((total.waiting, "wait for a person and were kept"), (total.in_use, "are in use and were kept")):
        if count:
            click.echo(f"{output.threads(count)} {why}")


async def _to_the_end(tiers: Tiers) -> Retained:
    total = Retained()
    with output.progress() as bar:
        task = bar.add_task("deleting", total=None)
        while total.place is not None and not total.is_elsewhere:
            part = await run_retention(tiers, total.place)
            total.deleted += part.deleted
            total.waiting += part.waiting
            total.in_use += part.in_use
            total.place, total.is_elsewhere = part.place, part.is_elsewhere
            bar.advance(task, part.deleted)
    return total
