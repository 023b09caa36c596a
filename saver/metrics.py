"""Metrics of the agent's side; their names are public. Those of the workers stand in `worker/metrics.py`."""

import time
from types import TracebackType

from prometheus_client import Counter

from saver.errors import ColdTierError, HotTierError, InvalidThread, StaleRun, TierError
from saver.notes import NotedCounter, NotedHistogram, Notes

_OPERATIONS = (
    "get_tuple",
    "list",
    "put",
    "put_writes",
    "delete_thread",
    "delete_for_runs",
    "copy_thread",
    "prune",
    "get_delta_channel_history",
)
# What stands in the way: a tier, or the call itself; stale is a late put whose parent is gone.
_REASONS: dict[type[TierError], str] = {
    HotTierError: "hot",
    ColdTierError: "cold",
    StaleRun: "stale",
    InvalidThread: "invalid",
}

_reads = NotedCounter("tier_reads", "Checkpoints read, by the tier that answered.", ["tier", "outcome"])
_writes = NotedCounter("tier_writes", "Checkpoints and task writes stored.", ["kind"])
_operations = NotedHistogram(
    "tier_operation_seconds",
    "Time of one call of the saver.",
    ["operation"],
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)
_errors = Counter(
    "tier_operation_errors",
    "Calls of the saver that ended in an error, by what was in the way.",
    ["operation", "reason"],
)

READS = {
    (tier, outcome): Notes(_reads.labels(tier, outcome).inc)
    for tier in ("hot", "cold")
    for outcome in ("hit", "none", "error")
}
WRITES = {kind: Notes(_writes.labels(kind).inc) for kind in ("checkpoint", "writes")}
_SECONDS = {name: Notes(_operations.labels(name).observe) for name in _OPERATIONS}
_ERRORS = {(name, kind): _errors.labels(name, reason) for name in _OPERATIONS for kind, reason in _REASONS.items()}


class measured:  # noqa: N801 - reads as a verb where it is used
    """Time one call of the saver, and count the error that it ends in."""

    __slots__ = ("_operation", "_started")

    def __init__(self, operation: str) -> None:
        self._operation = operation

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now = time.perf_counter()
        _SECONDS[self._operation].note(now - self._started, now)
        if kind in _REASONS:
            _ERRORS[self._operation, kind].inc()
            if self._operation == "get_tuple" and kind in (HotTierError, ColdTierError):
                READS[_REASONS[kind], "error"].inc()
