"""
Prune: delete checkpoints that the newest ones do without, or those that some runs made.

What a checkpoint that stays is read from stays too: its blobs and writes, the parent that keeps the sends of an old
format, and for delta channels the ancestors back to one that stores the value. Such an ancestor is kept for its writes;
read for itself it may lack channels whose value was stored before it. Writes whose checkpoint is not stored yet stay.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from saver.archive import archive
from saver.cold import Transaction
from saver.connect import Tiers
from saver.destroy import change_cold, delete, drain
from saver.errors import ColdTierError, ThreadHeld
from saver.listing import Query, entries_of
from saver.storable import check_ids

STRATEGIES = ("keep_latest", "delete")

log = logging.getLogger(__name__)


def checked_threads(thread_ids: Sequence[str], strategy: str) -> list[str]:
    """The ids as text. Raises TypeError for a single string, ValueError for an unknown strategy."""
    if isinstance(thread_ids, str):
        raise TypeError("thread_ids must be a sequence of thread ids, not a str")
    if strategy not in STRATEGIES:
        raise ValueError(f"Unknown prune strategy: {strategy!r}; write one of {', '.join(STRATEGIES)}")
    ids = [str(thread_id) for thread_id in thread_ids]
    for thread_id in ids:
        check_ids("thread_id", (thread_id,))
    return ids


def checked_runs(run_ids: Sequence[str]) -> list[str]:
    """The ids as text. Raises TypeError for a single string."""
    if isinstance(run_ids, str):
        raise TypeError("run_ids must be a sequence of run ids, not a str")
    return [str(run_id) for run_id in run_ids]


async def prune(tiers: Tiers, thread_ids: Sequence[str], strategy: str) -> None:
    """
    Prune threads one after the other, each in a transaction of its own, so an error leaves those before it pruned.

    Raises HotTierError, ColdTierError; ThreadHeld at the end if there is a legal hold on any.
    """

    async def one(thread_id: str) -> None:
        await (delete(tiers, thread_id) if strategy == "delete" else keep_newest(tiers, thread_id, 1))

    await _each(thread_ids, one)


async def _each(thread_ids: Iterable[str], act: Callable[[str], Awaitable[None]]) -> None:
    """A thread that is held does not hold up those behind it."""
    refused: ThreadHeld | None = None
    for thread_id in thread_ids:
        try:
            await act(thread_id)
        except ThreadHeld as error:
            refused = error
    if refused:
        raise refused


async def keep_newest(tiers: Tiers, thread_id: str, keep: int) -> None:
    """Keep the newest checkpoints of each namespace of a thread, with all they are read from."""

    async def change(transaction: Transaction) -> None:
        await forget_outlived(transaction, thread_id, keep)

    await change_cold(tiers, thread_id, change)


async def forget_outlived(transaction: Transaction, thread_id: str, keep: int) -> int:
    """Delete what the newest checkpoints of each namespace do without; the thread must be locked and not in hot."""
    gone = await transaction.fetch("outlived", {"thread_id": thread_id, "keep": keep})
    await _forget(transaction, thread_id, gone)
    return len(gone)


async def delete_for_runs(tiers: Tiers, run_ids: list[str]) -> None:
    """
    Delete the checkpoints that runs made, with their writes, from all threads. Raises HotTierError, ColdTierError, and
    ThreadHeld at the end if there is a legal hold on any of the threads.

    A checkpoint from whose writes a later one rebuilds its delta channels stays, and is logged.
    """
    if not run_ids:
        return
    aside = await _archive_all(tiers, run_ids)

    async def find(transaction: Transaction) -> list[Any]:
        return await transaction.fetch("threads_of_runs", {"run_ids": run_ids})

    found = {thread_id for (thread_id,) in await tiers.cold.transact(find, timeout=tiers.move_timeout)}
    await _each(sorted(found | aside), lambda thread_id: _delete_runs_of(tiers, thread_id, run_ids))


async def _delete_runs_of(tiers: Tiers, thread_id: str, runs: Sequence[str]) -> None:
    async def change(transaction: Transaction) -> None:
        parameters = {"thread_id": thread_id, "run_ids": runs}
        gone = await transaction.fetch("of_runs", parameters)
        await _forget(transaction, thread_id, gone)
        *_, left = await transaction.fetch_many(
            [
                ("settle", parameters),
                ("settle_labels", parameters),
                ("label", {"thread_ids": [thread_id]}),
                ("count_of_runs", parameters),
            ]
        )
        if left[0][0]:
            log.warning(
                "checkpoints of deleted runs stay: later state is rebuilt from them",
                extra={"thread_id": thread_id, "checkpoints": left[0][0]},
            )

    await change_cold(tiers, thread_id, change)


async def _forget(transaction: Transaction, thread_id: str, gone: Sequence[Sequence[str]]) -> None:
    if not gone:
        return
    namespaces, checkpoint_ids = zip(*gone, strict=True)
    where = {"thread_id": thread_id, "namespaces": list(namespaces), "checkpoint_ids": list(checkpoint_ids)}
    names = ("forget_writes", "forget_blobs", "forget_checkpoints", "forget_parents")
    await transaction.fetch_many([(name, where) for name in names])


async def _archive_all(tiers: Tiers, runs: Sequence[str]) -> set[str]:
    """
    Archive what waits for Postgres, so that one question to cold finds the runs of all threads.

    Returns those threads of the runs that are in hot alone: Postgres refuses them, or they vanish by themselves.
    """
    alone: list[str] = []
    for partition in range(tiers.keys.partitions):
        dirty = await tiers.hot.command("ZRANGE", tiers.keys.dirty(partition), 0, -1)
        aside = await tiers.hot.command("HKEYS", tiers.keys.quarantine(partition))
        alone += [member.decode() for member in aside]
        alone += await _drain_many(tiers, [member.decode() for member in dirty])
        if tiers.config.on_idle == "expire":
            resident = await tiers.hot.command("ZRANGE", tiers.keys.idle(partition), 0, -1)
            alone += [member.decode() for member in resident]
    found = set()
    for thread_id in alone:
        entries = await entries_of(tiers, Query(thread_id, None, "", "", None), thread_id)
        if any(entry.row and str(json.loads(entry.row.metadata).get("run_id")) in runs for entry in entries.values()):
            found.add(thread_id)
    return found


async def _drain_many(tiers: Tiers, thread_ids: Sequence[str]) -> list[str]:
    """Archive the logs of many threads in few transactions; returns the threads that Postgres refuses."""
    refused = []
    size = tiers.config.batch_threads
    for part in (thread_ids[at : at + size] for at in range(0, len(thread_ids), size)):
        try:
            clean = (await archive(tiers, part)).clean
        except ColdTierError as error:
            if not error.is_refusal:
                raise
            clean = set()
        left = [thread_id for thread_id in part if thread_id not in clean]
        refused += [thread_id for thread_id in left if not await _is_drained(tiers, thread_id)]
    return refused


async def _is_drained(tiers: Tiers, thread_id: str) -> bool:
    try:
        await drain(tiers, thread_id)
    except ColdTierError as error:
        if not error.is_refusal:
            raise
        return False
    return True
