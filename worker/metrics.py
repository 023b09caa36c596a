"""
The metrics of a worker; their names are public. Those of an agent stand in `saver/metrics.py`.

Counters and histograms are of this process. The gauges of the whole system are computed by one worker for all, so
that each reports the same whichever is scraped; one that could not be computed is left out rather than wrong.
"""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, Info, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from saver.connect import Tiers
from saver.errors import ColdTierError, HotTierError
from saver.survey import clock_ms, cold_threads, share, shared, survey_hot

JOBS = ("archive", "demote", "promote", "retain", "sweep")
RETAIN_ACTIONS = ("deleted", "shortened", "waiting", "in_use", "held", "unclear", "too_slow")
REASONS = ("hot", "cold", "queue", "refused", "cancelled", "error")
FRESH_SECONDS = 3.0  # gauges this young are good enough for the next worker that is scraped
COLD_SECONDS = 2.0  # a scrape waits no longer for Postgres

disable_created_metrics()  # type: ignore[no-untyped-call]  # one more series for each one, which nobody reads

ARCHIVED_THREADS = Counter("tier_archived_threads", "Threads whose log was copied to Postgres.")
ARCHIVED_ROWS = Counter("tier_archived_rows", "Rows copied to Postgres.")
ARCHIVED_BYTES = Counter("tier_archived_bytes", "Bytes of content copied to Postgres.")
CONTENDED_THREADS = Counter(
    "tier_contended_threads", "Threads that a job left to another worker, which was moving them at that moment."
)
TRIMMED_ROWS = Counter("tier_trimmed_rows", "Rows of threads in use that left Redis after they were archived.")
DEMOTED_THREADS = Counter("tier_demoted_threads", "Threads that left Redis because they were idle.")
VANISHED_THREADS = Counter("tier_vanished_threads", "Threads that ended with TIER_ON_IDLE=expire, in Redis alone.")
PROMOTED_THREADS = Counter("tier_promoted_threads", "Threads that were brought into Redis ahead of need.")
RETAINED_THREADS = Counter(
    "tier_retained_threads", "Threads that retention is about, by what was done with them.", ["action"]
)
JOB_SECONDS = Histogram(
    "tier_job_seconds",
    "Time of one job.",
    ["job"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
JOB_FAILURES = Counter(
    "tier_job_failures",
    "Jobs that did not do their work, by what was in the way; refused counts threads set aside.",
    ["job", "reason"],
)
HOT_EMPTIED = Counter(
    "tier_hot_emptied", "How often this worker found Redis empty that had been in use: what was not archived is gone."
)
UP = Gauge("tier_up", "Whether a tier answered at the last scrape.", ["tier"])
BUILD = Info("tier_build", "The version of this worker.")

_SYSTEM = {
    "tier_hot_threads": "Threads in Redis.",
    "tier_dirty_threads": "Threads with rows that are not in Postgres yet.",
    "tier_oldest_dirty_seconds": "Age of the oldest row that is not in Postgres yet; 0 if there is none.",
    "tier_idle_due_threads": "Threads in Redis that nobody touched for TIER_DEMOTE_AFTER.",
    "tier_wanted_threads": "Threads that wait to be promoted.",
    "tier_quarantined_threads": "Threads that cannot be archived, set aside so that they do not starve others.",
    "tier_hot_bytes": "Memory of all threads in Redis, estimated from a sample of them.",
    "tier_workers": "Workers whose main loop runs, wherever they are.",
    "tier_cold_threads": "Threads in Postgres.",
}
_HOT_NAMES = tuple(_SYSTEM)[:8]  # in the order of HotSurvey
_SURVEYED, _COLD_UP = "surveyed_ms", "cold_up"
SUCCESS = "success:"

log = logging.getLogger(__name__)


class _System(Collector):
    """The gauges of the whole system, as they were read last."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.own: dict[str, float] = {}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, text in _SYSTEM.items():
            if name in self.values:
                yield GaugeMetricFamily(name, text, value=self.values[name])
        success = GaugeMetricFamily(
            "tier_last_success_timestamp_seconds",
            "When a job last did its work, or found that there was none; 0 if it never did.",
            labels=["job"],
        )
        for job in JOBS:
            moment = max(values.get(SUCCESS + job, 0) for values in (self.values, self.own))
            # Without an answer of Redis nobody knows, and a retention that nobody wants never succeeds.
            if moment or (self.values and job != "retain"):
                success.add_metric([job], moment)
        yield success


SYSTEM = _System()
REGISTRY.register(SYSTEM)
for _job in JOBS:
    JOB_SECONDS.labels(_job)
    for _reason in REASONS:
        JOB_FAILURES.labels(_job, _reason)
for _action in RETAIN_ACTIONS:
    RETAINED_THREADS.labels(_action)
try:
    BUILD.info({"version": version("langgraph-checkpoint-tiered")})
except PackageNotFoundError:
    BUILD.info({"version": "unknown"})


class Successes:
    """When each job last succeeded here, told to the other workers once a second at most."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def is_time(self, what: str, seconds: float) -> bool:
        """Whether so many seconds passed since this was last answered with yes."""
        now = time.monotonic()
        if now < self._next.get(what, 0):
            return False
        self._next[what] = now + seconds
        return True

    async def note(self, tiers: Tiers, *jobs: str) -> None:
        """An attempt did its work, or explicitly found nothing."""
        now = time.time()
        if due := {SUCCESS + job: now for job in jobs if self.is_time(job, 1)}:
            SYSTEM.own |= due
            await _tell(tiers, due)


async def refresh(tiers: Tiers) -> None:
    """Bring the gauges of the system up to date, unless another worker just did."""
    try:
        values = await shared(tiers)
        now_ms = await clock_ms(tiers)
        if not 0 <= now_ms - values.get(_SURVEYED, 0) < FRESH_SECONDS * 1000:
            survey = await _survey(tiers, now_ms)
            values |= survey
            await _tell(tiers, survey)
    except HotTierError as error:
        UP.labels("hot").set(0)
        SYSTEM.values = {}
        log.warning("gauges cannot be read", extra={"reason": str(error)})
        return
    UP.labels("hot").set(1)
    UP.labels("cold").set(values.get(_COLD_UP, 0))
    SYSTEM.values = values


async def _tell(tiers: Tiers, values: dict[str, float]) -> None:
    try:
        await share(tiers, values)
    except HotTierError as error:
        # A full Redis takes nothing; that is no reason to say nothing, or to stop a job.
        log.debug("numbers cannot be shared", extra={"reason": str(error)})


async def _survey(tiers: Tiers, now_ms: int) -> dict[str, float]:
    values = dict(zip(_HOT_NAMES, map(float, astuple(await survey_hot(tiers))), strict=True))
    values[_SURVEYED] = now_ms
    values[_COLD_UP] = 0
    with suppress(ColdTierError, TimeoutError):
        async with asyncio.timeout(COLD_SECONDS):
            values["tier_cold_threads"] = await cold_threads(tiers)
            values[_COLD_UP] = 1
    return values
