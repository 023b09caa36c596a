"""
What `arq worker.Settings` runs: which jobs, when, on which queue, and how the process starts and stops.

arq reads the attributes of the class itself and drops names it does not know, so nothing here is inherited, and a test
compares what takes effect.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from datetime import UTC, timedelta
from functools import partial
from typing import NoReturn

from arq import cron, func
from arq.cron import CronJob
from structlog.contextvars import bind_contextvars

from saver import queue as hints
from saver.config import TierConfig
from saver.connect import connect
from saver.errors import TierError
from saver.survey import cold_threads, warn_of_eviction
from worker import functions as jobs
from worker import queue
from worker.config import WorkerConfig
from worker.functions import Context, Work, tell_of_empty_redis
from worker.health import Probes, serve
from worker.logs import configure_logging
from worker.presence import present
from worker.relief import relieving
from worker.shares import Shares

# A killed worker's job is free again after this and the 10 s that arq adds.
JOB_SECONDS = 30
# Each restart of a worker costs the jobs it cuts off one try; they end by themselves, so there is nothing to limit.
MOST_TRIES = 1000
# Longer than the clocks of two workers may differ: the second one finds the result and does not run the tick again.
TICK_SECONDS = 120
# Threads that are kept for less than this are looked for all the time, not at TIER_RETENTION_AT.
OFTEN = timedelta(hours=1)

_SWEEP_SECONDS = (1, 2, 3, 4, 5)  # divisors of a minute, as cron wants them
_RETAIN_SECONDS = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60)

log = logging.getLogger(__name__)


def make_settings() -> type:
    """The class that arq takes its settings from, for the environment of this process. Raises ConfigError."""
    config = WorkerConfig.load()
    configure_logging(config)
    arq_functions = [func(job) for job in (jobs.archive, jobs.demote, jobs.promote, jobs.retain, jobs.sweep)]
    # A tick of a worker that is configured otherwise must not fail here.
    arq_functions.append(func(jobs.retain, name=_tick_name(config, "retain"), keep_result=TICK_SECONDS))

    class Settings:
        functions = arq_functions
        cron_jobs = schedule(config)
        queue_name = hints.queue_name(config)
        redis_settings = queue.redis_settings(config)
        redis_pool = queue.open_queue(config)
        on_startup = partial(startup, config)
        on_shutdown = shutdown
        on_job_start = name_job
        job_serializer = queue.packed
        job_deserializer = queue.unpacked
        max_jobs = config.worker_jobs
        max_tries = MOST_TRIES
        job_timeout = JOB_SECONDS
        job_completion_wait = 20
        keep_result = 0
        poll_delay = 0.1
        queue_read_limit = 1000
        health_check_interval = 15
        allow_abort_jobs = False
        log_results = False
        timezone = UTC

    return Settings


def schedule(config: TierConfig) -> list[CronJob]:
    """The sweep every few seconds, retention at its time: a policy may want it. Names are global per Redis."""
    every = config.archive_after.total_seconds() / 4
    ticks = [_tick(config, "sweep", second=_often(every, _SWEEP_SECONDS), run_at_startup=True)]
    if config.retain_for is not None and config.retain_for < OFTEN:
        often = _often(config.retain_for.total_seconds() / 4, _RETAIN_SECONDS)
        ticks.append(_tick(config, "retain", second=often))
    elif config.retention_at == "hourly":
        ticks.append(_tick(config, "retain", minute=0, second=0))
    else:
        at = config.retention_at
        ticks.append(_tick(config, "retain", hour=at.hour, minute=at.minute, second=0))
    return ticks


async def startup(config: WorkerConfig, ctx: Context) -> None:
    """Open both tiers and the scrape address. Ends the process, in one sentence, when that cannot be."""
    if config.log_level == "info":
        # Two lines for each sweep; what was moved is told by the jobs themselves. arq sets levels after our import.
        logging.getLogger("arq.worker").setLevel(logging.WARNING)
    try:
        async with AsyncExitStack() as stack:
            tiers = await stack.enter_async_context(connect(config.tier))
            await warn_of_eviction(tiers)
            if tiers.is_first_use and await cold_threads(tiers):
                tell_of_empty_redis()
            ctx["work"] = Work(tiers, ctx["redis"], Shares(config.worker_jobs))
            await stack.enter_async_context(relieving(ctx))
            await stack.enter_async_context(present(tiers, ctx["redis"]))
            await stack.enter_async_context(serve(config, Probes(tiers, ctx["redis"]).routes))
            ctx["close"] = stack.pop_all().aclose
    except TierError as error:
        _end(str(error))
    log.info("worker is ready", extra={"queue": hints.queue_name(config), "partitions": config.partitions})


async def shutdown(ctx: Context) -> None:
    """Close what was opened; arq calls this after the jobs, and also when the start failed."""
    if close := ctx.pop("close", None):
        await close()
        log.info("worker has stopped")


async def name_job(ctx: Context) -> None:
    """Let every log line of a job name it; arq runs each in a task, so in a context, of its own."""
    bind_contextvars(job_id=ctx["job_id"])


def _tick(config: TierConfig, job: str, *, run_at_startup: bool = False, **when: int | set[int]) -> CronJob:
    return cron(
        getattr(jobs, job),
        name=_tick_name(config, job),
        keep_result=TICK_SECONDS,
        max_tries=MOST_TRIES,
        run_at_startup=run_at_startup,
        **when,  # type: ignore[arg-type]
    )


def _tick_name(config: TierConfig, job: str) -> str:
    return f"{config.key_prefix}:{job}"


def _often(wanted: float, steps: tuple[int, ...]) -> set[int]:
    """The seconds of a minute that are a step apart: the longest step that is no longer than wanted."""
    step = max((step for step in steps if step <= wanted), default=steps[0])
    return set(range(0, 60, step))


def _end(why: str) -> NoReturn:
    log.critical("the worker cannot start", extra={"reason": why})
    task = asyncio.current_task()
    if task is not None:
        # Else asyncio tells of it a second time, with a traceback.
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    raise SystemExit(1)
