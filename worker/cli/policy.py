"""`tier policy`: how long single threads, or those of a tenant, are kept, and who may not be deleted."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import click

from saver.connect import Tiers, connect
from saver.policies import NamedPolicy, list_policies, remove_policy, set_policy
from saver.policy import KEEP_CHECKPOINTS, LEGAL_HOLD, RETAIN_FOR, RETAIN_WAITING, Told, policy_for
from worker.cli import FOUND, output
from worker.cli.reach import need, quiet_pool, reach
from worker.cli.where import where_option
from worker.config import WorkerConfig


@click.group()
def policy() -> None:
    """List, set or remove how long threads of one tenant, or single ones, are kept.

    A policy goes before the TIER_ variables, one that names a thread before one for metadata, and what a run says of
    its own thread in its metadata before both. A legal hold keeps everything, also from being deleted by name.
    """


@policy.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def list_(as_json: bool) -> None:
    """Show all policies."""
    found = asyncio.run(_list(WorkerConfig.load()))
    if as_json:
        output.print_json([one._asdict() for one in found])
        return
    shown = output.table("policy")
    for title in ("threads", "wishes"):
        shown.add_column(title, overflow="fold")
    for one in found:
        whom = output.shown(one.thread_id) if one.thread_id is not None else _spelled(one.metadata or {})
        output.row(shown, (one.name, whom, _spelled(one.wishes)))
    output.result().print(shown)


@policy.command("set")
@click.argument("name")
@click.option("--thread", "thread_id", help="The thread that it is for.")
@where_option
@click.option("--retain-for", help="Like TIER_RETAIN_FOR: 90d, or off.")
@click.option("--keep-checkpoints", help="Like TIER_KEEP_CHECKPOINTS: 5, or off.")
@click.option("--retain-waiting", type=click.Choice(["keep", "expire"]), help="Like TIER_RETAIN_WAITING.")
@click.option("--hold", is_flag=True, help="Legal hold: nothing is deleted, whoever asks for it.")
def set_(
    name: str,
    thread_id: str | None,
    where: dict[str, Any],
    retain_for: str | None,
    keep_checkpoints: str | None,
    retain_waiting: str | None,
    hold: bool,
) -> None:
    """Set a policy for one thread (--thread), or for all whose newest checkpoint says something (--where)."""
    if (thread_id is None) is (not where):
        raise click.UsageError("say either --thread or --where")
    told = {
        RETAIN_FOR: retain_for,
        KEEP_CHECKPOINTS: keep_checkpoints,
        RETAIN_WAITING: retain_waiting,
        LEGAL_HOLD: hold or None,
    }
    wishes = {key: value for key, value in told.items() if value is not None}
    if not wishes:
        raise click.UsageError("say --retain-for, --keep-checkpoints, --retain-waiting or --hold")
    config = WorkerConfig.load()
    try:
        policy_for(config, Told(wishes))
    except ValueError as fault:
        raise click.UsageError(str(fault)) from None
    asyncio.run(_change(config, NamedPolicy(name, thread_id, where or None, wishes)))
    click.echo(f"policy {name} is in force")


@policy.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Remove a policy; what it held back may be deleted by the next run."""
    if not asyncio.run(_remove(WorkerConfig.load(), name)):
        output.message(f"there is no policy {output.shown(name)}")
        sys.exit(FOUND)
    click.echo(f"policy {name} is removed")


async def _list(config: WorkerConfig) -> Sequence[NamedPolicy]:
    async with reach(config) as found:
        need(found, cold=True)
        return await list_policies(found.tiers)


async def _change(config: WorkerConfig, one: NamedPolicy) -> None:
    quiet_pool()
    async with connect(config) as tiers:
        await set_policy(tiers, one)


async def _remove(config: WorkerConfig, name: str) -> bool:
    quiet_pool()
    tiers: Tiers
    async with connect(config) as tiers:
        return await remove_policy(tiers, name)


def _spelled(pairs: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in pairs.items())
