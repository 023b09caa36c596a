"""
What arq calls: one function per job, around the movers of `jobs`.

A tier that fails is counted, logged and waited for; arq sees such a job as done, because the sweep asks for it again.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from redis.exceptions import RedisError

from jobs.archive import ArchiveTurn, archive_due
from jobs.demote import demote_due
from jobs.promote import promote_everywhere, promote_wanted
from jobs.retain import retain as retain_some
from jobs.retention import Place
from jobs.sweep import sweep as sweep_partitions
from saver.connect import Tiers
from saver.errors import ColdTierError, HotTierError
from saver.queue import bucket_seconds, job_id, place_in_line
from saver.survey import shared
from worker import metrics
from worker.breaker import Breaker
from worker.queue import QueueRedis
from worker.shares import Shares

log = logging.getLogger(__name__)
T = TypeVar("T")
Context = dict[str, Any]

MOVERS = ("archive", "demote", "promote")
HOUR_SECONDS = 3600
LATE_SECONDS = 600  # how late a retention run may be before it is made up for


@dataclass(slots=True)
class Work:
    """What the jobs of this process share."""

    tiers: Tiers
    queue: QueueRedis
    shares: Shares = field(default_factory=Shares)
    breaker: Breaker = field(default_factory=Breaker)
    successes: metrics.Successes = field(default_factory=metrics.Successes)
    running: set[tuple[str, int | None]] = field(default_factory=set)

    async def ask(self, job: str, partition: int | None, *, later: bool = False) -> None:
        """
        Queue a job once per partition and few seconds; `later` while one of that name still runs.

        Who had a turn and is not done stands in line like all others: one kind of work does not keep out the rest.
        """
        if self.breaker.is_paused:
            return
        moment = time.time() + (bucket_seconds(job) if later else 0)
        place = place_in_line("" if later else job)
        name = job_id(self.tiers.config, job, partition, moment)
        await self.queue.enqueue_job(job, partition, _job_id=name, **place)

    @asynccontextmanager
    async def attempt(self, job: str) -> AsyncIterator[None]:
        """Time a job, count its outcome, trip the breaker when a tier failed."""
        started = time.monotonic()
        try:
            yield
            await self.successes.note(self.tiers, job)
            if job in MOVERS:
                self.breaker.close()
        except (HotTierError, ColdTierError) as error:
            if job in MOVERS:
                self.breaker.trip()
            self._failed(job, "hot" if isinstance(error, HotTierError) else "cold", str(error))
        except (RedisError, OSError) as error:
            self._failed(job, "queue", type(error).__name__)
        except asyncio.CancelledError:
            metrics.JOB_FAILURES.labels(job, "cancelled").inc()
            raise
        except Exception:
            metrics.JOB_FAILURES.labels(job, "error").inc()
            raise
        finally:
            if job in MOVERS:
                self.breaker.end_probe()
            metrics.JOB_SECONDS.labels(job).observe(time.monotonic() - started)

    def _failed(self, job: str, tier: str, reason: str) -> None:
        metrics.JOB_FAILURES.labels(job, tier).inc()
        log.warning("job stopped", extra={"job": job, "tier": tier, "reason": reason})


async def archive(ctx: Context, partition: int) -> None:
    """Archive what is due in a partition."""

    async def move(work: Work) -> bool:
        done = await archive_due(work.tiers, partition)
        _count_archived("archive", done)
        _tell("threads archived", partition, threads=done.threads, rows=done.rows)
        return done.is_done

    await _move(ctx, "archive", partition, move)


async def demote(ctx: Context, partition: int) -> None:
    """Demote what is idle in a partition."""

    async def move(work: Work) -> bool:
        done = await demote_due(work.tiers, partition)
        metrics.DEMOTED_THREADS.inc(done.demoted)
        metrics.VANISHED_THREADS.inc(done.vanished)
        _count_archived("demote", done.archived)
        _tell("threads demoted", partition, threads=done.demoted, vanished=done.vanished)
        return done.is_done

    await _move(ctx, "demote", partition, move)


async def promote(ctx: Context, partition: int | None) -> None:
    """Promote what was asked for, in a partition or in all."""

    async def move(work: Work) -> bool:
        tiers = work.tiers
        done = await (promote_everywhere(tiers) if partition is None else promote_wanted(tiers, partition))
        metrics.PROMOTED_THREADS.inc(done.promoted)
        metrics.JOB_FAILURES.labels("promote", "refused").inc(done.failed)
        _tell("threads promoted", partition, threads=done.promoted, failed=done.failed)
        return done.is_done

    await _move(ctx, "promote", partition, move)


async def retain(ctx: Context, *place: str) -> None:
    """Retain for a while, from a place on; ask for the rest."""
    work: Work = ctx["work"]
    async with work.attempt("retain"):
        done = await retain_some(work.tiers, Place(*place) if place else None)  # type: ignore[arg-type]
        for action in metrics.RETAIN_ACTIONS:
            metrics.RETAINED_THREADS.labels(action).inc(getattr(done, action))
        if done.place and not done.is_elsewhere:
            next_id = job_id(work.tiers.config, "retain", 0, time.time() + bucket_seconds("retain"))
            await work.queue.enqueue_job("retain", *done.place, _job_id=next_id)
        elif counted := {name: count for name in metrics.RETAIN_ACTIONS if (count := getattr(done, name))}:
            log.info("retention is done", extra=counted)


async def sweep(ctx: Context) -> None:
    """Ask for the jobs that are due; what nobody waits for has succeeded."""
    work: Work = ctx["work"]
    async with work.attempt("sweep"):
        swept = await sweep_partitions(work.tiers, work.ask)
        if swept.is_emptied:
            metrics.HOT_EMPTIED.inc()
            log.error(
                "Redis was emptied: what was not in Postgres yet is gone, every other thread is served from there"
            )
        nothing_due = [job for job, partitions in swept.partitions.items() if not partitions]
        await work.successes.note(work.tiers, *nothing_due)
        if await is_retention_overdue(work.tiers, work.successes):
            late_id = f"{work.tiers.config.key_prefix}:retain:late:{int(time.time() / LATE_SECONDS)}"
            await work.queue.enqueue_job("retain", _job_id=late_id)


async def is_retention_overdue(tiers: Tiers, successes: metrics.Successes) -> bool:
    """Whether a scheduled run was missed, because no worker ran at that time. Asked for real once in a while."""
    if not successes.is_time("overdue", LATE_SECONDS):
        return False
    last = (await shared(tiers)).get(metrics.SUCCESS + "retain")
    if last is None:
        # Nothing was missed: retention is new here, and waits for its time.
        await successes.note(tiers, "retain")
        return False
    period = HOUR_SECONDS if tiers.config.retention_at == "hourly" else 24 * HOUR_SECONDS
    return time.time() - last > period + LATE_SECONDS


async def _move(ctx: Context, job: str, partition: int | None, move: Callable[[Work], Awaitable[bool]]) -> None:
    work: Work = ctx["work"]
    # A second job on the same partition would wait for the first; what it might miss, the sweep finds.
    if (job, partition) in work.running or not work.shares.has_room(job, partition) or not work.breaker.lets_pass():
        return
    work.running.add((job, partition))
    work.shares.take(job)
    try:
        async with work.attempt(job):
            if work.breaker.is_probing:
                # A job that finds nothing to do would say nothing about Postgres.
                await work.tiers.cold.fetch("answers", {})
            if not await move(work):
                await work.ask(job, partition, later=True)
    finally:
        work.running.discard((job, partition))
        if put_off := work.shares.give_back(job):
            with suppress(RedisError, OSError):  # then the sweep asks for it
                await work.ask(*put_off)


def tell_of_empty_redis() -> None:
    """Once for each time, by the worker that finds it so."""
    metrics.HOT_EMPTIED.inc()
    log.error("Redis was emptied: what was not in Postgres yet is gone, every other thread is served from there")


def _tell(event: str, partition: int | None, **counts: int) -> None:
    if any(counts.values()):
        log.info(event, extra={"partition": partition, **counts})


def _count_archived(job: str, done: ArchiveTurn) -> None:
    metrics.ARCHIVED_THREADS.inc(done.threads)
    metrics.ARCHIVED_ROWS.inc(done.rows)
    metrics.ARCHIVED_BYTES.inc(done.size_bytes)
    metrics.CONTENDED_THREADS.inc(done.contended)
    metrics.TRIMMED_ROWS.inc(done.trimmed_rows)
    metrics.JOB_FAILURES.labels(job, "refused").inc(done.quarantined)
