"""`tier import`: bring threads in, from a portable file."""

import asyncio
import os
import sys
from collections import Counter
from pathlib import Path

import click

from jobs.portable import DamagedFile, frames, unpacked
from jobs.transfer import Brought, ThreadExists, bring_in
from saver.connect import connect
from worker.cli import FOUND, output
from worker.cli.reach import quiet_pool
from worker.config import WorkerConfig


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--merge", is_flag=True, help="Add to threads that are here, instead of leaving them as they are.")
def import_(file: Path, merge: bool) -> None:
    """Bring threads in from a file of tier export, each whole or not at all.

    Every thread is compared with the file when it is in Postgres. May be repeated: what is there already is left alone.
    """
    counts = asyncio.run(_import(WorkerConfig.load(), file, merge=merge))
    click.echo(f"imported {output.threads(counts['added'])}")
    if there := counts[Brought.THERE]:
        click.echo(f"{output.threads(there)} were there already")
    if counts["refused"]:
        sys.exit(FOUND)


async def _import(config: WorkerConfig, path: Path, *, merge: bool) -> Counter[str]:
    quiet_pool()
    counts: Counter[str] = Counter()
    async with connect(config) as tiers:
        with open(path, "rb") as file, output.progress() as bar:  # noqa: ASYNC230, PTH123 - nothing else runs here
            size = os.fstat(file.fileno()).st_size
            task, end = bar.add_task("importing", total=size), 0
            for frame in frames(file):
                thread = unpacked(frame)
                try:
                    counts[await bring_in(tiers, thread, merge=merge)] += 1
                except ThreadExists as error:
                    counts["refused"] += 1
                    output.message(f"thread {output.shown(thread.thread_id)} was not imported: {error}")
                bar.update(task, completed=frame.end)
                end = frame.end
    if end < size:
        raise DamagedFile("the file was cut off: its last thread is not whole; all before it are here")
    return counts
