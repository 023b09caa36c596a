"""`tier verify`: compare both tiers row by row."""

import asyncio
import sys
from collections.abc import Sequence

import click

from jobs.verify import Difference
from jobs.verify import verify as compare
from saver.codec import address_of
from saver.connect import Tiers
from worker.cli import FOUND, output
from worker.cli.reach import need, reach
from worker.config import WorkerConfig

MOST_SHOWN = 100


@click.command()
@click.argument("thread_ids", metavar="[THREAD]...", nargs=-1)
def verify(thread_ids: Sequence[str]) -> None:
    """Compare both tiers row by row, of all threads in Redis or of some.

    Changes nothing, and may run beside agents and workers. Exit code 1 if the tiers differ.
    """
    for thread_id in thread_ids:
        address_of({"configurable": {"thread_id": thread_id}})
    if asyncio.run(_verify(WorkerConfig.load(), list(dict.fromkeys(thread_ids)))):
        sys.exit(FOUND)


async def _verify(config: WorkerConfig, thread_ids: list[str]) -> int:
    threads = rows = dirty = 0
    found_differences: list[tuple[str, Difference]] = []
    async with reach(config) as found:
        need(found, hot=True, cold=True)
        ids = thread_ids or await _resident(found.tiers)
        with output.progress() as bar:
            for thread_id in bar.track(ids, description="comparing"):
                result = await compare(found.tiers, thread_id)
                threads += result.is_resident
                rows += result.rows
                dirty += result.dirty
                found_differences += [(thread_id, one) for one in result.differences]
    click.echo(f"compared {rows} rows of {output.threads(threads)} in Redis; {dirty} more wait to be archived")
    click.echo(f"{len(found_differences)} differ")
    for thread_id, one in found_differences[:MOST_SHOWN]:
        namespace = f" namespace {output.shown(one.namespace)}" if one.namespace else ""
        click.echo(f"thread {output.shown(thread_id)}{namespace}: {one.kind} {output.shown(one.name)} {one.fact}")
    if len(found_differences) > MOST_SHOWN:
        output.message(f"only the first {MOST_SHOWN} are shown")
    return len(found_differences)


async def _resident(tiers: Tiers) -> list[str]:
    names: list[str] = []
    for partition in range(tiers.keys.partitions):
        names += [name.decode() for name in await tiers.hot.command("ZRANGE", tiers.keys.idle(partition), 0, -1)]
    return names
