"""Metrics of the agent's side; their names are public. Those of the workers stand in `worker/metrics.py`."""

import time
from types import TracebackType

from prometheus_client import Counter, Histogram

from saver.errors import ColdTierError, HotTierError, InvalidThread, StaleRun, TierError

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

_reads = Counter("tier_reads", "Checkpoints read, by the tier that answered.", ["tier", "outcome"])
_writes = Counter("tier_writes", "Checkpoints and task writes stored.", ["kind"])
_operations = Histogram(
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
    (tier, outcome): _reads.labels(tier, outcome) for tier in ("hot", "cold") for outcome in ("hit", "none", "error")
}
WRITES = {kind: _writes.labels(kind) for kind in ("checkpoint", "writes")}
_SECONDS = {name: _operations.labels(name) for name in _OPERATIONS}
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
        _SECONDS[self._operation].observe(time.perf_counter() - self._started)
        if kind in _REASONS:
            _ERRORS[self._operation, kind].inc()
            if self._operation == "get_tuple" and kind in (HotTierError, ColdTierError):
                READS[_REASONS[kind], "error"].inc()
