"""
What the metrics of a call are still to be told.

A call only notes what happened. Metrics are told together, before each scrape and once a second while there are calls:
one by one, each call would find their code and their buckets cold, after other work of the agent.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import perf_counter

from prometheus_client import Counter, Histogram, Metric

TELL_AFTER_SECONDS = 1.0

_all: list["Notes"] = []


class Notes:
    """What one metric is still to be told. Any number of threads may use it; it lives as long as its process."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        self._tell = tell
        self._waiting: deque[float] = deque()
        self._tell_at = 0.0
        _all.append(self)

    def inc(self) -> None:
        self.note(1.0, perf_counter())

    def note(self, value: float, now: float) -> None:
        self._waiting.append(value)
        if now >= self._tell_at:
            self._tell_at = now + TELL_AFTER_SECONDS
            self.tell()

    def tell(self) -> None:
        with suppress(IndexError):
            while True:
                self._tell(self._waiting.popleft())


class NotedCounter(Counter):
    """Hears what was noted when it is scraped."""

    def collect(self) -> Iterable[Metric]:
        _tell_all()
        return super().collect()


class NotedHistogram(Histogram):
    """Hears what was noted when it is scraped."""

    def collect(self) -> Iterable[Metric]:
        _tell_all()
        return super().collect()


def _tell_all() -> None:
    for notes in _all:
        notes.tell()
