"""`tier quarantine`: threads that Postgres refused, set aside so that they do not hold up others."""

import asyncio
import sys
from collections.abc import Sequence

import click

from jobs.quarantine import Aside, list_aside
from jobs.quarantine import retry as put_back
from worker.cli import FOUND, output
from worker.cli.reach import need, reach
from worker.config import WorkerConfig


@click.group()
def quarantine() -> None:
    """List threads that Postgres refused, or try them again."""


@quarantine.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def list_(as_json: bool) -> None:
    """List them with the reason. Exit code 1 if there are any."""
    found = asyncio.run(_list(WorkerConfig.load()))
    if as_json:
        output.print_json([{**one._asdict(), "since": one.since.isoformat()} for one in found])
    elif found:
        table = output.table("thread", "reason", "SQLSTATE", "since", "attempts")
        for one in found:
            since = f"{one.since:%Y-%m-%d %H:%M:%S}"
            output.row(table, (output.shown(one.thread_id), one.reason, one.sqlstate, since, one.attempts))
        output.result().print(table)
    else:
        output.message("no thread is in quarantine")
    if found:
        sys.exit(FOUND)


@quarantine.command()
@click.argument("thread_ids", metavar="THREAD...", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="All of them.")
def retry(thread_ids: Sequence[str], is_all: bool) -> None:
    """Put threads back in line; the next sweep archives them or sets them aside again."""
    if bool(thread_ids) == is_all:
        raise click.UsageError("name threads, or say --all")
    ids, absent = asyncio.run(_retry(WorkerConfig.load(), thread_ids))
    click.echo(f"put back {output.threads(len(ids))}")
    for thread_id in absent:
        output.message(f"thread {output.shown(thread_id)} is not in quarantine")
    if absent:
        sys.exit(FOUND)


async def _list(config: WorkerConfig) -> list[Aside]:
    async with reach(config) as found:
        need(found, hot=True)
        partitions = range(found.tiers.keys.partitions)
        return sorted([one for partition in partitions for one in await list_aside(found.tiers, partition)])


async def _retry(config: WorkerConfig, thread_ids: Sequence[str]) -> tuple[list[str], list[str]]:
    ids = list(dict.fromkeys(thread_ids)) or [one.thread_id for one in await _list(config)]
    async with reach(config) as found:
        need(found, hot=True)
        answers = {thread_id: await put_back(found.tiers, thread_id) for thread_id in ids}
    return [name for name, is_back in answers.items() if is_back], [n for n, is_back in answers.items() if not is_back]
