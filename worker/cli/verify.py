"""`tier verify`: compare both tiers row by row, and repair what one of them has lost."""

import asyncio
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from jobs.repair import repair
from jobs.verify import Difference, Verified
from jobs.verify import verify as compare
from saver.codec import address_of
from saver.connect import Tiers
from worker.cli import FOUND, output
from worker.cli.reach import need, reach
from worker.config import WorkerConfig

MOST_SHOWN = 100


@dataclass(slots=True)
class Total:
    """What was found over all threads."""

    threads: int = 0
    rows: int = 0
    dirty: int = 0
    repaired: int = 0
    differences: list[tuple[str, Difference]] = field(default_factory=list)

    def add(self, thread_id: str, found: Verified, left: Verified) -> None:
        """Count a thread: what was found, and what is left after a repair."""
        self.threads += found.is_resident
        self.rows += found.rows
        self.dirty += found.dirty
        self.repaired += len(set(found.differences) - set(left.differences))
        self.differences += [(thread_id, one) for one in left.differences]


@click.command()
@click.argument("thread_ids", metavar="[THREAD]...", nargs=-1)
@click.option(
    "--repair", "is_repair", is_flag=True, help="Give a tier back what it has lost and the other still holds."
)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def verify(thread_ids: Sequence[str], is_repair: bool, as_json: bool) -> None:
    """Compare both tiers row by row, of all threads in Redis or of some.

    Changes nothing without --repair, and may run beside agents and workers. Exit code 1 if the tiers differ.
    """
    for thread_id in thread_ids:
        address_of({"configurable": {"thread_id": thread_id}})
    total = asyncio.run(_verify(WorkerConfig.load(), list(dict.fromkeys(thread_ids)), is_repair=is_repair))
    if as_json:
        output.print_json(_plain(total))
    else:
        _print(total, is_repair=is_repair)
    if total.differences:
        sys.exit(FOUND)


async def _verify(config: WorkerConfig, thread_ids: list[str], *, is_repair: bool) -> Total:
    total = Total()
    async with reach(config) as found:
        need(found, hot=True, cold=True)
        ids = thread_ids or await _resident(found.tiers)
        with output.progress() as bar:
            for thread_id in bar.track(ids, description="comparing"):
                first = last = await compare(found.tiers, thread_id)
                if is_repair and first.differences:
                    last = await repair(found.tiers, thread_id, first)
                total.add(thread_id, first, last)
    return total


def _print(total: Total, *, is_repair: bool) -> None:
    threads = output.threads(total.threads)
    click.echo(f"compared {total.rows} rows of {threads} in Redis; {total.dirty} more wait to be archived")
    if is_repair:
        click.echo(f"{total.repaired} repaired")
    click.echo(f"{len(total.differences)} differ")
    for line in _lines(total.differences[:MOST_SHOWN]):
        click.echo(line)
    if len(total.differences) > MOST_SHOWN:
        output.message(f"only the first {MOST_SHOWN} are shown")
    if total.differences and is_repair:
        output.message("what still differs is kept in both tiers: see deploy/RUNBOOK.md, The tiers differ")
    elif total.differences:
        output.message("tier verify --repair gives a tier back what it has lost and the other still holds")


def _lines(differences: Iterable[tuple[str, Difference]]) -> Iterable[str]:
    for thread_id, one in differences:
        namespace = f" namespace {output.shown(one.namespace)}" if one.namespace else ""
        yield f"thread {output.shown(thread_id)}{namespace}: {one.kind} {output.shown(one.name)} {one.fact}"


def _plain(total: Total) -> dict[str, Any]:
    return {
        "threads": total.threads,
        "rows": total.rows,
        "dirty_rows": total.dirty,
        "repaired": total.repaired,
        "differences": [
            {"thread": thread_id, **one._asdict(), "name": one.name} for thread_id, one in total.differences
        ],
    }


async def _resident(tiers: Tiers) -> list[str]:
    names: list[str] = []
    for partition in range(tiers.keys.partitions):
        names += [name.decode() for name in await tiers.hot.command("ZRANGE", tiers.keys.idle(partition), 0, -1)]
    return names
