"""Whether somebody does the work: workers that live, and writes that wait for them."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from saver.config import TierConfig
from saver.durations import format_duration
from saver.keys import Keys
from saver.survey import ALIVE_MS
from worker.doctor.report import Report

LONGEST_WAIT = timedelta(minutes=1)  # and ten times TIER_ARCHIVE_AFTER


async def examine(config: TierConfig, ask: Callable[..., Awaitable[Any]], report: Report) -> None:
    """Count the living workers and look for the oldest write that is not in Postgres."""
    if (told := await ask("TIME")) is None:
        report.cannot_see("workers: the user may not use TIME")
        return
    now_ms = int(told[0]) * 1000
    keys = Keys(config.key_prefix, config.partitions)
    alive = await ask("ZCOUNT", keys.workers, now_ms - ALIVE_MS, "+inf")
    if alive is None:
        report.cannot_see("workers: the user may not use ZCOUNT")
        return
    oldest = [await ask("ZRANGE", keys.dirty(at), 0, 0, "WITHSCORES") for at in range(keys.partitions)]
    waited = timedelta(milliseconds=max(now_ms - min((float(one[1]) for one in oldest if one), default=now_ms), 0))
    if waited <= max(LONGEST_WAIT, 10 * config.archive_after):
        report.note(f"workers: {alive} alive; no write has waited for long")
        return
    whole_seconds = timedelta(seconds=waited // timedelta(seconds=1))
    report.find(
        f"{alive} workers live, and a write has waited {format_duration(whole_seconds)} for Postgres",
        "a loss of Redis loses everything that waits, and Redis fills up",
        "look into the logs of the workers, and at what else is to be mended" if alive else "run: arq worker.Settings",
    )
