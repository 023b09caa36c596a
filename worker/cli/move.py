"""`tier demote`, `tier promote` and `tier delete`: move or delete threads by name, now."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import click

from jobs.demote import demote_due
from jobs.quarantine import list_aside
from saver.codec import address_of
from saver.connect import Tiers, connect
from saver.demote import demote as demote_now
from saver.demote import tier_of
from saver.destroy import delete as destroy
from saver.durations import parse_duration
from saver.errors import TierError
from saver.load import promote as bring
from saver.outline import outline_cold, outline_hot
from worker.cli import FOUND, output
from worker.cli.reach import quiet_pool
from worker.config import WorkerConfig

Move = Callable[[Tiers, str], Awaitable[str | None]]  # why it was not done, or None

MOVES_AT_ONCE = 8

MOST_TURNS = 1000


class _Duration(click.ParamType[timedelta]):
    """A duration as the TIER_ variables take it."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        try:
            return parse_duration(value)
        except ValueError as fault:
            self.fail(str(fault), param, ctx)


_threads = click.argument("thread_ids", metavar="THREAD...", nargs=-1, required=True)


@click.command()
@click.argument("thread_ids", metavar="[THREAD]...", nargs=-1)
@click.option("--idle", type=_Duration(), help="All threads that nobody used for this long, like 1h.")
@click.option("--all", "is_all", is_flag=True, help="All threads in Redis, in use or not.")
def demote(thread_ids: Sequence[str], idle: timedelta | None, is_all: bool) -> None:
    """Archive threads and drop them from Redis now."""
    if (bool(thread_ids), idle is not None, is_all).count(True) != 1:
        raise click.UsageError("name threads, or say --idle or --all")
    if thread_ids:
        asyncio.run(_each(thread_ids, "demoted", _demote))
    else:
        asyncio.run(_demote_idle(idle or timedelta(0)))


@click.command()
@_threads
def promote(thread_ids: Sequence[str]) -> None:
    """Bring threads into Redis now."""
    asyncio.run(_each(thread_ids, "promoted", _promote))


@click.command()
@_threads
@click.option("--yes", is_flag=True, help="Do not ask. Without a terminal nobody is asked.")
def delete(thread_ids: Sequence[str], yes: bool) -> None:
    """Delete threads from both tiers, for good."""
    if not yes and sys.stdin.isatty():
        click.confirm(f"Delete {output.threads(len(thread_ids))} from both tiers, for good?", abort=True, err=True)
    asyncio.run(_each(thread_ids, "deleted", _delete))


async def _each(thread_ids: Iterable[str], done: str, move: Move) -> None:
    """Do it to every thread, whatever became of the others; say what was not done, and exit 1 then."""
    ids = list(dict.fromkeys(thread_ids))
    for thread_id in ids:
        address_of({"configurable": {"thread_id": thread_id}})
    refused = 0
    quiet_pool()
    async with connect(WorkerConfig.load()) as tiers:
        with output.progress() as bar:
            task = bar.add_task(done, total=len(ids))
            for first in range(0, len(ids), MOVES_AT_ONCE):
                part = ids[first : first + MOVES_AT_ONCE]
                reasons = await asyncio.gather(*(_tried(move, tiers, thread_id) for thread_id in part))
                for thread_id, reason in zip(part, reasons, strict=True):
                    bar.advance(task)
                    if reason:
                        refused += 1
                        output.message(f"thread {output.shown(thread_id)} was not {done}: {reason}")
    click.echo(f"{done} {output.threads(len(ids) - refused)}")
    if refused:
        sys.exit(FOUND)


async def _tried(move: Move, tiers: Tiers, thread_id: str) -> str | None:
    try:
        return await move(tiers, thread_id)
    except TierError as error:
        return str(error)


async def _demote_idle(idle: timedelta) -> None:
    """Turn after turn of the worker's own job, with another threshold, until nothing is left to do."""
    quiet_pool()
    # Who asks for it wants nothing to vanish: what TIER_ON_IDLE=expire would drop is archived too.
    config = WorkerConfig.load().model_copy(update={"demote_after": idle, "on_idle": "archive"})
    demoted = 0
    async with connect(config) as tiers:
        with output.progress() as bar:
            for partition in bar.track(range(tiers.keys.partitions), description="partitions"):
                for _ in range(MOST_TURNS):
                    turn = await demote_due(tiers, partition)
                    demoted += turn.demoted
                    if turn.is_done:
                        break
        aside = sum([len(await list_aside(tiers, partition)) for partition in range(tiers.keys.partitions)])
    click.echo(f"demoted {output.threads(demoted)}")
    if aside:
        output.message(f"{output.threads(aside)} in quarantine stay in Redis; see: tier quarantine list")
        sys.exit(FOUND)


async def _demote(tiers: Tiers, thread_id: str) -> str | None:
    if await tier_of(tiers, thread_id) is None:
        return "no tier has it"
    return None if await demote_now(tiers, thread_id) else "it is written all the time"


async def _promote(tiers: Tiers, thread_id: str) -> str | None:
    if await tier_of(tiers, thread_id) is None:
        return "no tier has it"
    await bring(tiers, thread_id)
    return None


async def _delete(tiers: Tiers, thread_id: str) -> str | None:
    was_there = await outline_hot(tiers, thread_id) or await outline_cold(tiers, thread_id)
    await destroy(tiers, thread_id)
    return None if was_there else "no tier had it"
