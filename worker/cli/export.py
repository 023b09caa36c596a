"""`tier export`: write threads into a portable file."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import click

from jobs.portable import frames, packed, thread_id_of
from jobs.transfer import take_out
from saver.codec import address_of
from saver.connect import Tiers, connect
from saver.directory import matching
from saver.errors import ColdTierError
from worker.cli import FOUND, output
from worker.cli.reach import quiet_pool
from worker.cli.where import where_option
from worker.config import WorkerConfig


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("thread_ids", metavar="[THREAD]...", nargs=-1)
@where_option
@click.option("--all", "is_all", is_flag=True, help="All threads of both tiers.")
@click.option("--resume", is_flag=True, help="Go on with a file that was cut off; what is in it is left as it is.")
def export(file: Path, thread_ids: Sequence[str], where: dict[str, Any], is_all: bool, resume: bool) -> None:
    """Write threads into a portable file, as they are in both tiers.

    What is not archived yet is archived first. The file holds what the threads hold: keep it as safe.
    """
    if (bool(thread_ids), bool(where), is_all).count(True) != 1:
        raise click.UsageError("name threads, or say --where or --all")
    if file.exists() and not resume:
        raise click.UsageError(f"{file} is there already; say --resume to go on with it, or take another name")
    for thread_id in thread_ids:
        address_of({"configurable": {"thread_id": thread_id}})
    written, missing = asyncio.run(_export(WorkerConfig.load(), file, thread_ids, where))
    click.echo(f"exported {output.threads(written)}")
    if missing:
        sys.exit(FOUND)


async def _export(
    config: WorkerConfig, path: Path, thread_ids: Sequence[str], where: dict[str, Any]
) -> tuple[int, int]:
    quiet_pool()
    written = missing = 0
    # Only its owner may read it.
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        done = _whole(file)
        async with connect(config) as tiers:
            with output.progress() as bar:
                task = bar.add_task("exporting", total=len(thread_ids) or None)
                async for thread_id in _chosen(tiers, thread_ids, where):
                    if thread_id not in done:
                        done.add(thread_id)
                        is_written = await _write(tiers, file, thread_id)
                        written, missing = written + is_written, missing + (not is_written)
                    bar.advance(task)
        file.flush()
        os.fsync(file.fileno())
    return written, missing


def _whole(file: BinaryIO) -> set[str]:
    """The threads that are in the file; a part of one at its end is cut away."""
    done, end = set(), 0
    for frame in frames(file):
        done.add(thread_id_of(frame))
        end = frame.end
    file.seek(end)
    file.truncate()
    return done


async def _chosen(tiers: Tiers, thread_ids: Sequence[str], where: dict[str, Any]) -> AsyncIterator[str]:
    for thread_id in thread_ids:
        yield thread_id
    if not thread_ids:
        async for thread_id in matching(tiers, where):
            yield thread_id


async def _write(tiers: Tiers, file: BinaryIO, thread_id: str) -> bool:
    try:
        thread = await take_out(tiers, thread_id)
    except ColdTierError as error:
        if not error.is_refusal:
            raise
        output.message(f"thread {output.shown(thread_id)} was not exported: {error}")
        return False
    if thread is None:
        output.message(f"no tier has a thread {output.shown(thread_id)}")
        return False
    file.write(packed(thread))
    return True
