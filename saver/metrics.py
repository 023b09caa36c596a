"""Metrics of the agent's side; their names are public. Those of the workers stand in `worker/metrics.py`."""

from prometheus_client import Counter, Histogram

_reads = Counter("tier_reads", "Checkpoints read, by the tier that answered.", ["tier", "outcome"])
_writes = Counter("tier_writes", "Checkpoints and task writes stored.", ["kind"])
_operations = Histogram(
    "tier_operation_seconds",
    "Time of one call of the saver.",
    ["operation"],
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)

READS = {
    (tier, outcome): _reads.labels(tier, outcome) for tier in ("hot", "cold") for outcome in ("hit", "none", "error")
}
WRITES = {kind: _writes.labels(kind) for kind in ("checkpoint", "writes")}
OPERATION_SECONDS = {
    name: _operations.labels(name)
    for name in (
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
}
