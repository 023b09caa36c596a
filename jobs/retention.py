"""
The steps of a retention run, a page of threads at a time: adopt threads of the stock saver, delete what is old, then
what is old by a wish of its own, then shorten what is long.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from psycopg.rows import TupleRow

from saver import hot, policy
from saver.cold import Transaction
from saver.config import TierConfig
from saver.connect import Tiers
from saver.destroy import DELETES
from saver.policy import Policy, Told, policy_for
from saver.prune import forget_outlived

Ids = Mapping[str, Sequence[str]]
Step = Literal["adopt", "delete", "wish", "shorten"]
STEPS: tuple[Step, ...] = ("adopt", "delete", "wish", "shorten")

log = logging.getLogger(__name__)


class Place(NamedTuple):
    """How far a run is: deleting goes by last activity and thread id, the other steps by thread id."""

    step: Step = "adopt"
    moment: str = "-infinity"
    thread_id: str = ""

    @property
    def next_step(self) -> "Place | None":
        later = STEPS[STEPS.index(self.step) + 1 :]
        return Place(later[0]) if later else None


class Walk(NamedTuple):
    """Where the next page begins, how many threads it has, and the shortest time that any policy keeps threads for."""

    place: Place
    size: int
    age: timedelta | None


@dataclass(slots=True)
class Counts:
    """Threads by what was done with them, and why those that are due stay."""

    deleted: int = 0
    shortened: int = 0
    waiting: int = 0
    in_use: int = 0
    held: int = 0
    unclear: int = 0  # a wish that cannot be read
    too_slow: int = 0
    adopted: int = 0
    checkpoints: int = 0  # that left shortened threads

    def add(self, other: "Counts") -> None:
        for one in fields(Counts):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass(slots=True)
class Page:
    """What one transaction did."""

    next_place: Place | None
    counts: Counts = field(default_factory=Counts)


class Found(NamedTuple):
    """Threads of a page, and where the next one begins."""

    thread_ids: list[str]
    next_place: Place | None


class Standing(NamedTuple):
    """A thread as a policy sees it; no policy if its wishes cannot be read."""

    thread_id: str
    idle: timedelta
    policy: Policy | None


async def shortest_age(tiers: Tiers) -> timedelta | None:
    """The shortest time that TIER_RETAIN_FOR or any policy keeps threads for; None if all keep them for ever."""
    ages = [tiers.config.retain_for]
    for *_, wishes in await tiers.cold.fetch("policies", {}):
        try:
            ages.append(policy.read_age(wishes.get(policy.RETAIN_FOR)))
        except ValueError:
            continue  # the threads that it is about are counted as unclear
    return min((age for age in ages if age is not None), default=None)


async def anybody_shortens(tiers: Tiers) -> bool:
    """Whether TIER_KEEP_CHECKPOINTS or a policy keeps fewer than all: finding the long ones is a walk over them all."""
    return tiers.config.keep_checkpoints is not None or (await tiers.cold.fetch("any_shortening", {}))[0][0]


async def turn_page(tiers: Tiers, transaction: Transaction, where: Walk) -> Page | None:
    """Do the next page of a run, under the locks of its threads. None if another run is at it."""
    lock = ("lock_retention", {"schema": tiers.config.postgres_schema})
    if where.place.step == "adopt":
        [(is_ours,)] = await transaction.fetch(*lock)
        return await _adopt(transaction, where) if is_ours else None
    [(is_ours,)], records = await transaction.fetch_many([lock, walk(tiers.config, where)])
    if not is_ours:
        return None
    found = found_by(where, records)
    page = Page(found.next_place)
    if found.thread_ids:
        await tiers.pause("retain: found")
        do = _shorten if where.place.step == "shorten" else _delete
        await do(tiers, transaction, {"thread_ids": found.thread_ids}, page.counts)
    return page


# ---- finding


def walk(config: TierConfig, where: Walk) -> tuple[str, dict[str, Any]]:
    """The statement that finds the threads of the next page that may be due."""
    place, size, age = where
    by_id = {"after": place.thread_id, "limit": size}
    if place.step == "delete":
        seconds = age.total_seconds() if age else None
        return "idle_since", {**by_id, "moment": place.moment, "age": seconds}
    return ("wishing", by_id) if place.step == "wish" else ("overlong", {**by_id, "keep": config.keep_checkpoints})


def found_by(where: Walk, records: Sequence[TupleRow]) -> Found:
    """What it found."""
    place, size, _ = where
    if place.step == "shorten":
        [(reached, count, names)] = records
        return Found(names, Place("shorten", thread_id=reached) if count == size else place.next_step)
    names = [record[0] for record in records]
    if len(names) < size:
        return Found(names, place.next_step)
    return Found(names, Place(place.step, records[-1][1] if place.step == "delete" else "", names[-1]))


def standing(config: TierConfig, records: Sequence[TupleRow]) -> list[Standing]:
    """What decides about threads, by what is told of them."""
    found = []
    for thread_id, seconds, own, by_name, by_metadata in records:
        try:
            decided = policy_for(config, Told(own, by_name, by_metadata))
        except ValueError as fault:
            log.error("a thread is kept: %s", fault, extra={"thread_id": thread_id})
            decided = None
        found.append(Standing(thread_id, timedelta(seconds=seconds), decided))
    return found


# ---- doing


async def _adopt(transaction: Transaction, where: Walk) -> Page:
    place, size, _ = where
    [(last, count, adopted)] = await transaction.fetch("adopt", {"after": place.thread_id, "limit": size})
    goes_on = Place("adopt", thread_id=last) if count == size else place.next_step
    return Page(goes_on, Counts(adopted=adopted))


async def _delete(tiers: Tiers, transaction: Transaction, ids: Ids, counts: Counts) -> None:
    # After the locks, each statement with a snapshot of its own: an archiver may have committed before them.
    free, told, waiting = await transaction.fetch_many([("lock_free", ids), ("told_of", ids), ("waiting", ids)])
    threads = standing(tiers.config, _only(told, free))
    due = due_among(threads, {thread_id for (thread_id,) in waiting}, counts)
    await tiers.pause("retain: locked")
    gone = await _absent(tiers, due)
    await tiers.pause("retain: absent")
    if gone:
        await transaction.fetch_many([(name, {"thread_ids": gone}) for name in DELETES])
    await tiers.pause("retain: deleted")
    counts.deleted += len(gone)
    counts.in_use += len(due) - len(gone)


def due_among(threads: Sequence[Standing], waiting: set[str], counts: Counts) -> list[str]:
    """Which of these are to be deleted; counts those that stay though they are old enough."""
    old = {one.thread_id: one.policy for one in threads if one.policy and one.policy.is_old(one.idle)}
    held = {thread_id for thread_id, decided in old.items() if decided.is_held}
    spared = {name for name, decided in old.items() if name in waiting and decided.retain_waiting == "keep"} - held
    counts.held += len(held)
    counts.waiting += len(spared)
    counts.unclear += sum(one.policy is None for one in threads)
    return [thread_id for thread_id in old if thread_id not in held | spared]


async def _shorten(tiers: Tiers, transaction: Transaction, ids: Ids, counts: Counts) -> None:
    calls = [("lock_free", ids), ("told_of", ids), ("longest_namespaces", ids)]
    free, told, lengths = await transaction.fetch_many(calls)
    keeps = keeping(standing(tiers.config, _only(told, free)))
    long = longer(lengths, keeps)
    await tiers.pause("retain: locked")
    gone = await _absent(tiers, list(long))
    await tiers.pause("retain: absent")
    for thread_id in gone:
        counts.checkpoints += await forget_outlived(transaction, thread_id, long[thread_id])
    done = {thread_id: keep for thread_id, keep in keeps.items() if thread_id not in long or thread_id in gone}
    if done:
        await transaction.fetch("note_shortened", {"thread_ids": list(done), "keeps": list(done.values())})
    counts.shortened += len(gone)
    counts.in_use += len(long) - len(gone)


def keeping(threads: Sequence[Standing]) -> dict[str, int]:
    """How many checkpoints per namespace these keep, of those that do not keep all."""
    policies = {one.thread_id: one.policy for one in threads if one.policy and not one.policy.is_held}
    return {name: found.keep_checkpoints for name, found in policies.items() if found.keep_checkpoints is not None}


def longer(lengths: Sequence[TupleRow], keeps: Mapping[str, int]) -> dict[str, int]:
    """Those of which a namespace has more than they keep."""
    return {name: keeps[name] for name, length in lengths if name in keeps and length > keeps[name]}


def _only(told: Sequence[TupleRow], free: Sequence[TupleRow]) -> list[TupleRow]:
    locked = {thread_id for (thread_id,) in free}
    return [record for record in told if record[0] in locked]


async def _absent(tiers: Tiers, thread_ids: Sequence[str]) -> list[str]:
    """Which of these are not in Redis; no load of them can finish any more."""
    replies = await tiers.hot.call_many([hot.absent(tiers.keys.thread(name), name) for name in thread_ids])
    return [name for name, is_absent in zip(thread_ids, replies, strict=True) if is_absent]
