"""`tier demote`, `tier promote` and `tier delete`: move or delete threads by name, now."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence

import click

from saver.codec import address_of
from saver.connect import Tiers, connect
from saver.demote import tier_of
from saver.destroy import delete as destroy
from saver.errors import TierError
from saver.load import promote as bring
from saver.outline import outline_cold, outline_hot
from worker.cli import FOUND, output
from worker.cli.reach import quiet_pool
from worker.config import WorkerConfig

Move = Callable[[Tiers, str], Awaitable[str | None]]  # why it was not done, or None

MOVES_AT_ONCE = 8

_threads = click.argument("thread_ids", metavar="THREAD...", nargs=-1, required=True)


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
        click.confirm(f"Delete {_count(len(thread_ids))} from both tiers, for good?", abort=True, err=True)
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
    click.echo(f"{done} {_count(len(ids) - refused)}")
    if refused:
        sys.exit(FOUND)


async def _tried(move: Move, tiers: Tiers, thread_id: str) -> str | None:
    try:
        return await move(tiers, thread_id)
    except TierError as error:
        return str(error)


async def _promote(tiers: Tiers, thread_id: str) -> str | None:
    if await tier_of(tiers, thread_id) is None:
        return "no tier has it"
    await bring(tiers, thread_id)
    return None


async def _delete(tiers: Tiers, thread_id: str) -> str | None:
    was_there = await outline_hot(tiers, thread_id) or await outline_cold(tiers, thread_id)
    await destroy(tiers, thread_id)
    return None if was_there else "no tier had it"


def _count(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"
