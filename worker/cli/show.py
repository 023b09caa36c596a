"""`tier show`: one thread, where it is and how large."""

import asyncio
import sys
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import click

from saver.codec import address_of
from saver.errors import TierError
from saver.outline import ColdOutline, HotOutline, outline_cold, outline_hot
from worker.cli import FOUND, output
from worker.cli.reach import reach
from worker.cli.values import Values, as_text, newest_values, plain
from worker.config import WorkerConfig


@click.command()
@click.argument("thread_id", metavar="THREAD")
@click.option("--values", "with_values", is_flag=True, help="Also what is in its newest checkpoints.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def show(thread_id: str, with_values: bool, as_json: bool) -> None:
    """Show where a thread is and how large; what is in it only with --values."""
    hot, cold, values, faults = asyncio.run(_look(WorkerConfig.load(), thread_id, with_values=with_values))
    for fault in faults:
        output.message(fault)
    if as_json:
        told = {"thread": thread_id, "hot": _plain(hot), "cold": _plain(cold), "faults": faults}
        output.print_json(told | ({"values": [plain(asdict(one)) for one in values]} if with_values else {}))
    elif hot or cold:
        _print(thread_id, hot, cold)
        for one in values:
            _print_values(one)
    elif not faults:
        output.message(f"no tier has a thread {output.shown(thread_id)}")
    if faults or not (hot or cold):
        sys.exit(FOUND)


async def _look(
    config: WorkerConfig, thread_id: str, *, with_values: bool
) -> tuple[HotOutline | None, ColdOutline | None, list[Values], list[str]]:
    address_of({"configurable": {"thread_id": thread_id}})
    async with reach(config) as found:
        hot = None if found.hot_fault else await outline_hot(found.tiers, thread_id)
        cold = None if found.cold_fault else await outline_cold(found.tiers, thread_id)
        faults, values = list(found.faults), list[Values]()
        if with_values and (hot or cold):
            names = sorted({space.namespace for outline in (hot, cold) if outline for space in outline.spaces})
            try:
                values = await newest_values(config, found.tiers, thread_id, names)
            except TierError as error:
                faults.append(f"the values cannot be read: {error}")
        return hot, cold, values, faults


def _print_values(one: Values) -> None:
    name = output.shown(one.namespace) if one.namespace else "(root)"
    click.echo(f"\nnamespace {name}, checkpoint {one.checkpoint_id or '-'}")
    click.echo(one.fault or as_text({"values": one.values, "pending writes": one.pending}))


def _print(thread_id: str, hot: HotOutline | None, cold: ColdOutline | None) -> None:
    click.echo(f"thread       {output.shown(thread_id)}")
    click.echo(f"tier         {'hot' if hot and any(space.checkpoints for space in hot.spaces) else 'cold'}")
    for name, value in _facts(hot, cold):
        click.echo(f"{name:<12} {value}")
    spaces = output.table("namespace", "hot checkpoints", "hot blobs", "hot size", "hot from")
    for title in ("cold checkpoints", "cold blobs", "cold writes", "cold size", "newest in cold"):
        spaces.add_column(title, justify="right")
    in_hot = {space.namespace: space for space in hot.spaces} if hot else {}
    in_cold = {space.namespace: space for space in cold.spaces} if cold else {}
    for namespace in sorted({*in_hot, *in_cold}):
        h, c = in_hot.get(namespace), in_cold.get(namespace)
        hot_cells = (h.checkpoints, h.blobs, output.size(h.size_bytes), h.floor or "the first") if h else (None,) * 4
        if h and not h.is_loaded:
            hot_cells = (None,) * 4
        cold_cells = (c.checkpoints, c.blobs, c.writes, output.size(c.size_bytes), c.newest) if c else (None,) * 5
        output.row(spaces, (output.shown(namespace) if namespace else "(root)", *hot_cells, *cold_cells))
    output.result().print(spaces)


def _facts(hot: HotOutline | None, cold: ColdOutline | None) -> list[tuple[str, str]]:
    facts = []
    if hot:
        waiting = f", the oldest for {output.ago(hot.dirty_for)}" if hot.dirty_for is not None else ""
        facts.append(("dirty rows", f"{hot.dirty_rows}{waiting}"))
        facts.append(("last access", f"{output.ago(hot.idle_for)} ago" if hot.idle_for is not None else "unknown"))
        facts.append(("incarnation", str(hot.incarnation)))
        if hot.is_suspect:
            facts.append(("suspect", "from before Redis lost its history; it is archived and loaded again on access"))
        if hot.refused_because:
            facts.append(("quarantine", output.shown(hot.refused_because)))
    if cold:
        moment = cold.last_activity
        facts.append(("archived at", f"{moment:%Y-%m-%d %H:%M:%S %Z}" if moment else "never by us: the stock saver's"))
    return facts


def _plain(outline: HotOutline | ColdOutline | None) -> Any:
    if outline is None:
        return None
    return {name: _plain_value(value) for name, value in asdict(outline).items()} | {
        "spaces": [space._asdict() for space in outline.spaces]
    }


def _plain_value(value: Any) -> Any:
    match value:
        case timedelta():
            return value.total_seconds()
        case datetime():
            return value.isoformat()
        case _:
            return value
