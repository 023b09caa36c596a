"""The clocks of this machine, of Redis and of Postgres, compared with each other."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from worker.doctor.report import Report

MOST_SECONDS = 1.0  # arq runs a tick of its schedule twice when two clocks differ by three


class Offset(NamedTuple):
    """How far a clock is ahead of ours, and how sure that is: half of the round trip."""

    seconds: float
    margin: float


async def measure(ask: Callable[[], Awaitable[float]]) -> Offset:
    """Ask for the time three times and keep the quickest answer."""
    found = []
    for _ in range(3):
        start = time.time()
        told = await ask()
        end = time.time()
        found.append(Offset(told - (start + end) / 2, (end - start) / 2))
    return min(found, key=lambda offset: offset.margin)


def examine(offsets: Mapping[str, Offset], report: Report) -> None:
    """Compare each server's clock with that of this machine, and the servers with each other."""
    for name, (seconds, margin) in offsets.items():
        if abs(seconds) - margin > MOST_SECONDS:
            side = "ahead of" if seconds > 0 else "behind"
            report.find(
                f"the clock of {name} is {abs(seconds):.1f} s {side} the one of this machine",
                "jobs are deferred too long or run twice, and the log is hard to follow; no thread is lost by it",
                "run NTP (chrony, systemd-timesyncd) on both machines",
            )
        else:
            report.note(f"{name}: {seconds * 1000:+.0f} ms, give or take {margin * 1000:.0f}")
    values = [offset.seconds for offset in offsets.values()]
    slack = sum(offset.margin for offset in offsets.values())
    if len(values) == 2 and abs(values[0] - values[1]) - slack > MOST_SECONDS and not report.findings:
        report.find(
            f"the clocks of Redis and Postgres differ by {abs(values[0] - values[1]):.1f} s",
            "the age of a thread is not the same in both tiers; no thread is lost by it",
            "run NTP (chrony, systemd-timesyncd) on both machines",
        )
